"""``python -m docs.gallery`` (the end of ``make figures``): figures/README.md.

A row a figure or table: the picture, what a reader learns from it, the verdicts on the claims that
the paper makes with it, and the notebook. ``learned.toml`` beside this file has the sentences.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pandas as pd

from docs import tables
from docs.sitemaker import TITLES, VERDICT, about, ids
from fedlib import files, paths
from fedlib.reproduction import draw

HEAD = """# Figures

All figures and tables of the four papers as `make figures` draws them from the published runs, and
the pictures of the notebooks on ideas. A line under each panel's title names the data, clients,
rounds and seeds; on a tinted ground a small problem stands in for the paper's. Beside each picture
(`.png`) or table (`.html`) are the numbers in it (`.csv`); a PDF and a record of its runs are made
with it and not kept in git. What a notebook draws goes to a folder of its preset beside these, for
instance `figures/quick/fedopt/figure_1.png`.

A claim is judged on the paper's printed numbers, on small problems (quick), and on real data, which
may be cut ([docs/results.md](../docs/results.md) has the margins).
"""
CLAIMS = ("in print", "quick", "real data")


def sentences() -> dict[str, str]:
    """What a reader learns, by id."""
    text = Path(__file__).with_name("learned.toml").read_text(encoding="utf-8")
    papers = tomllib.loads(text).items()
    return {f"{paper}/{name}": said for paper, own in papers for name, said in own.items()}


def _verdict(words: str) -> str:
    found = VERDICT.search(words)
    return found[1] if found else words.split(":")[0].split(";")[0]


def _row(root: Path, id: str, said: str, verdicts: pd.DataFrame) -> str:
    name = id.split("/")[1]
    there = root / f"{id}.png"
    shown = f'<img src="{id}.png" width="360" alt="{name}">' if there.is_file() else "table"
    link = f"{id}.png" if there.is_file() else f"{id}.html"
    judged = "<br>".join(
        f"{row['id']}: {' / '.join(_verdict(row[where]) for where in CLAIMS)}"
        for row in about(id, verdicts).reset_index().to_dict("records")
    )
    notebooks = dict.fromkeys(draw.entry(id).notebooks.values())
    links = ", ".join(f"[{n[:2]}](../notebooks/{n}.ipynb)" for n in notebooks)
    title = " ".join(name.split("_")).capitalize()
    return f"| [{shown}]({link}) | **{title}** {said} | {judged} | {links} |"


def page(root: Path) -> str:
    """The text of figures/README.md, of the pictures that lie there."""
    learned, verdicts = sentences(), tables.verdicts()
    parts = [HEAD]
    for paper, title in TITLES.items():
        rows = [_row(root, id, learned[id], verdicts) for id in ids() if id.startswith(f"{paper}/")]
        head = "| | what a reader learns | claims: in print / quick / real data | notebook |"
        parts.append("\n".join([f"## {title}", "", head, "| --- | --- | --- | --- |", *rows, ""]))
    rows = [
        f'| <img src="{id}.png" width="360" alt="{id}"> | {said} |'
        for id, said in learned.items()
        if id.startswith("theory/") and (root / f"{id}.png").is_file()
    ]
    parts.append(
        "\n".join(["## Ideas (notebooks 01 to 08)", "", "| | |", "| --- | --- |", *rows, ""])
    )
    return "\n".join(parts)


if __name__ == "__main__":
    files.write(paths.figures_root() / "README.md", page(paths.figures_root()).encode())
