"""The executed notebooks that the site shows: those that are there, and the others made now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import nbformat

from fedlib.errors import Failure
from fedlib.paths import project_root
from fedlib.reproduction import reproduce
from fedlib.reproduction.kernels import environment
from fedlib.results.archives import archives, restore


def current(folders: Sequence[Path]) -> dict[str, Path]:
    """Notebook -> its executed copy, of the notebooks that have one without an error.

    A copy counts if it has the notebook's cells as they are now, whatever the files' dates say: a
    fresh clone has today's.

    Args:
        folders: where copies may lie, the first that has a current one wins.
    """
    copies = {}
    for notebook in reproduce.notebooks():
        for folder in folders:
            copy = folder / notebook.name
            if copy.is_file() and is_copy(notebook, copy):
                copies[notebook.stem] = copy
                break
    return copies


def is_copy(notebook: Path, copy: Path) -> bool:
    """Whether a file is the notebook as it is now, executed to its end at the quick preset."""
    try:
        executed = nbformat.read(copy, as_version=4)
    except (OSError, ValueError, nbformat.validator.NotebookValidationError):
        return False
    given = executed.metadata.get("papermill", {}).get("parameters", {})
    if given.get("preset") != "quick":
        return False
    cells = [cell for cell in executed.cells if "injected-parameters" not in tags(cell)]
    sources = [cell.source for cell in nbformat.read(notebook, as_version=4).cells]
    codes = [cell for cell in executed.cells if cell.cell_type == "code"]
    failed = any(output.output_type == "error" for cell in codes for output in cell.outputs)
    return not failed and sources == [cell.source for cell in cells] and any(_ran(codes))


def _ran(codes: Sequence[nbformat.NotebookNode]) -> Iterator[bool]:
    return (cell.execution_count is not None for cell in codes)


def tags(cell: nbformat.NotebookNode) -> list[str]:
    """A cell's tags."""
    return list(cell.metadata.get("tags", []))


def execute(names: Sequence[str], work: Path, jobs: int) -> Iterator[reproduce.Executed]:
    """Execute notebooks at the quick preset into ``work/executed``, from the published runs.

    Data root, store and figures lie in ``work``, so nothing is read from what the user has prepared
    or run. Notebooks that look at a run's final parameters train: published runs have none. The
    others take the published runs; what is not published they train, too.

    Args:
        names: of the notebooks.
        jobs: how many at once.

    Raises:
        Failure: a notebook failed; all have been tried.
    """
    reading = [name for name in names if not needs_parameters(name)]
    training = [name for name in names if name not in reading]
    failed = []
    with _folders(work):
        for group, from_published in ((training, False), (reading, True)):
            if from_published and group:
                for archive in archives(project_root() / "data" / "results"):
                    restore(archive, work / "data" / "runs")
            series = reproduce.reproduce(group, "quick", None, work / "executed", jobs=jobs)
            for done in series if group else ():
                failed += [f"{done.name}: {done.error}"] if done.error else []
                yield done
    if failed:
        raise Failure(f"{len(failed)} of {len(names)} notebooks failed: {'; '.join(failed)}")


def needs_parameters(name: str) -> bool:
    """Whether a notebook reads the final parameters of a run."""
    (notebook,) = reproduce.notebooks([name])
    return ".params" in notebook.read_text(encoding="utf-8")


def _folders(work: Path) -> AbstractContextManager[None]:
    """Data root and figures of fedlib in ``work`` for a while."""
    places = {"FEDLIB_DATA": work / "data", "FEDLIB_FIGURES": work / "figures"}
    return environment({name: str(path.resolve()) for name, path in places.items()})
