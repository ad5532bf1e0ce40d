"""Which cells become slides, and a deck in a browser without a network."""

import base64
import io
import re

import matplotlib.pyplot as plt
import pytest
from nbformat import v4

from docs import coursemaker
from fedlib.reproduction import reproduce

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


def test_a_few_lines_of_code_are_a_slide_and_many_are_not():
    led = book()
    taught = next(cell for cell in led.cells if cell.source.startswith("def taught"))
    for lines, shown in ((10, 1), (60, 0)):
        text = "```python\n" + "x = 1\n" * lines + "```"
        taught.outputs = [v4.new_output("execute_result", {"text/markdown": text})]
        idea = [page for page in coursemaker.pages(led) if page.section == "Idea"]
        assert [page.pictures for page in idea if page.pictures] == [taught.outputs] * shown
        assert "".join(page.text for page in idea).startswith("First.\n\nSecond.")


def test_a_deck_begins_with_goals_and_ends_with_the_assignment():
    for needed in ("sphinx_revealjs", "docutils"):
        pytest.importorskip(needed, reason=f"{needed} is not installed: make course installs it")
    plans = {number: coursemaker.told(number) for number in coursemaker.sessions()}
    for plan in plans.values():
        assert {"Goals", "What goes wrong", "Assignment"} <= set(plan)
        assert {"To discuss", "To do"} & set(plan)
    plan = plans[2]
    led = book("What stays.\n\nMore of it. And the rule\nin code:")
    html = coursemaker.deck("Session 2: Client drift", [led], plan)
    places = ["hand the server a filtered gradient", "What stays.", "What will it show?"]
    found = [
        html.index(words) for words in (*places, "When is there no bias at all", "fedavg_round")
    ]
    assert found == sorted(found) and 'class="notes"' in html and "in code:" not in html


def test_a_long_idea_is_cut_between_paragraphs_and_formulas_stay_with_theirs():
    words = "So many words that a slide has room for three of these, but not for four. " * 5
    idea = "\n\n".join([words + "Then", FORMULA, "where it goes on.", *[words] * 8])
    texts = [page.text for page in coursemaker.pages(book(idea)) if page.section == "Idea"]
    assert len(texts) >= 3 and max(map(len, texts)) < coursemaker.LETTERS + 100
    assert "".join(texts).count("So many") == 45
    assert f"Then\n\n{FORMULA}\n\nwhere it goes on." in texts[0]


def test_every_session_has_its_notebooks():
    sessions = coursemaker.sessions()
    assert list(sessions) == list(range(1, 12))
    assert sessions[3] == ("Adaptive servers", ["02_server_adaptivity", "10_cifar10"])
    assert sessions[10][1] == ["91_paper_against_ours"]
    assert all(reproduce.notebooks(names) for _, names in sessions.values())


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
