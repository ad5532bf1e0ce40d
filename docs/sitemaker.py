"""``python -m docs.sitemaker`` (``make site``): the site's sources, in build/site-work.

Notebooks without a current copy are executed, the papers' figures drawn from the published runs,
and the gallery's pages written. docs/site/conf.py does the rest.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from PIL import Image

from docs import tables
from docs.coursemaker import pages
from docs.executed import executed
from fedlib import papers
from fedlib.errors import Error, Failure
from fedlib.paths import project_root
from fedlib.reproduction import draw, reproduce
from fedlib.results.store import Store

ROOT = project_root()
WORK = ROOT / "build" / "site-work"
TITLES = {
    "fedopt": "Adaptive Federated Optimization (FedOpt)",
    "mime": "Mime",
    "adafedadam": "AdaFedAdam",
    "delta_sgd": "Δ-SGD, auto-tuned clients",
}
NAMED = re.compile(r"(Figure|Table)s?((?:\s*(?:,|and|to)?\s*\d+[ab]?(?![\w.]))+)")
PART = re.compile(r"(to)?\s*(\d+)([ab]?)(?!\d)")
VERDICT = re.compile(rf"\**\b({'|'.join(tables.VERDICTS)})\b\**")


def execute(jobs: int) -> None:
    """Execute the notebooks that have no current copy, at the quick preset into build/executed.

    Data and figures lie in build/site-work, so nothing is read from what the user has prepared.

    Raises:
        Failure: a notebook failed; all have been tried.
    """
    missing = [path.stem for path in reproduce.notebooks() if executed(path) is None]
    if not missing:
        return
    own = {"FEDLIB_DATA": str(WORK / "data"), "FEDLIB_FIGURES": str(WORK / "figures")}
    command = [sys.executable, "-m", "fedlib", "reproduce", *missing, f"--jobs={jobs}"]
    if subprocess.run(command, env=os.environ | own).returncode:
        raise Failure("notebooks failed, see above")


def ids() -> list[str]:
    """The ids of the papers' figures and tables, in the papers' order, figures before tables."""

    def place(id: str) -> tuple[int, str, int, str]:
        paper, kind, number = id.replace("/", "_").rsplit("_", 2)
        return list(TITLES).index(paper), kind, int(number.rstrip("ab")), number

    rows = papers.figures().itertuples()
    return sorted((f"{r.paper}/{r.id.lower().replace(' ', '_')}" for r in rows), key=place)


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


def badged(words: str) -> str:
    """What is said of a claim, with its verdict as a badge."""
    badge = lambda match: f"[{match[1]}]{{.verdict .{match[1].replace(' ', '-')}}}"  # noqa: E731
    return VERDICT.sub(badge, words, count=1)


ESCAPED = re.compile(r"([\\*_<>$\[\]{}`#|])")
TEMPLATES = Environment(loader=FileSystemLoader(ROOT / "docs" / "site" / "gallery"))
TEMPLATES.filters |= {"badged": badged, "text": lambda words: ESCAPED.sub(r"\\\1", words)}


def counted(claims: pd.DataFrame, runs: str) -> list[str]:
    """The verdicts of runs ("quick" or "real data") on claims as badges, each with its number."""
    words = claims[runs].str.extract(VERDICT, expand=False)
    return [badged(verdict) + f" × {n}" * (n > 1) for verdict, n in words.value_counts().items()]


def about(id: str, claims: pd.DataFrame) -> pd.DataFrame:
    """The claims that a paper makes with a figure or table."""
    paper, name = id.split("/")
    here = claims["where"].map(lambda where: name in named(where))
    return claims[here & (claims["source"] == paper)]


def shown(id: str, claims: pd.DataFrame, figures: Path) -> dict[str, Any]:
    """A figure or table, as the gallery's templates show it."""
    own, name = about(id, claims), id.split("/")[1]
    record = json.loads((figures / f"{id}.json").read_text(encoding="utf-8"))
    table = figures / f"{id}.html"
    html = table.read_text(encoding="utf-8") if table.is_file() else ""
    parts = re.findall(r"<style.*</style>|<table.*</table>", html, re.DOTALL)
    return record | {
        "name": " ".join(name.split("_")).capitalize(),
        "anchor": id.replace("/", "-").replace("_", "-"),
        "table": "".join(parts),
        "notebooks": dict.fromkeys(draw.entry(id).notebooks.values()),
        "claims": own.drop(columns=["source", "where"]).to_dict("records"),
        "badges": counted(own, "quick" if "quick" in record["presets"] else "real data"),
    }


def gallery(figures: Path, pages: Path) -> None:
    """Write the gallery's index and a page a paper, from the templates in docs/site/gallery.

    Args:
        figures: the folder with ``<paper>/<name>.png`` or ``.html``, and ``.json``.
        pages: the folder of the pages, in the site's sources.
    """
    claims = tables.verdicts()
    listed: dict[str, list[dict[str, Any]]] = {paper: [] for paper in TITLES}
    for id in ids():
        listed[id.split("/")[0]].append(shown(id, claims, figures))
    given = {"titles": TITLES, "listed": listed}
    for page, template in {"index": "index.md.j2", **dict.fromkeys(TITLES, "paper.md.j2")}.items():
        text = TEMPLATES.get_template(template).render(given, paper=page)
        (pages / f"{page}.md").write_text(text, encoding="utf-8")


def thumbnails(folder: Path) -> None:
    """Write a picture of every executed notebook that draws one, for the table of notebooks."""
    folder.mkdir()
    for path in reproduce.notebooks():
        book = executed(path)
        drawn = [page for page in (pages(book) if book else ()) if page.pictures]
        if drawn:
            first = next((page for page in drawn if page.section == "Figures"), drawn[0])
            with Image.open(io.BytesIO(b64decode(first.pictures[0].data["image/png"]))) as image:
                image.thumbnail((480, 300))
                image.save(folder / f"{path.stem}.png")


def sources(source: Path) -> None:
    """Lay out the site's sources as the checkout is, so that links hold in both places."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "site", source)
    left_out = shutil.ignore_patterns("__pycache__", "site", "*.xz", "*.parquet", "quick")
    for name in ("data/results", "docs", "fedlib", "figures", "notebooks", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    for path in (*ROOT.glob("*.md"), *ROOT.glob("[CL]*"), ROOT / "data" / "README.md"):
        shutil.copy(path, source / path.relative_to(ROOT))


def main() -> None:
    """Prepare the sources."""
    parser = argparse.ArgumentParser(prog="make site", description=__doc__)
    add = parser.add_argument
    add("--no-execute", action="store_true", help="show notebooks without a current copy as is")
    add("--jobs", type=int, default=2, help="notebooks at once (default 2)")
    given = parser.parse_args()
    os.environ.setdefault("FEDLIB_PROGRESS", "0")
    source, figures = WORK / "source", WORK / "figures-published"
    try:
        if not given.no_execute:
            execute(given.jobs)
        print("Drawing the figures from the published runs ...", flush=True)
        draw.redraw(ids(), Store(WORK / "none", published=[ROOT / "data" / "results"]), figures)
        sources(source)
        thumbnails(source / "thumbnails")
        gallery(figures, source / "gallery")
        shutil.copytree(figures, source / "gallery" / "drawn")
    except Error as problem:
        sys.exit(f"make site: {problem}")


if __name__ == "__main__":
    main()
