"""What nbgrader makes of the assignments: for students and for an instructor."""

import re

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed: make course installs it")

from docs import coursemaker
from tests.course import books

SOLVED = "session_03"

pytestmark = [pytest.mark.slow, pytest.mark.notebook]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with the student's version of every assignment, and one instructor's."""
    folder = tmp_path_factory.mktemp("course")
    coursemaker.assignments(folder, [int(SOLVED[-2:])])
    coursemaker.nbgrader(folder, "generate_assignment", "--assignment=*", "--force")
    return folder


@pytest.mark.parametrize("name", books.NAMES)
def test_a_students_version_has_no_solution_and_no_hidden_test(course, name):
    path = course / "release" / name / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    assert not re.search("SOLUTION|HIDDEN|Marking|Answer of the course", text)
    released, source = nbformat.read(path, as_version=4), books.read(name)
    assert set(books.sources(released, "answer").values()) == {"YOUR ANSWER HERE"}
    stub = r"\1# YOUR CODE HERE\n\1raise NotImplementedError()"
    for cell, left in books.sources(released, "solution").items():
        assert left == books.SOLUTION.sub(stub, books.sources(source, "solution")[cell])
    for cell, visible in books.sources(released, "test").items():
        whole = books.sources(source, "test")[cell]
        assert visible == whole[: whole.index("### BEGIN HIDDEN TESTS")].rstrip("\n")
    checks = {each.name for each in (path.parent / "checks").glob("*.py")}
    assert checks == {"__init__.py", "compare.py", f"{name}.py"}


def test_an_instructors_version_is_executed_and_complete(course):
    made = nbformat.read(course / "instructor" / SOLVED / f"{SOLVED}.ipynb", as_version=4)
    source = books.read(SOLVED)
    assert [cell.source for cell in made.cells] == [cell.source for cell in source.cells]
    ran = [cell for cell in made.cells if cell.metadata.nbgrader.grade_id in ("run", "experiment")]
    assert all(cell.outputs for cell in ran)
