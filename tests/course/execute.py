"""Execute all assignments, solved and as stubs, in one process: ``execute.py REPORT``.

The report is JSON: for each version the cells that failed, each with its error.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import matplotlib
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "course")]  # as in the notebooks: import checks

from tests.course import books  # noqa: E402


def errors(shell: InteractiveShell, cells: dict[str, str]) -> dict[str, str]:
    """Run cells in a fresh namespace; those that fail, and how."""
    shell.reset(new_session=True)
    failed = {}
    for name, source in cells.items():
        with capture_output():
            result = shell.run_cell(source)
        problem = result.error_before_exec or result.error_in_exec
        if problem is not None:
            failed[name] = f"{type(problem).__name__}: {problem}"
    return failed


def main(report: str) -> None:
    matplotlib.use("Agg")
    warnings.simplefilter("error", RuntimeWarning)
    settings = Config()
    settings.HistoryManager.enabled = False  # nothing of this belongs into the user's history
    shell = InteractiveShell.instance(config=settings)
    found = {}
    for name in books.NAMES:
        cells = books.sources(books.read(name), "code", "solution", "test")
        found[f"{name} instructor"] = errors(shell, cells)
        stubs = {cell: books.stub(source) for cell, source in cells.items()}
        found[f"{name} student"] = errors(shell, stubs)
    Path(report).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
