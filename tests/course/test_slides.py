"""Which cells become slides, and a deck in a browser without a network."""

from __future__ import annotations

import base64
import io
import re
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from nbformat import NotebookNode, v4

from docs.coursemaker import rules, versions

FORMULA = r"$$x_{t+1} = x_t - \eta\, \frac{m_t}{\sqrt{v_t} + \tau} .$$"


def picture() -> str:
    """A picture of 400 by 300 pixels."""
    with io.BytesIO() as file:
        plt.figure(figsize=(4, 3)).savefig(file, dpi=100)
        plt.close()
        return base64.b64encode(file.getvalue()).decode()


def shows(*kinds: str) -> NotebookNode:
    """A code cell with outputs of these kinds."""
    data = {"image/png": picture(), "text/html": "<table></table>"}
    outputs = [v4.new_output("display_data", {kind: data.get(kind, "{}")}) for kind in kinds]
    cell = v4.new_code_cell("session.figure()", outputs=[v4.new_output("stream"), *outputs])
    return cell


def book(idea: str = "First.\n\nSecond.") -> NotebookNode:
    """A notebook of the series' form, executed."""
    widget = shows("image/png")
    widget.outputs[1].data["application/vnd.jupyter.widget-view+json"] = "{}"
    return v4.new_notebook(
        cells=[
            v4.new_markdown_cell("# 02 · Title\n\n**What is asked?**"),
            v4.new_markdown_cell("## Card\n\n| | |\n| --- | --- |"),
            v4.new_markdown_cell("## Set-up"),
            shows("image/png"),
            v4.new_markdown_cell(f"## Idea\n\n{idea}"),
            v4.new_code_cell("def taught():\n    pass"),
            v4.new_markdown_cell("Third, see [01](01_client_drift.ipynb)."),
            v4.new_markdown_cell("## Run\n\nNot shown."),
            shows("text/html"),
            v4.new_markdown_cell("## Figures\n\nBefore.\n\nThe caption."),
            shows("image/png", "text/html"),
            widget,
            v4.new_markdown_cell("Another one."),
            shows("image/png"),
            v4.new_markdown_cell("## Checks\n\nChecked."),
            shows("image/png"),
            v4.new_markdown_cell("## Summary\n\n- one\n- two\n\n## Exercises\n\n**1.** How?"),
            v4.new_code_cell("exercise_1 = None"),
        ]
    )


def slides(marked: NotebookNode) -> list[str]:
    """The slides: what each says, ``*`` for a picture."""
    said: list[str] = []
    for cell in marked.cells:
        match cell.metadata.slideshow.slide_type:
            case "slide" | "subslide":
                said.append(cell.source)
            case "-":
                said[-1] += " *" * len(cell.outputs)
    return said


def test_title_idea_pictures_and_summary_are_shown() -> None:
    given = book()
    before = nbformat.writes(given)
    assert slides(rules.marked(given)) == [
        "# 02 · Title\n\n**What is asked?**",
        "## Idea\n\nFirst.\n\nSecond.\n\nThird, see 01.",
        "## Figures\n\nThe caption. *",
        "Another one. *",
        "## Summary\n\n- one\n\n- two",
    ]
    assert nbformat.writes(given) == before  # a copy is marked


def test_a_section_begins_a_slide_and_goes_on_below() -> None:
    kinds = [cell.metadata.slideshow.slide_type for cell in rules.marked(book()).cells]
    shown = [kind for kind in kinds if kind != "skip"]
    assert shown == ["slide", "slide", "slide", "-", "subslide", "-", "slide"]


def test_a_long_idea_is_cut_between_paragraphs_and_formulas_stay_with_theirs() -> None:
    paragraph = "So many words that a slide has room for three of these, but not for four. " * 5
    idea = "\n\n".join([paragraph + "Then", FORMULA, "where it goes on.", *[paragraph] * 5])
    pages = [page for page in slides(rules.marked(book(idea))) if "many words" in page]
    assert len(pages) >= 3 and max(page.count("So many") for page in pages) <= 15
    assert "".join("".join(pages).split()).count("Somany") == 30
    assert f"Then\n\n{FORMULA}\n\nwhere it goes on." in pages[0]


def test_every_session_has_its_notebooks() -> None:
    sessions = versions.sessions()
    assert list(sessions) == list(range(1, 11))
    assert sessions[3] == ("Adaptive servers", ["02_server_adaptivity", "10_cifar10"])
    assert sessions[10][1] == ["91_paper_against_ours"]
    series = {path.stem for path in (versions.COURSE.parents[1] / "notebooks").glob("*.ipynb")}
    assert {name for _, names in sessions.values() for name in names} <= series


@pytest.fixture(scope="module")
def deck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deck of a notebook with formulas and a long caption."""
    for needed in ("sphinx_revealjs", "docutils", "nbconvert"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: make course installs it")
    from docs.coursemaker import slides as writer

    folder = tmp_path_factory.mktemp("deck")
    notebook = book(f"With $\\alpha$ and\n\n{FORMULA}\n\n" + "Words and more words. " * 60)
    notebook.cells[9].source += " A caption that goes on and on." * 30
    nbformat.write(notebook, folder / "book.ipynb")
    target = folder / "deck.html"
    count = writer.write(target, "Session 0: a test", [folder / "book.ipynb"] * 2)
    assert count == 2 * len(slides(rules.marked(notebook)))
    return target


def test_a_deck_needs_no_network(deck: Path) -> None:
    html = deck.read_text(encoding="utf-8")
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?!data:)", html)
    assert "<math" in html and "session.figure()" not in html and "Checked." not in html


@pytest.mark.slow
def test_slides_fit_into_a_browsers_window(deck: Path) -> None:
    webdriver = pytest.importorskip("selenium.webdriver")
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        pytest.skip("no chromium with chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,860"):
        options.add_argument(argument)
    window = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        window.get(deck.as_uri())
        for _ in range(window.execute_script("return Reveal.getTotalSlides()")):
            place = "Reveal.getCurrentSlide().getBoundingClientRect()"
            left, right, bottom = window.execute_script(
                f"const r = {place}; return [r.left, r.right, r.bottom]"
            )
            height, width = window.execute_script("return [innerHeight, innerWidth]")
            assert 0 <= left and right <= width and 0 < bottom <= height
            window.execute_script("Reveal.next()")
    finally:
        window.quit()
