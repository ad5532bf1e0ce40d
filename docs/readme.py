"""The tables of README.md that follow from the notebooks, the entries and the stored runs.

``python docs/readme.py`` (``make readme``) writes them between their marks; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import nbformat
import pandas as pd

from fedlib import files
from fedlib.errors import Error
from fedlib.paths import project_root
from fedlib.reproduction.compare import TOLERANCE, compare
from fedlib.reproduction.draw import entries
from fedlib.reproduction.reproduce import notebooks
from fedlib.results.store import Store

PAPERS = {"fedopt": "FedOpt", "mime": "Mime", "adafedadam": "AdaFedAdam", "delta_sgd": "Δ-SGD"}


def notebook_table() -> str:
    """A row per notebook: its name, its question, and what it draws of the papers."""
    rows = []
    for path in notebooks():
        title = nbformat.read(path, as_version=4).cells[0].source
        question = re.search(r"\*\*(.+?)\*\*", title, re.DOTALL)
        if question is None:
            raise Error(f"{path.name}: its first cell has no question in bold")
        drawn = [entry.id for entry in entries() if path.stem in entry.notebooks.values()]
        rows.append((f"`{path.stem}`", " ".join(question[1].split()), _drawn(drawn)))
    return _markdown(("notebook", "question", "draws"), rows)


def _drawn(ids: Iterable[str]) -> str:
    """``["fedopt/figure_2", "fedopt/figure_5"]`` -> ``"FedOpt Figures 2, 5"``."""
    texts = []
    for paper, label in PAPERS.items():
        kinds: dict[str, list[str]] = {}
        for name in (id.split("/")[1] for id in ids if id.startswith(f"{paper}/")):
            kind, number = name.split("_")
            kinds.setdefault(kind, []).append(number)
        words = [
            f"{kind.title()}{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
            for kind, numbers in sorted(kinds.items())
        ]
        texts += [f"{label} {', '.join(words)}"] if words else []
    return "; ".join(texts)


def agreement_table(store: Store | None = None) -> str:
    """What ``fedlib compare`` counts of the published runs, a row per paper.

    Args:
        store: default only the runs that the checkout publishes.
    """
    root = project_root() / "data" / "results"
    frame = compare(store or Store(root / "none", published=[root]))
    full = frame["comparable"] & (frame["rounds"] == frame["printed_rounds"]).fillna(False)
    real = frame["data"] == "real"
    counts = pd.DataFrame(
        {
            "paper": frame["paper"],
            "with": frame["seeds"] > 0,
            "real": real,
            "full": full & real,
            "within": full & real & (frame["difference"].abs() <= TOLERANCE),
        }
    )
    rows = []
    for paper, part in counts.groupby("paper", sort=False):
        numbers = part[["with", "real", "full", "within"]].sum()
        rows.append((PAPERS[str(paper)], str(len(part)), *(str(int(n)) for n in numbers)))
    head = (
        *("paper", "printed numbers", "with a run", "not on a stand-in"),
        *("of these comparable, at the printed rounds", f"within {TOLERANCE:g} points"),
    )
    return _markdown(head, rows)


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), ["---" for _ in head], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


TABLES: dict[str, Callable[[], str]] = {"notebooks": notebook_table, "agreement": agreement_table}


def filled(text: str) -> str:
    """A README's text with its tables made anew.

    Raises:
        Error: a table's marks are missing.
    """
    for name, make in TABLES.items():
        marks = re.compile(rf"(<!-- table: {name} -->\n).*?(\n<!-- end -->)", re.DOTALL)
        if not marks.search(text):
            raise Error(f"README.md has no marks for the table {name!r}: <!-- table: {name} -->")
        table = make()
        text = marks.sub(lambda match, table=table: match[1] + table + match[2], text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    readme = project_root() / "README.md"
    files.write(readme, filled(readme.read_text(encoding="utf-8")).encode())
