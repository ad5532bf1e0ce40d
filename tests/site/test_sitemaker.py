"""What the site is made from, piece by piece; what needs Sphinx is skipped without it."""

import nbformat
import pytest
from nbformat import v4

from docs.executed import executed
from fedlib.paths import project_root
from fedlib.reproduction import reproduce


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
    code(book).outputs = [v4.new_output("stream", name="stdout", text=printed)]
    return book


def code(book):
    return next(cell for cell in book.cells if cell.cell_type == "code")


ERROR = v4.new_output("error", ename="Error", evalue="no", traceback=[])


@pytest.mark.parametrize(
    "spoil",
    [
        lambda book: code(book).outputs.append(ERROR),
        lambda book: [c.update(execution_count=None) for c in book.cells if c.cell_type == "code"],
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
