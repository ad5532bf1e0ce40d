"""The diagram of docs/architecture.md as SVG: of Mermaid's flow charts what is used there.

Code hosts draw Mermaid themselves; here it would take a script of several megabytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

NODE = re.compile(r'^(\w+)\["(.+)"\]$')
GROUP = re.compile(r'^subgraph (\w+)\["(.+)"\]$')
EDGE = re.compile(r"^([\w &]+?)\s*-->\s*([\w &]+)$")
BLOCK = re.compile(r"```mermaid\n(.*?)```", re.DOTALL)
LETTER, LINE, PADDING, GAP, FLOOR = 6.6, 17, 12, 16, 34


@dataclass
class Box:
    """A node as drawn: its lines of text and where it stands (upper left corner)."""

    lines: list[str]
    x: float = 0.0
    y: float = 0.0

    @property
    def width(self) -> float:
        """In pixels."""
        return max(map(len, self.lines)) * LETTER + 2 * PADDING

    @property
    def height(self) -> float:
        """In pixels."""
        return len(self.lines) * LINE + PADDING


def drawn(text: str) -> str:
    """A page with its Mermaid charts replaced by SVG."""

    def replaced(chart: re.Match[str]) -> str:
        return f'````{{raw}} html\n<div class="wide diagram">{svg(chart[1])}</div>\n````'

    return BLOCK.sub(replaced, text)


def parsed(chart: str) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Boxes (name -> lines) and arrows of a chart from the top down; a subgraph is one box.

    Raises:
        ValueError: a line that is none of those used here.
    """
    boxes: dict[str, list[str]] = {}
    arrows: list[tuple[str, str]] = []
    group = ""
    for line in filter(None, map(str.strip, chart.splitlines())):
        if line.startswith("flowchart TB"):
            continue
        if line == "end":
            group = ""
        elif match := GROUP.match(line):
            group = match[1]
            boxes[group] = [match[2]]
        elif match := NODE.match(line):
            words = match[2].split("<br>")
            if group:
                boxes[group] += words
            else:
                boxes[match[1]] = words
        elif match := EDGE.match(line):
            tails, heads = ([n.strip() for n in side.split("&")] for side in match.groups())
            arrows += [(tail, head) for tail in tails for head in heads]
        elif not (group and "---" in line):
            raise ValueError(f"docs/sitemaker/diagram.py does not know this line: {line!r}")
    return boxes, arrows


def floors(boxes: dict[str, list[str]], arrows: list[tuple[str, str]]) -> list[list[str]]:
    """The boxes row by row from the top: each just above the highest of those it points to."""
    height = dict.fromkeys(boxes, 0)
    for _ in boxes:
        for tail, head in arrows:
            height[tail] = max(height[tail], height[head] + 1)
    rows = range(max(height.values()), -1, -1)
    return [[name for name in boxes if height[name] == row] for row in rows]


def svg(chart: str) -> str:
    """A chart as SVG whose colours follow the page's."""
    names, arrows = parsed(chart)
    boxes = {name: Box(lines) for name, lines in names.items()}
    rows = floors(names, arrows)
    widths = [sum(boxes[n].width for n in row) + GAP * (len(row) - 1) for row in rows]
    total, y = max(widths) + 2, 1.0
    for row, width in zip(rows, widths, strict=True):
        x = (total - width) / 2
        for name in row:
            boxes[name].x, boxes[name].y = x, y
            x += boxes[name].width + GAP
        y += max(boxes[name].height for name in row) + FLOOR
    height = y - FLOOR + 1
    head = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0,0 L8,4 L0,8 z"/></marker></defs>'
    )
    lines = "".join(_arrow(boxes[tail], boxes[head_]) for tail, head_ in arrows)
    shapes = "".join(map(_shape, boxes.values()))
    size = f'viewBox="0 0 {total:.0f} {height:.0f}" width="{total:.0f}" height="{height:.0f}"'
    return f'<svg {size} role="img" aria-label="What imports what">{head}{lines}{shapes}</svg>'


def _arrow(tail: Box, head: Box) -> str:
    start = (tail.x + tail.width / 2, tail.y + tail.height)
    stop = (head.x + head.width / 2, head.y - 1)
    bend = (stop[1] - start[1]) / 2
    return (
        f'<path class="arrow" marker-end="url(#arrow)" d="M{start[0]:.0f},{start[1]:.0f} '
        f"C{start[0]:.0f},{start[1] + bend:.0f} {stop[0]:.0f},{stop[1] - bend:.0f} "
        f'{stop[0]:.0f},{stop[1]:.0f}"/>'
    )


def _shape(box: Box) -> str:
    middle = box.x + box.width / 2
    texts = "".join(
        f'<text x="{middle:.0f}" y="{box.y + PADDING / 2 + LINE * (row + 0.75):.0f}"'
        f"{' class=first' if not row else ''}>{escape(line)}</text>"
        for row, line in enumerate(box.lines)
    )
    frame = f'x="{box.x:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}"'
    return f'<g><rect {frame} rx="5"/>{texts}</g>'
