"""The gallery: figures/README.md (``python -m docs.gallery``) and the site's.

The README has a row a figure or table: the picture, what a reader learns from it, the verdicts on
the claims that the paper makes with it, and the notebook. ``fedlib/reproduction/figures.toml`` has
the sentences, ``site/gallery`` the templates of all pages.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from docs import tables
from fedlib import files, papers, paths
from fedlib.reproduction import draw

TITLES = {
    "fedopt": "Adaptive Federated Optimization (FedOpt)",
    "mime": "Mime",
    "adafedadam": "AdaFedAdam",
    "delta_sgd": "Δ-SGD, auto-tuned clients",
}
NAMED = re.compile(r"(Figure|Table)s?((?:\s*(?:,|and|to)?\s*\d+[ab]?(?![\w.]))+)")
PART = re.compile(r"(to)?\s*(\d+)([ab]?)(?!\d)")
VERDICT = re.compile(rf"\**\b({'|'.join(tables.VERDICTS)})\b\**")
ESCAPED = re.compile(r"([\\*_<>$\[\]{}`#|])")
DOCS = Path(__file__).parent


def badged(words: str) -> str:
    """What is said of a claim, with its verdict as a badge."""
    badge = lambda match: f"[{match[1]}]{{.verdict .{match[1].replace(' ', '-')}}}"  # noqa: E731
    return VERDICT.sub(badge, words, count=1)


def verdict(words: str) -> str:
    """The verdict in what is said of a claim."""
    return str(VERDICT.findall(words)[0])


def counted(claims: dict[str, dict[str, str]], runs: str) -> str:
    """The verdicts of runs ("quick" or "real data") as badges, each with its number."""
    numbers = Counter(verdict(claim[runs]) for claim in claims.values()).most_common()
    return " ".join(badged(words) + f" × {count}" * (count > 1) for words, count in numbers)


TEMPLATES = Environment(loader=FileSystemLoader(DOCS / "site" / "gallery"))
TEMPLATES.filters |= {"badged": badged, "counted": counted, "verdict": verdict}
TEMPLATES.filters["text"] = lambda words: ESCAPED.sub(r"\\\1", words)


def ids() -> list[str]:
    """The ids of all figures and tables, in the papers' order, figures before tables; of a paper
    first its own, then those that the catalogue adds.
    """
    rows = papers.figures().itertuples()
    known = [f"{row.paper}/{row.id.lower().replace(' ', '_')}" for row in rows]
    known += [id for id in draw.ENTRIES if id not in known]
    return sorted(known, key=lambda id: (list(TITLES).index(id.split("/")[0]), "/table" in id))


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


def about(id: str, verdicts: pd.DataFrame) -> dict[str, Any]:
    """What every page says of a figure or table: its name, its notebooks, the paper's claims."""
    paper, name = id.split("/")
    here = verdicts["where"].map(lambda where: name in named(where))
    claims = verdicts[here & (verdicts["source"] == paper)].drop(columns=["source", "where"])
    return {
        "id": id,
        "paper": paper,
        "name": name.replace("_", " ").capitalize(),
        "notebooks": dict.fromkeys(draw.entry(id).notebooks.values()),
        "claims": claims.to_dict("index"),
    }


def sentences() -> dict[str, str]:
    """What a reader learns, by id."""
    known = paths.read_toml("reproduction/figures.toml")
    return {
        f"{paper}/{name}": figure["learned"]
        for paper, figures in known.items()
        for name, figure in figures.items()
    }


def page(root: Path) -> str:
    """The text of figures/README.md, of the pictures that lie there."""
    learned, verdicts = sentences(), tables.verdicts()
    return TEMPLATES.get_template("figures.md.j2").render(
        titles=TITLES,
        learned=learned,
        listed=[about(id, verdicts) for id in ids()],
        pictures={id for id in learned if (root / f"{id}.png").is_file()},
    )


def site(figures: Path, pages: Path) -> None:
    """Write the pages of the site's gallery: an index and a page a paper.

    Args:
        figures: the folder with ``<paper>/<name>.png`` or ``.html``, and ``.json``.
        pages: the folder of the pages, in the site's sources.
    """
    verdicts = tables.verdicts()
    listed = []
    for id in ids():
        record = json.loads((figures / f"{id}.json").read_text(encoding="utf-8"))
        html = figures / f"{id}.html"
        text = html.read_text(encoding="utf-8") if html.is_file() else ""
        table = "".join(re.findall(r"<style.*</style>|<table.*</table>", text, re.DOTALL))
        pictured = "quick" if "quick" in record["presets"] else "real data"
        anchor = id.replace("/", "-").replace("_", "-")
        more = {"table": table, "anchor": anchor, "pictured": pictured}
        listed.append(record | about(id, verdicts) | more)
    for name in ("index", *TITLES):
        template = TEMPLATES.get_template("index.md.j2" if name == "index" else "paper.md.j2")
        text = template.render(titles=TITLES, listed=listed, paper=name)
        (pages / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    files.write(paths.figures_root() / "README.md", page(paths.figures_root()).encode())
