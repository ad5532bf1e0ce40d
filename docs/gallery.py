"""``python -m docs.gallery`` (the end of ``make figures``): figures/README.md.

A row a figure or table: the picture, what a reader learns from it, the verdicts on the claims that
the paper makes with it, and the notebook. ``learned.toml`` beside this file has the sentences,
``site/gallery/figures.md.j2`` the page.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from docs import tables
from docs.sitemaker import TEMPLATES, TITLES, VERDICT, about, ids
from fedlib import files, paths
from fedlib.reproduction import draw

CLAIMS = ["in print", "quick", "real data"]


def sentences() -> dict[str, str]:
    """What a reader learns, by id."""
    text = Path(__file__).with_name("learned.toml").read_text(encoding="utf-8")
    papers = tomllib.loads(text).items()
    return {f"{paper}/{name}": said for paper, own in papers for name, said in own.items()}


def _verdict(words: str) -> str:
    found = VERDICT.search(words)
    return found[1] if found else words.split(":")[0].split(";")[0]


def page(root: Path) -> str:
    """The text of figures/README.md, of the pictures that lie there."""
    learned, verdicts = sentences(), tables.verdicts()
    rows: dict[str, list[tuple[object, ...]]] = {paper: [] for paper in TITLES}
    for id in ids():
        claims = about(id, verdicts)[CLAIMS].map(_verdict).itertuples(name=None)
        judged = "<br>".join(f"{claim}: {' / '.join(words)}" for claim, *words in claims)
        notebooks = dict.fromkeys(draw.entry(id).notebooks.values())
        rows[id.split("/")[0]].append((id, learned[id], judged, notebooks))
    given = {
        "titles": TITLES,
        "rows": rows,
        "ideas": [each for each in learned.items() if each[0].startswith("theory/")],
        "pictures": {id for id in learned if (root / f"{id}.png").is_file()},
    }
    return TEMPLATES.get_template("figures.md.j2").render(given)


if __name__ == "__main__":
    files.write(paths.figures_root() / "README.md", page(paths.figures_root()).encode())
