"""What builds the site, piece by piece; the pieces that need Sphinx are skipped without it."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from docs.sitemaker import diagram, executed, gallery, links, repository, sources, verdicts
from fedlib import papers
from fedlib.errors import Error
from fedlib.paths import project_root
from fedlib.reproduction import reproduce

CHART = """
flowchart TB
    top["top"]
    subgraph room["room"]
        inside["first<br>second"]
    end
    left["left"]
    right["right"]
    ground["ground"]
    top --> room
    room --> left & right
    left --> ground
    top --> ground
"""


# ------------------------------------------------------------------ claims and the gallery


@pytest.mark.parametrize(
    ("where", "names"),
    [
        ("Figure 1, Table 1 (CIFAR-100)", ["figure_1", "table_1"]),
        ("Figures 2, 5 to 7", ["figure_2", "figure_5", "figure_6", "figure_7"]),
        ("Figures 3 and 13, Table 9", ["figure_3", "figure_13", "table_9"]),
        ("Table 11, appendix E.6", ["table_11"]),
        ("section 5, Figure 1, appendix B.2", ["figure_1"]),
        ("Figure 5, Tables 2b, 4 to 5", ["figure_5", "table_2b", "table_4", "table_5"]),
    ],
)
def test_a_claims_place_names_figures_and_tables(where: str, names: list[str]) -> None:
    assert list(verdicts.named(where)) == names


def test_every_claim_is_in_the_gallery_with_its_measured_verdict() -> None:
    shown = {claim.id: claim for claims in verdicts.judged().values() for claim in claims}
    assert set(shown) == {claim["id"] for claim in papers.claims()}
    path = project_root() / "data" / "results" / verdicts.QUICK
    for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]:
        assert shown[claim["id"]].verdict == claim["verdict"]
    assert {claim.real for claim in shown.values()} <= {*gallery.REAL, "not run"}
    assert [claim.id for claim in shown.values() if claim.cut and claim.real == "not run"] == []
    assert shown["ada-best"].real == "holds" and not shown["ada-best"].cut  # Synthetic is whole


def test_the_gallery_has_all_59() -> None:
    ids = gallery.ids()
    assert len(ids) == len(set(ids)) == 59
    assert ids[:2] == ["fedopt/figure_1", "fedopt/figure_2"]
    assert [id for id in ids if id.startswith("mime/")][-1] == "mime/table_5"
    assert set(verdicts.judged()) <= set(ids)
    assert gallery.printed_name("delta_sgd/table_2a") == "Table 2a"


def test_a_table_keeps_its_cells_and_gets_an_id_of_its_own(tmp_path: Path) -> None:
    import pandas as pd

    from fedlib.figures import table

    frame = pd.DataFrame({"method": ["FedAvg"], "ours": [90.125], "note": ["of one seed"]})
    html = table(frame, caption="A caption.").to_html(doctype_html=True)
    (tmp_path / "table_1.html").write_text(html, encoding="utf-8")
    shown = gallery._table(tmp_path / "table_1.html", "mime-table-1")
    assert "90.12" in shown and "FedAvg" in shown and "T_mime-table-1" in shown
    assert "T_fedlib" not in shown and "A caption." not in shown
    assert shown.count("of one seed") == 1


# ------------------------------------------------------------------ notebooks


def test_a_copy_is_current_by_its_cells(tmp_path: Path) -> None:
    notebook = reproduce.notebooks(["00"])[0]
    book = nbformat.read(notebook, as_version=4)
    copy = tmp_path / notebook.name
    book.metadata["papermill"] = {"parameters": {"preset": "quick"}}
    nbformat.write(book, copy)
    assert not executed.is_copy(notebook, copy), "nothing in it was executed"
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, 1):
        cell.execution_count = number
    injected = nbformat.v4.new_code_cell("seeds = 3", metadata={"tags": ["injected-parameters"]})
    book.cells.insert(5, injected)
    nbformat.write(book, copy)
    assert executed.is_copy(notebook, copy)
    assert executed.current([tmp_path / "none", tmp_path]) == {notebook.stem: copy}
    code[0].source += "\nrounds = 1"
    nbformat.write(book, copy)
    assert not executed.is_copy(notebook, copy), "the notebook has other cells"


def test_a_copy_that_failed_is_not_shown(tmp_path: Path) -> None:
    notebook = reproduce.notebooks(["00"])[0]
    book = nbformat.read(notebook, as_version=4)
    book.metadata["papermill"] = {"parameters": {"preset": "quick"}}
    cell = next(cell for cell in book.cells if cell.cell_type == "code")
    cell.execution_count = 1
    cell.outputs = [nbformat.v4.new_output("error", ename="Error", evalue="no", traceback=[])]
    nbformat.write(book, tmp_path / notebook.name)
    assert not executed.is_copy(notebook, tmp_path / notebook.name)


def test_the_shown_notebook_has_buttons_and_no_widgets() -> None:
    data = {"image/png": "", "application/vnd.jupyter.widget-view+json": {}}
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("1")]
    cells[1].outputs = [nbformat.v4.new_output("display_data", data=data)]
    printed = f"from {project_root()}/data/runs"
    cells[1].outputs.append(nbformat.v4.new_output("stream", name="stdout", text=printed))
    book = nbformat.v4.new_notebook(cells=cells, metadata={"widgets": {}, "papermill": {}})
    shown = sources.with_buttons(book, sources.buttons("10_cifar10", None))
    assert "/downloads/10_cifar10.ipynb" in shown.cells[0].source
    assert "Colab" not in shown.cells[0].source
    assert list(shown.cells[1].outputs[0].data) == ["image/png"]
    assert shown.cells[1].outputs[1].text == "from data/runs"
    assert not set(shown.metadata) & {"widgets", "papermill"}


# ------------------------------------------------------------------ repository


def test_buttons_of_a_configured_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLIB_REPOSITORY", "https://github.com/someone/fedlib.git")
    monkeypatch.setenv("FEDLIB_BRANCH", "next")
    words = sources.buttons("10_cifar10", repository.configured())
    place = "someone/fedlib/blob/next/notebooks/10_cifar10.ipynb"
    assert f"https://colab.research.google.com/github/{place}" in words
    assert "https://mybinder.org/v2/gh/someone/fedlib/next?urlpath=lab/tree/notebooks/10_" in words


def test_another_address_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLIB_REPOSITORY", "https://example.org/fedlib")
    with pytest.raises(Error, match=r"^the repository's address is .*; allowed: https://github"):
        repository.configured()


# ------------------------------------------------------------------ links


def test_dead_links_are_found(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "other.html").write_text('<p id="here">words</p>')
    (site / "index.html").write_text(
        '<a href="other.html#here">1</a> <a href="other.html#gone">2</a> <a href="gone.html">3</a>'
        '<a href="https://example.org">4</a> <img src="gone.png"> <a href="#top">5</a>'
        '<script src="https://example.org/a.js"></script>'
    )
    count, problems = links.check(site)
    assert count == 6  # all but the link to elsewhere; the script from elsewhere counts
    assert len(problems) == 5
    for words in ("'gone'", "gone.html leads", "gone.png leads", "'top'", "loads https://example"):
        assert any(words in problem for problem in problems), words


# ------------------------------------------------------------------ diagram and formulas


def test_the_charts_floors() -> None:
    boxes, arrows = diagram.parsed(CHART)
    assert boxes["room"] == ["room", "first", "second"]
    assert ("room", "right") in arrows and len(arrows) == 5
    assert diagram.floors(boxes, arrows) == [["top"], ["room"], ["left"], ["right", "ground"]]


def test_the_architecture_is_drawn_with_arrows_downwards() -> None:
    text = (project_root() / "docs" / "architecture.md").read_text(encoding="utf-8")
    chart = diagram.BLOCK.search(text)
    assert chart is not None
    boxes, arrows = diagram.parsed(chart[1])
    floor = {name: row for row, names in enumerate(diagram.floors(boxes, arrows)) for name in names}
    assert all(floor[tail] < floor[head] for tail, head in arrows)
    picture = diagram.svg(chart[1])
    assert picture.count("<rect") == len(boxes) and picture.count('class="arrow"') == len(arrows)
    assert "mermaid" not in diagram.drawn(text)


def test_a_line_that_no_diagram_has_is_refused() -> None:
    with pytest.raises(ValueError, match="does not know"):
        diagram.parsed("flowchart TB\n a -.-> b")


@pytest.mark.parametrize(
    ("latex", "parts"),
    [
        (r"\frac12 x^2", ["<mfrac>", "<mn>1</mn>", "<msup>"]),
        (r"\big(x_t\big)", ["<msub>"]),
        (r"q_1, \dots, q_n", ["…"]),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", ["<mtable", "<mtr>"]),
    ],
)
def test_formulas_become_mathml(latex: str, parts: list[str]) -> None:
    pytest.importorskip("sphinx")
    from docs.sitemaker.mathml import mathml

    markup = mathml(latex)
    assert markup.startswith("<math")
    for part in parts:
        assert part in markup
