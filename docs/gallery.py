"""The gallery: figures/README.md (``python -m docs.gallery``) and the site's gallery.

The README has cards in two columns: the picture, a sentence that a reader learns from it, the
verdicts on the paper's claims as signs, and the notebook. Tables are links below. The project's
README shows parts of six pictures, all of one shape, which this module extracts.
``fedlib/reproduction/figures.toml`` has the sentences, ``site/gallery`` the templates of all pages.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader
from PIL import Image

from docs import tables
from fedlib import files, papers, paths, plans
from fedlib.figures.save import DPIS
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
BADGE = re.compile(r"\[([^]]+)\]\{\.verdict \.([\w-]+)\}")
ESCAPED = re.compile(r"([\\*_<>$\[\]{}`#|])")
DOCS = Path(__file__).parent
LONG = 110  # letters of a sentence
# The README's pictures: the id, and rows of parts of the picture that stand beside each other, by
# their left, upper, right and lower border in inches. All are fit into one shape.
SHAPE = 4 / 3
CUT_OUT = {
    "theory/client_drift": [[(0.0, 0.0, 3.75, 2.06)], [(0.0, 2.06, 4.15, 2.45)]],
    "theory/mimicking": [[(0.0, 0.0, 3.75, 1.87)]],
    "fedopt/figure_1": [  # two of the panels, and the key in two lines
        [(0.0, 0.58, 3.7, 0.9)],
        [(0.0, 0.9, 3.62, 2.5)],
        [(0.0, 4.39, 2.57, 4.58)],
        [(2.57, 4.39, 5.0, 4.58)],
    ],
    "adafedadam/figure_3": [[(2.75, 0.0, 5.5, 2.19)]],
    "delta_sgd/figure_1": [[(2.73, 0.12, 5.5, 2.13)]],
    "fedopt/figure_10": [  # the title, three of the panels, the colour bar, the axes' names
        [(0.0, 0.0, 4.25, 0.165)],
        [(0.0, 1.12, 0.15, 2.72), (0.15, 0.45, 2.11, 2.05), (3.78, 0.45, 5.5, 2.05)],
        [
            (0.0, 1.12, 0.15, 2.72),
            (0.15, 2.05, 0.45, 3.65),
            (2.12, 2.05, 3.8, 3.65),
            (3.8, 2.05, 5.5, 3.65),
        ],
        [(1.6, 3.66, 3.6, 3.81)],
    ],
}


def badged(words: str) -> str:
    """A text about a claim, with its verdict as a badge."""
    badge = lambda match: f"[{match[1]}]{{.verdict .{match[1].replace(' ', '-')}}}"  # noqa: E731
    return VERDICT.sub(badge, words, count=1)


def verdict(words: str) -> str:
    """The verdict in a text about a claim."""
    return str(VERDICT.findall(words)[0])


def counted(claims: dict[str, dict[str, str]], runs: str) -> str:
    """The verdicts of runs ("quick" or "real data") as badges, each with its number."""
    numbers = Counter(verdict(claim[runs]) for claim in claims.values()).most_common()
    return " ".join(badged(words) + f" × {count}" * (count > 1) for words, count in numbers)


SIGNS = dict(zip(tables.VERDICTS, "✓✗~···", strict=True))


def signs(claim: dict[str, str]) -> str:
    """A claim's three verdicts: on the paper's numbers, on small problems, on real data.

    >>> tasks = {"quick": "**not resolved** (+0.1)", "real data": "not run"}
    >>> signs({"paper's numbers": "holds", **tasks})
    '✓ ~ ·'
    """
    shown = ("paper's numbers", "quick", "real data")
    return " ".join(SIGNS[verdict(claim[runs])] for runs in shown)


def emphasised(sentence: str) -> str:
    """Words in HTML, in bold. If they are long, only the first sentence is bold.

    >>> emphasised("One & all.")
    '<b>One &amp; all.</b>'
    """
    if len(sentence) > LONG and (parts := re.split(r"(?<=\.) ", sentence, maxsplit=1))[1:]:
        return f"<b>{escape(parts[0], quote=False)}</b> {escape(parts[1], quote=False)}"
    return f"<b>{escape(sentence, quote=False)}</b>"


TEMPLATES = Environment(loader=FileSystemLoader(DOCS / "site" / "gallery"))
TEMPLATES.filters |= {"signs": signs, "emphasised": emphasised}
TEMPLATES.filters |= {"badged": badged, "counted": counted, "verdict": verdict}
TEMPLATES.filters["spans"] = lambda badges: BADGE.sub(r'<span class="verdict \2">\1</span>', badges)
TEMPLATES.filters["text"] = lambda words: ESCAPED.sub(r"\\\1", words)


def ids() -> list[str]:
    """The ids of all figures and tables, in the papers' order, figures before tables.

    A paper's own ids come first, then those that the catalogue adds.
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
    """The common facts of all pages on a figure or table: name, notebooks, the paper's claims."""
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
    """The sentences that a reader learns, by id."""
    known = paths.read_toml("reproduction/figures.toml")
    return {
        f"{paper}/{name}": figure["learned"]
        for paper, figures in known.items()
        for name, figure in figures.items()
    }


def page(root: Path) -> str:
    """The text of figures/README.md, for the pictures in its folder."""
    learned, verdicts = sentences(), tables.verdicts()
    return TEMPLATES.get_template("figures.md.j2").render(
        titles=TITLES,
        learned=learned,
        listed=[about(id, verdicts) for id in ids()],
        ideas=[id for id in learned if id.startswith("theory/")],
        pictures={id for id in learned if (root / f"{id}.png").is_file()},
    )


def makers(learned: dict[str, str]) -> dict[str, str]:
    """The pictures of ideas that have a sentence -> the notebook whose card names them."""
    cards = {path.stem: path.read_text(encoding="utf-8") for path in plans.notebooks().values()}
    ideas = [id for id in learned if id.startswith("theory/")]
    return {id: next(name for name, text in cards.items() if f"`{id}`" in text) for id in ideas}


def site(figures: Path, pages: Path) -> None:
    """Write the pages of the site's gallery: an index, a page a paper, one a group of notebooks.

    Args:
        figures: the folder with ``<paper>/<name>.png`` or ``.html``, and ``.json``.
        pages: the folder of the pages, in the site's sources.
    """
    verdicts, learned = tables.verdicts(), sentences()
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
        known = {"titles": TITLES, "learned": learned, "ideas": makers(learned)}
        text = template.render(listed=listed, paper=name, **known)
        (pages / f"{name}.md").write_text(text, encoding="utf-8")
    template = TEMPLATES.get_template("notebooks.md.j2")
    for title, rows in tables.notebooks_by_group().items():
        text = template.render(title=title, notebooks={row[0]: row[1] for row in rows})
        (pages / f"notebooks_{rows[0][0][0]}.md").write_text(text, encoding="utf-8")


def cut_out(root: Path, id: str) -> bytes:
    """A PNG of the README's part of a picture, in :data:`SHAPE` on white."""
    with Image.open(root / f"{id}.png") as picture:
        dots = [[[round(edge * DPIS[0]) for edge in box] for box in row] for row in CUT_OUT[id]]
        white = picture.convert("RGB").point(lambda value: 255 if value >= 252 else value)
        rows = [[white.crop((a, b, c, d)) for a, b, c, d in row] for row in dots]
    width = max(sum(part.width for part in row) for row in rows)
    height = sum(max(part.height for part in row) for row in rows)
    size = max(width, round(height * SHAPE)), max(height, round(width / SHAPE))
    whole, top = Image.new("RGB", size, "white"), (size[1] - height) // 2
    for row in rows:
        left = (size[0] - width) // 2
        for part in row:
            whole.paste(part, (left, top))
            left += part.width
        top += max(part.height for part in row)
    png = io.BytesIO()
    whole.quantize(128, dither=Image.Dither.NONE).save(png, "PNG", optimize=True)
    return png.getvalue()


if __name__ == "__main__":
    figures = paths.figures_root()
    for id in CUT_OUT:
        name = id.replace("/", "_")
        files.write(figures / "readme" / f"{name}.png", cut_out(figures, id))
    files.write(figures / "README.md", page(figures).encode())
