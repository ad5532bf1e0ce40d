"""Which of the papers' claims belong to a figure or table, and how they were judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from docs import tables
from fedlib import papers
from fedlib.paths import project_root

# Committed verdicts of `fedlib claims`: on the notebooks' seeds, and on seeds nobody had looked at.
QUICK, FRESH = "claims_quick.json", "claims_quick_seed_3.json"
NAMED = re.compile(r"(Figure|Table)s?((?:\s*(?:,|and|to)?\s*\d+[ab]?(?![\w.]))+)")
PART = re.compile(r"(to)?\s*(\d+)([ab]?)(?!\d)")


@dataclass(frozen=True)
class Judged:
    """A claim with its verdicts.

    Attributes:
        id, says: the claim, and in words.
        where: what the paper shows it with, as printed.
        verdict, fresh: on the notebooks' seeds and on fresh ones; ``"not claimed"`` of a claim that
            the quick preset cannot show.
        margin: of the statement that is closest to failing, with its spread over the seeds.
        reason: why it does not hold, where we know.
        real: on published runs with real data, at the paper's settings or, if ``cut``, at the
            laptop preset's; ``"not run"`` where there are none.
    """

    id: str
    says: str
    where: str
    verdict: str
    fresh: str
    margin: str = ""
    reason: str = ""
    real: str = "not run"
    cut: bool = False


def named(where: str) -> Iterator[str]:
    """The ids of the figures and tables in a claim's place, without the paper.

    >>> list(named("Figures 2, 5 to 7, Table 2b, appendix E.6"))
    ['figure_2', 'figure_5', 'figure_6', 'figure_7', 'table_2b']
    """
    for kind, numbers in NAMED.findall(where):
        last = 0
        for upto, digits, letter in PART.findall(numbers):
            for number in range(last + 1 if upto else int(digits), int(digits) + 1):
                yield f"{kind.lower()}_{number}{letter}"
            last = int(digits)


@cache
def _measured(file: str) -> dict[str, dict[str, Any]]:
    """Claim -> what ``fedlib claims --json`` said of it when it was measured."""
    path = project_root() / "data" / "results" / file
    claims = json.loads(path.read_text(encoding="utf-8"))["claims"]
    return {claim["id"]: claim for claim in claims}


@cache
def judged() -> dict[str, list[Judged]]:
    """Figure or table (``"fedopt/figure_1"``) -> the claims that it shows, in the papers' order."""
    shown: dict[str, list[Judged]] = {}
    real = tables.verdicts().set_index("claim")["real data"]
    for claim in papers.claims():
        quick = _measured(QUICK).get(claim["id"], {})
        fresh = _measured(FRESH).get(claim["id"], {})
        closest = min(quick.get("numbers", ()), key=lambda number: number["mean"], default=None)
        known = Judged(
            id=claim["id"],
            says=claim["says"],
            where=claim["where"],
            verdict=quick.get("verdict", "not claimed"),
            fresh=fresh.get("verdict", "not claimed"),
            margin=f"{closest['mean']:+.3f} ± {closest['spread']:.3f}" if closest else "",
            reason=quick.get("reason", ""),
            real=real[claim["says"]].removeprefix(tables.CUT).split(",")[0],
            cut=real[claim["says"]].startswith(tables.CUT),
        )
        for name in named(claim["where"]):
            shown.setdefault(f"{claim['paper']}/{name}", []).append(known)
    return shown
