"""Which cells become slides, and that a deck needs no network."""

import copy
import re

import nbformat
import pytest

from docs import coursemaker
from fedlib.reproduction import reproduce

BOOKS = [nbformat.read(path, as_version=4) for path in reproduce.notebooks() if path.stem < "4"]


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.cells[0].source[2:4])
def test_title_idea_prediction_and_summary_of_each_notebook_are_shown(book):
    book = copy.deepcopy(book)
    start = next(i for i, cell in enumerate(book.cells) if cell.source.startswith("## Figures"))
    cell = next(cell for cell in book.cells[start:] if cell.cell_type == "code")
    for data in ({"image/png": ""}, {"image/png": "", "application/vnd.widget-view+json": "{}"}):
        cell.outputs = [*cell.outputs, nbformat.v4.new_output("display_data", data)]
    pages = coursemaker.pages(book)
    assert pages[0].section == "title" and pages[0].text.startswith("# ")
    assert {page.section for page in pages} >= {"Idea", "Summary"}
    assert sum(len(page.pictures) for page in pages) == 1  # of the two that which does not move
    assert not any("](" in page.text or "session." in page.text for page in pages)


def test_a_deck_needs_no_network():
    for needed in ("sphinx_revealjs", "docutils"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: make course installs it")
    html = coursemaker.deck("Session 0: a test", BOOKS[:2])
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?!data:)", html)
    assert "<math" in html and "session.figure()" not in html
