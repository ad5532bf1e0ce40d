"""The gallery: every figure and table of the papers as drawn here, with the claims it shows."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from PIL import Image

from docs.sitemaker.verdicts import Judged, judged
from fedlib import papers
from fedlib.reproduction.draw import entry
from fedlib.reproduction.entry import Entry

TITLES = {
    "fedopt": "Adaptive Federated Optimization (FedOpt)",
    "mime": "Mime",
    "adafedadam": "AdaFedAdam",
    "delta_sgd": "Δ-SGD, auto-tuned clients",
}
# A verdict of several claims, in words.
SEVERAL = {
    "holds": "hold",
    "does not hold": "do not hold",
    "not resolved": "are not resolved",
    "not claimed": "cannot show in the small",
}
REAL = ("holds", "does not hold", "not resolved")  # verdicts that runs have given
ABOUT_CLAIMS = """\
A claim's margin is that of its statement closest to failing, with the spread over the seeds; a
claim is not resolved where the spread is larger. The first verdict is on small problems; fresh
seeds are some that nobody had looked at; real data are the paper's, at its settings or cut.
"""
THUMBNAIL_WIDTH = 480
THUMBNAIL_ROWS, THUMBNAIL_COLUMNS = 5, 4
INTRODUCTION = """\
# Gallery

All {count} figures and tables of the four papers, drawn from the runs that the project publishes
(`fedlib figures`). They show small problems and stand-in data unless their corner says nothing;
numbers of another problem cannot agree with the printed ones, the order of the methods can.

Beside each stands what `fedlib claims` says of the claims that the paper makes with it, on the
notebooks' seeds: {verdicts}. A claim can belong to several figures; {without} of them carry none.
The margins, and the verdicts on seeds that nobody had looked at, are on the papers' pages and in
[What has been measured](/docs/results.md).
"""


def ids() -> list[str]:
    """The ids of the papers' figures and tables, in the papers' order, figures before tables."""
    frame = papers.figures()
    listed = [
        f"{paper}/{name.lower().replace(' ', '_')}"
        for paper, name in zip(frame["paper"], frame["id"], strict=True)
    ]
    return sorted(listed, key=_place)


def _place(id: str) -> tuple[int, str, int, str]:
    paper, name = id.split("/")
    kind, number = name.split("_")
    digits = re.match(r"\d+", number)
    assert digits is not None
    return papers.papers().index(paper), kind, int(digits[0]), number


def printed_name(id: str) -> str:
    """``"delta_sgd/table_2a"`` -> ``"Table 2a"``."""
    return id.split("/")[1].replace("_", " ").title().replace("A", "a").replace("B", "b")


def write(figures: Path, pages: Path) -> None:
    """Write ``index.md``, a page a paper and the small pictures.

    Args:
        figures: the folder with ``<paper>/<name>.png`` or ``.html``, ``.csv`` and ``.json``.
        pages: the folder of the pages, in the site's sources.
    """
    (pages / "small").mkdir(parents=True, exist_ok=True)
    listed = ids()
    (pages / "index.md").write_text(_index(listed, figures, pages), encoding="utf-8")
    for paper, title in TITLES.items():
        chosen = [id for id in listed if id.startswith(f"{paper}/")]
        blocks = [f"# {title}\n", ABOUT_CLAIMS, *(_block(id, figures, pages) for id in chosen)]
        (pages / f"{paper}.md").write_text("\n".join(blocks), encoding="utf-8")


def _index(listed: Sequence[str], figures: Path, pages: Path) -> str:
    claims = {claim.id: claim.verdict for id in listed for claim in judged().get(id, ())}
    counts = Counter(claims.values())
    verdicts = ", ".join(f"{counts[verdict]} {words}" for verdict, words in SEVERAL.items())
    without = sum(id not in judged() for id in listed)
    parts = [INTRODUCTION.format(count=len(listed), verdicts=verdicts, without=without)]
    for paper, title in TITLES.items():
        cards = [_card(id, figures, pages) for id in listed if id.startswith(f"{paper}/")]
        parts += [f"## [{title}]({paper}.md)\n", "::::{container} gallery", *cards, "::::\n"]
    parts += ["```{toctree}\n:hidden:", *TITLES, "```\n"]
    return "\n".join(parts)


def _card(id: str, figures: Path, pages: Path) -> str:
    """A small picture with its name and the verdicts, which leads to the paper's page."""
    target = f"{id.split('/')[0]}.md#{_anchor(id)}"
    picture = figures / f"{id}.png"
    if picture.is_file():
        small = pages / "small" / f"{_anchor(id)}.png"
        _shrink(picture, small)
        shown = f"[![{printed_name(id)}]({small.relative_to(pages)})]({target})"
    else:
        shown = _first_cells(figures / f"{id}.html")
    counts = Counter(claim.verdict for claim in judged().get(id, ()))
    badges = " ".join(_badge(verdict, number) for verdict, number in counts.items())
    return "\n".join(
        (
            ":::{container} card",
            f"{shown}\n",
            f"**[{printed_name(id)}]({target})** {badges or '[no claim]{.verdict .none}'}\n",
            f"{_text(_caption(entry(id)))}",
            ":::",
        )
    )


def _shrink(picture: Path, small: Path) -> None:
    with Image.open(picture) as image:
        height = round(image.height * THUMBNAIL_WIDTH / image.width)
        reduced = image.convert("RGB").resize((THUMBNAIL_WIDTH, height), Image.Resampling.LANCZOS)
        reduced.quantize(64).save(small, optimize=True)


def _first_cells(table: Path) -> str:
    """The upper left corner of a table."""
    text = table.read_text(encoding="utf-8")
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.DOTALL)[: THUMBNAIL_ROWS + 1]
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    lines = [
        "<tr>" + "".join(f"<td>{cell}</td>" for cell in row[:THUMBNAIL_COLUMNS]) + "</tr>"
        for row in cells
    ]
    return _raw(f'<div class="corner"><table>{"".join(lines)}</table></div>')


def _block(id: str, figures: Path, pages: Path) -> str:
    """A figure or table in full: picture, caption, origin, claims, notebooks."""
    chosen = entry(id)
    record = json.loads((figures / f"{id}.json").read_text(encoding="utf-8"))
    picture = figures / f"{id}.png"
    parts = [f"({_anchor(id)})=", f"## {printed_name(id)}\n"]
    if picture.is_file():
        copied = pages / id.split("/")[0] / picture.name
        copied.parent.mkdir(exist_ok=True)
        copied.write_bytes(picture.read_bytes())
        parts.append(f"![{escape(printed_name(id))}]({copied.relative_to(pages)})\n")
    else:
        parts.append(_table(figures / f"{id}.html", _anchor(id)) + "\n")
    parts.append(_text(_caption(chosen)) + "\n")
    if record["note"]:
        parts.append(f"*Shown: {_text(record['note'])}.*\n")
    parts += _claims(judged().get(id, ()))
    makers = dict.fromkeys(chosen.notebooks.values())
    links = ", ".join(f"[{name}](/notebooks/{name}.ipynb)" for name in makers)
    return "\n".join([*parts, f"Notebook{'s' * (len(makers) > 1)}: {links}\n"])


def _claims(claims: Sequence[Judged]) -> Iterator[str]:
    if not claims:
        yield "The paper makes no claim with it that `fedlib claims` judges.\n"
    for claim in claims:
        margin = f"margin {claim.margin}" if claim.margin else ""
        fresh = f"on fresh seeds {_badge(claim.fresh)}" if claim.fresh != "not claimed" else ""
        real = f"on real data{', cut,' * claim.cut} {_badge(claim.real)}"
        parts = [*filter(None, (margin, fresh)), *([real] if claim.real in REAL else ())]
        known = f" ({'; '.join(parts)})" if parts else ""
        reason = f" Why, as far as we see: {_text(claim.reason)}." if claim.reason else ""
        yield f"- {_badge(claim.verdict)} {_text(claim.says)}{known}{reason}"
    if claims:
        yield ""


def _badge(verdict: str, number: int = 1) -> str:
    times = f" × {number}" if number > 1 else ""
    return f"[{verdict}{times}]{{.verdict .{verdict.replace(' ', '-')}}}"


def _table(path: Path, anchor: str) -> str:
    """A table's HTML without its caption, in a box that scrolls, with an id of its own."""
    text = path.read_text(encoding="utf-8").replace("T_fedlib", f"T_{anchor}")
    parts = re.search(r"(<style.*?</style>).*?(<table.*</table>)", text, re.DOTALL)
    if parts is None:
        raise ValueError(f"{path.name} holds no table")
    notes = re.search(r"<caption>(.*?)</caption>", parts[2], re.DOTALL)
    footnotes = notes[1].split("<br>")[1:] if notes else []
    body = re.sub(r"\s*<caption>.*?</caption>", "", parts[2], count=1, flags=re.DOTALL)
    below = f'<div class="footnotes">{"<br>".join(footnotes)}</div>' if footnotes else ""
    return _raw(f'{parts[1]}<div class="wide">{body}</div>{below}')


def _raw(html: str) -> str:
    return f"````{{raw}} html\n{html}\n````"


def _anchor(id: str) -> str:
    return id.replace("/", "-").replace("_", "-")


def _caption(chosen: Entry) -> str:
    return chosen.caption


def _text(words: str) -> str:
    """Plain words as MyST."""
    return re.sub(r"([\\*_<>$\[\]{}`#|])", r"\\\1", words)
