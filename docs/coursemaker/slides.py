"""A session's notebooks as slides: one HTML file that needs nothing besides a browser."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
from docutils.utils.math import MathError
from nbconvert.exporters import SlidesExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from docs.coursemaker import rules
from docs.sitemaker.mathml import mathml
from fedlib.errors import Error, Failure


class Renderer(IPythonRenderer):
    """Texts as HTML, formulas as MathML."""

    def block_math(self, body: str) -> str:
        return _formula(body, block=True)

    def inline_math(self, body: str) -> str:
        return _formula(body, block=False)


class Exporter(SlidesExporter):
    """nbconvert's slides without code, from the template beside this file."""

    def markdown2html(self, source: str) -> str:  # type: ignore[override]
        """A text cell's HTML."""
        renderer = Renderer(escape=False, exclude_anchor_links=True)
        return str(MarkdownWithMath(renderer).render(source))

    def default_filters(self) -> Any:
        yield from super().default_filters()
        yield "markdown2html", self.markdown2html


def write(target: Path, title: str, notebooks: Sequence[Path]) -> int:
    """Write a deck.

    Args:
        target: the HTML file.
        title: of the browser's window.
        notebooks: executed ones, in the order of the deck.

    Returns:
        how many slides it has.

    Raises:
        Error: a formula that cannot be translated.
        Failure: reveal.js is not installed.
    """
    books = [rules.marked(nbformat.read(path, as_version=4)) for path in notebooks]
    cells = [cell for book in books for cell in book.cells]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"  # two notebooks may have cells of one name
    deck = nbformat.v4.new_notebook(cells=cells, metadata={"title": title})
    exporter = Exporter(
        template_file="deck.html.j2",
        extra_template_paths=[str(Path(__file__).parent)],
        exclude_input=True,
        exclude_output_prompt=True,
    )
    parts = {f"reveal_{kind}": reveal() / f"reveal.{kind}" for kind in ("js", "css")}
    given = {name: path.read_text(encoding="utf-8") for name, path in parts.items()}
    html, _ = exporter.from_notebook_node(deck, resources=given)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(html, encoding="utf-8")
    kinds = [cell.metadata["slideshow"]["slide_type"] for cell in deck.cells]
    return kinds.count("slide") + kinds.count("subslide")


def reveal() -> Path:
    """The folder of reveal.js, which the package sphinx-revealjs brings along.

    Raises:
        Failure: it is not installed.
    """
    found = find_spec("sphinx_revealjs")
    if found is None or found.origin is None:
        raise Failure("reveal.js is not installed; make course installs it")
    return Path(found.origin).parent / "_static" / "revealjs" / "dist"


def _formula(latex: str, block: bool) -> str:
    try:
        return mathml(latex, block)
    except (MathError, IndexError, AttributeError) as problem:
        raise Error(f"formula {latex!r} cannot be translated: {problem}") from problem
