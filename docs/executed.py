"""The executed copies of the notebooks, which the site and the decks show."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbformat import NotebookNode

from fedlib.paths import project_root

FOLDER = project_root() / "build" / "executed"


def executed(notebook: Path, folder: Path = FOLDER) -> NotebookNode | None:
    """A notebook's copy, executed to its end at the quick preset, or None without one.

    A copy counts if it has the notebook's present cells, whatever the files' dates are. The result
    lacks the cell that papermill added and the data that only its kernel needs.

    Args:
        notebook: a notebook of the series.
        folder: the folder of the copies.
    """
    try:
        copy = nbformat.read(folder / notebook.name, as_version=4)
    except (OSError, ValueError, nbformat.validator.NotebookValidationError):
        return None
    given = copy.metadata.pop("papermill", {}).get("parameters", {})
    added = [cell for cell in copy.cells if "injected-parameters" in cell.metadata.get("tags", ())]
    copy.cells = [cell for cell in copy.cells if cell not in added]
    code = [cell for cell in copy.cells if cell.cell_type == "code"]
    kinds = {output.output_type for cell in code for output in cell.outputs}
    ran = "error" not in kinds and any(cell.execution_count is not None for cell in code)
    sources = [cell.source for cell in nbformat.read(notebook, as_version=4).cells]
    same = sources == [cell.source for cell in copy.cells]
    copy.metadata.pop("widgets", None)
    return copy if ran and same and given.get("preset") == "quick" else None
