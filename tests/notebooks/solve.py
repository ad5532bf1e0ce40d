"""Run notebooks with their exercises solved, in one process: ``solve.py REPORT GIVEN NAME ...``.

The report is JSON: for each notebook its number of exercises, how many self-checks say "right", and
the first error. ``GIVEN`` is JSON as well: parameters for the notebooks that have them.
"""

import json
import re
import sys
import warnings
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import nbformat
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from fedlib.reproduction import reproduce


def solved(path, given):
    """The code cells of a notebook, with the solutions of its last cells in place of the stubs."""
    known = reproduce.parameters(path)
    lines = [f"{name} = {value!r}" for name, value in given.items() if name in known]
    book = nbformat.read(path, as_version=4)
    tags = [set(cell.metadata.get("tags", [])) for cell in book.cells]
    text = next(c.source for c, t in zip(book.cells, tags, strict=True) if "solution" in t)
    answers = iter(re.findall(r"```python\n(.*?)```", text, flags=re.S))
    return [
        next(answers)
        if "exercise" in own
        else "\n".join([cell.source, *(lines if "parameters" in own else ())])
        for cell, own in zip(book.cells, tags, strict=True)
        if cell.cell_type == "code"
    ]


def execute(shell, path, given):
    """Run one notebook in a fresh namespace."""
    cells = solved(path, given)
    stubs = nbformat.read(path, as_version=4).cells
    exercises = sum("exercise" in cell.metadata.get("tags", []) for cell in stubs)
    shell.reset(new_session=True)
    printed, error = [], None
    for source in cells:
        with capture_output() as captured:
            result = shell.run_cell(source)
        printed.append(captured.stdout)
        problem = result.error_before_exec or result.error_in_exec
        if problem is not None:
            line = (str(problem) or "no message").splitlines()[0]
            error = f"{type(problem).__name__}: {line} in: {source.splitlines()[0]}"
            break
    plt.close("all")
    right = len(re.findall(r"exercise \d: right", "".join(printed)))
    return {"exercises": exercises, "right": right, "error": error}


def main(report, given, *names):
    matplotlib.use("Agg")
    warnings.filterwarnings("ignore", message=".*non-interactive.*")
    settings = Config()
    settings.HistoryManager.enabled = False  # nothing of this belongs into the user's history
    shell = InteractiveShell.instance(config=settings)
    found = {}
    for path in reproduce.notebooks(names):
        with matplotlib.rc_context():
            found[path.stem] = execute(shell, path, json.loads(given))
    Path(report).write_text(json.dumps(found, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
