"""Which cell of an executed notebook becomes a slide: slideshow metadata on a copy.

Shown are the title with its question, the paragraphs of the idea, every picture with the paragraph
before it, and the summary. Parameters, set-up, tables, checks and exercises are not. A section
begins a slide, its further slides lie below it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

TOLD = ("title", "Idea", "Summary")
PICTURES = ("Idea", "Run", "Figures")
HEADING = re.compile(r"^(?=## )", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\.ipynb\)")
# What a slide has room for, the height of a line, both in pixels, and the letters of a line: about
# what deck.html.j2 makes of them.
ROOM, LINE, LETTERS = 560, 35, 84


def marked(book: NotebookNode) -> NotebookNode:
    """A copy of a notebook whose cells say what becomes of them.

    Args:
        book: an executed notebook of the series.

    Returns:
        the copy; texts are cut into cells of one slide, and cells with pictures keep only those.
    """
    cells: list[NotebookNode] = []
    begun: set[str] = set()
    section, said, told = "title", "", ""

    def tell() -> None:
        """Make slides of what the section has told so far."""
        nonlocal told
        cells.extend(_text(page, section, begun) for page in _pages(section, told.strip()))
        told = ""

    for cell in _split(book.cells):
        if cell.cell_type == "markdown":
            heading, said = _headed(cell.source)
            if heading:
                tell()
                section = heading
            if section in TOLD:
                told += f"\n\n{said}"
            else:
                cells.append(_typed(cell, "skip"))
            continue
        pictures = [output for output in cell.outputs if _is_picture(output)]
        if section not in PICTURES or not pictures:
            cells.append(_typed(cell, "skip"))
            continue
        tell()
        caption = "" if section in TOLD else said.split("\n\n")[-1]
        cells.append(_text(LINK.sub(r"\1", caption), section, begun))
        cells.append(_typed(cell, "-"))
        cells[-1].outputs = pictures
        said = ""
    tell()
    shown = copy.deepcopy(book)
    shown.cells = cells
    return shown


def _split(cells: list[NotebookNode]) -> Iterator[NotebookNode]:
    """The cells, with texts of several sections cut between them."""
    for cell in cells:
        if cell.cell_type == "markdown":
            yield from (new_markdown_cell(part) for part in HEADING.split(cell.source) if part)
        else:
            yield copy.deepcopy(cell)


def _headed(text: str) -> tuple[str, str]:
    """A section's heading, or nothing, and its text."""
    if not text.startswith("## "):
        return "", text.strip()
    heading, _, rest = text.partition("\n")
    return heading.removeprefix("## ").strip(), rest.strip()


def _is_picture(output: NotebookNode) -> bool:
    """Whether an output is a picture, and none that moves with a slider."""
    data = output.get("data", {})
    return "image/png" in data and not any("widget-view" in kind for kind in data)


def _pages(section: str, text: str) -> Iterator[str]:
    """A section's text, slide by slide: what belongs together, as much as there is room.

    A formula or a table belongs to the paragraph before it, and so does one that goes on in lower
    case. Slides are filled about evenly.
    """
    groups: list[str] = []
    parts = re.split(r"\n(?=- )" if section == "Summary" else r"\n\n", LINK.sub(r"\1", text))
    for part in filter(None, map(str.strip, parts)):
        follows = part.startswith(("$$", "|")) or part[0].islower()
        if groups and follows and _height(groups[-1] + "\n\n" + part) <= ROOM:
            groups[-1] += f"\n\n{part}"
        else:
            groups.append(part)
    high = sum(map(_height, groups))
    even, page = high / max(1, -(-high // ROOM)), ""
    for group in groups:
        if page and (_height(page) >= even or _height(page) + _height(group) > ROOM):
            yield page
            page = ""
        page = f"{page}\n\n{group}".strip()
    if page:
        yield page


def _height(text: str) -> float:
    """About how many pixels a text is high."""
    high = 0.0
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("$$"):
            high += 75 + 45 * paragraph.count(r"\\")
        elif paragraph.startswith("|"):
            high += sum(LINE * (1 + len(row) // LETTERS) + 8 for row in paragraph.splitlines())
        else:
            words = re.sub(r"\\[a-zA-Z]+|[${}]", "", paragraph)
            inner = paragraph.count("$$") // 2 * 75
            high += LINE * -(-len(words) // LETTERS) + inner + 18
    return high


def _text(text: str, section: str, begun: set[str]) -> NotebookNode:
    """A slide that begins with a text; the first one of a section begins the section."""
    first = section not in begun
    begun.add(section)
    titled = f"## {section}\n\n{text}" if first and section != "title" else text
    return _typed(new_markdown_cell(titled), "slide" if first else "subslide")


def _typed(cell: NotebookNode, kind: str) -> NotebookNode:
    cell.metadata["slideshow"] = {"slide_type": kind}
    return cell
