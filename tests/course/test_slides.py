"""Which cells become slides, and a deck in a browser without a network."""

import base64
import io
import re

import matplotlib.pyplot as plt
import pytest
from nbformat import v4

from docs import coursemaker

FORMULA = r"$$x_{t+1} = x_t - \eta\, \frac{m_t}{\sqrt{v_t} + \tau} .$$"


def shows(*kinds):
    """A code cell with outputs of these kinds."""
    with io.BytesIO() as file:
        plt.figure(figsize=(4, 3)).savefig(file, dpi=100)
        plt.close()
        picture = base64.b64encode(file.getvalue()).decode()
    data = {"image/png": picture, "text/html": "<table></table>"}
    outputs = [v4.new_output("display_data", {kind: data.get(kind, "{}")}) for kind in kinds]
    return v4.new_code_cell("session.figure()", outputs=[v4.new_output("stream"), *outputs])


def book(idea="First.\n\nSecond.", caption="The caption."):
    """A notebook of the series' form, executed."""
    widget = shows("image/png")
    widget.outputs[1].data["application/vnd.jupyter.widget-view+json"] = "{}"
    cells = (
        "# 02 · Title\n\n**What is asked?**",
        "## Card\n\n| | |\n| --- | --- |",
        "## Set-up",
        shows("image/png"),
        f"## Idea\n\n{idea}",
        v4.new_code_cell("def taught():\n    pass"),
        "Third, see [01](01_client_drift.ipynb).",
        f"## Run\n\n{coursemaker.PREDICT} What will it show?\n\nNot shown.",
        shows("text/html"),
        f"## Figures\n\nBefore.\n\n{caption}",
        shows("image/png", "text/html"),
        widget,
        "Another one.",
        shows("image/png"),
        "## Checks\n\nChecked.",
        shows("image/png"),
        "## Summary\n\n- one\n- two\n\n## Exercises\n\n**1.** How?",
    )
    made = [v4.new_markdown_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    return v4.new_notebook(cells=made)


def test_title_idea_pictures_and_summary_are_shown():
    shown = [(page.section, page.text, len(page.pictures)) for page in coursemaker.pages(book())]
    assert shown == [
        ("title", "# 02 · Title\n\n**What is asked?**", 0),
        ("Idea", "First.\n\nSecond.\n\nThird, see 01.", 0),
        ("Run", f"{coursemaker.PREDICT} What will it show?", 0),
        ("Figures", "The caption.", 1),
        ("Figures", "Another one.", 1),
        ("Summary", "- one\n\n- two", 0),
    ]
    bare = book()  # the last picture before the section is another section's
    next(cell for cell in bare.cells if cell.source.startswith("## Figures")).source = "## Figures"
    sections = [page.section for page in coursemaker.pages(bare) if page.pictures]
    assert sections == ["Figures", "Figures"]


def test_a_deck_needs_no_network_and_its_slides_fit(tmp_path, request):
    for needed in ("sphinx_revealjs", "docutils"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: make course installs it")
    shown = book(
        f"With $\\alpha$ and\n\n{FORMULA}\n\n" + "Words and more words. " * 60,
        "A caption that goes on and on. " * 30,
    )
    html = coursemaker.deck("Session 0: a test", [shown, shown])
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=[\"'](?!data:)", html)
    assert "<math" in html and "session.figure()" not in html and "Checked." not in html
    (tmp_path / "deck.html").write_text(html, encoding="utf-8")
    window = request.getfixturevalue("browser")  # what stands above needs none
    window.set_window_size(1280, 860)
    window.get((tmp_path / "deck.html").as_uri())
    total = window.execute_script("return Reveal.getTotalSlides()")
    assert total == 2 * len(coursemaker.pages(shown))
    for _ in range(total):
        left, right, bottom, height, width = window.execute_script(
            "const r = Reveal.getCurrentSlide().getBoundingClientRect();"
            "return [r.left, r.right, r.bottom, innerHeight, innerWidth]"
        )
        assert 0 <= left and right <= width and 0 < bottom <= height
        window.execute_script("Reveal.next()")
