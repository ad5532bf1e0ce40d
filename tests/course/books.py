"""The assignments as the tests read them; without nbgrader."""

import re
from pathlib import Path

import nbformat

COURSE = Path(__file__).resolve().parents[2] / "docs" / "course"
NAMES = [f"session_{number:02d}" for number in range(1, 12)]
# Cells of code that a student fills in, besides the functions.
FILLED = ("prediction", "quiz", "experiment", "verdict")
SOLUTION = re.compile(r"^( *)### BEGIN SOLUTION\n.*?### END SOLUTION$", re.DOTALL | re.MULTILINE)


def read(name):
    """The source of a session's assignment."""
    return nbformat.read(COURSE / "assignments" / name / f"{name}.ipynb", as_version=4)


def kind(cell):
    """``text``, ``code``, ``answer`` (by hand), ``solution`` (code) or ``test``."""
    about = cell.metadata.nbgrader
    if about.solution:
        return "answer" if about.grade else "solution"
    if about.grade:
        return "test"
    return "code" if cell.cell_type == "code" else "text"


def sources(book, *kinds):
    """Cells of these kinds: name -> source."""
    cells = [cell for cell in book.cells if kind(cell) in kinds]
    return {cell.metadata.nbgrader.grade_id: cell.source for cell in cells}


def functions(book):
    """The functions that students write: name -> the course's version."""
    written = sources(book, "solution")
    return {name: source for name, source in written.items() if name not in FILLED}


def stub(source):
    """A student's version of a cell."""
    return SOLUTION.sub(r"\1raise NotImplementedError()", source)
