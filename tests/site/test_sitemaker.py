"""What the site is made from, piece by piece; what needs Sphinx is skipped without it."""

import inspect
import json
import pkgutil
import re

import nbformat
import pandas as pd
import pytest
from nbformat import v4

from docs import gallery, tables
from docs.executed import executed
from fedlib import papers
from fedlib.paths import project_root
from fedlib.reproduction import reproduce


def test_the_gallery_shows_all_59_and_every_claim(tmp_path, monkeypatch):
    ids = gallery.ids()
    assert len(ids) == len(set(ids)) == 59
    for id in ids:
        path = tmp_path / id
        path.parent.mkdir(exist_ok=True)
        record = {"id": id, "caption": f"Caption of_{id}.", "note": "one seed"}
        record["presets"] = ["quick"] if id == "fedopt/figure_1" else ["laptop"]
        path.with_suffix(".json").write_text(json.dumps(record))
        if "table" in id:
            path.with_suffix(".html").write_text('<html><table id="T_fedlib">90.12</table></html>')
    stated = pd.DataFrame(papers.claims())[["paper", "where", "says"]]
    frame = stated.set_axis(["source", "where", "claim"], axis=1)
    frame["quick"] = "**holds** (+0.1 ± 0.0)"
    frame["real data"] = "scaled down: does not hold; why"
    monkeypatch.setattr(tables, "verdicts", lambda: frame)
    gallery.site(tmp_path, tmp_path)
    index = (tmp_path / "index.md").read_text(encoding="utf-8")
    assert index.count("{container} card") == 59 + len(gallery.makers(gallery.sentences()))
    assert "](/figures/theory/mimicking.png)](/notebooks/04_mimicking_centralized.ipynb)" in index
    # A badge is the verdict on what is pictured.
    assert "fedopt-figure-1)** [holds]" in index and "fedopt-figure-4)** [does not hold]" in index
    groups = [path.read_text(encoding="utf-8") for path in tmp_path.glob("notebooks_*.md")]
    assert len(groups) == 5 and sum(text.count(".ipynb)") for text in groups) == 36
    for paper, own in frame.groupby("source"):
        text = (tmp_path / f"{paper}.md").read_text(encoding="utf-8")
        for claim in own["claim"]:
            assert f"- {claim}\n  quick: [holds]{{.verdict .holds}} (+0.1 ± 0.0);\n" in text
        assert r"Caption of\_" in text
    assert text.count("90.12") == sum(id.startswith(f"{paper}/table") for id in ids)


def run_of(notebook):
    """A notebook as papermill leaves it."""
    book = nbformat.read(notebook, as_version=4)
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.execution_count = 1
    tags = {"tags": ["injected-parameters"]}
    book.cells.insert(5, v4.new_code_cell("seeds = 3", metadata=tags, execution_count=1))
    book.metadata |= {"papermill": {"parameters": {"preset": "quick"}}, "widgets": {}}
    printed = f"from {project_root()}/data/runs"
    code = next(cell for cell in book.cells if cell.cell_type == "code")
    code.outputs = [v4.new_output("stream", name="stdout", text=printed)]
    return book


def fails(book):
    code = next(cell for cell in book.cells if cell.cell_type == "code")
    code.outputs = [v4.new_output("error", ename="Error", evalue="no", traceback=[])]


def not_run(book):
    for cell in book.cells:
        if cell.cell_type == "code":
            cell.execution_count = None


@pytest.mark.parametrize(
    "spoil",
    [
        fails,
        not_run,
        lambda book: book.cells[0].update(source="# Another one"),
        lambda book: book.cells.pop(),
        lambda book: book.metadata["papermill"]["parameters"].update(preset="laptop"),
    ],
)
def test_a_copy_is_shown_if_it_has_the_notebooks_cells_and_ran_to_its_end(tmp_path, spoil):
    (notebook,) = reproduce.notebooks(["00"])
    assert executed(notebook, tmp_path) is None
    book = run_of(notebook)
    nbformat.write(book, tmp_path / notebook.name)
    copy = executed(notebook, tmp_path)
    assert copy is not None and len(copy.cells) == len(book.cells) - 1
    assert "seeds = 3" not in {cell.source for cell in copy.cells}
    assert not set(copy.metadata) & {"papermill", "widgets"}
    spoil(book)
    nbformat.write(book, tmp_path / notebook.name)
    assert executed(notebook, tmp_path) is None


ROLE = re.compile(r":(?:func|class|meth|data|attr|exc|mod):`~?(fedlib\.[\w.]+)`")


def test_what_the_docstrings_of_the_site_refer_to_is_on_the_site():
    """Else the site is not built, which takes minutes to find out."""
    folder = project_root() / "docs" / "site"
    pages = [path.read_text(encoding="utf-8") for path in (folder / "api").glob("*.rst")]
    listed = {name for page in pages for name in re.findall(r"^\.\. auto\w+:: (\S+)", page, re.M)}
    ignored = re.findall(r'\("py:\w+", "(.+?)"\)', (folder / "conf.py").read_text(encoding="utf-8"))
    unknown = set()
    for name in listed:
        found = pkgutil.resolve_name(name)
        members = vars(found) if inspect.isclass(found) else {}
        public = [each for key, each in members.items() if not key.startswith("_")]
        for each in (found, *public):
            for target in ROLE.findall(inspect.getdoc(each) or ""):
                if not {target, target.rpartition(".")[0]} & {*listed, *ignored}:
                    unknown.add((name, target))
    assert len(listed) > 100 and not unknown
