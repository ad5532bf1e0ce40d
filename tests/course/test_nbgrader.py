"""What nbgrader makes of the assignments, and how it grades a right and a wrong submission."""

import re
import shutil

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="nbgrader is not installed: make course installs it")
from nbgrader.api import Gradebook

from docs import coursemaker
from tests.course import books

GRADED = "session_03"
TESTS = {"fedadagrad_test": 0.5, "fedadam_test": 0.75, "fedyogi_test": 0.75}
TESTS |= {"prediction_test": 1, "quiz_test": 1, "verdict_test": 1}
BY_HAND = {"derivation", "experiment_answer", "limits"}

pytestmark = [pytest.mark.slow, pytest.mark.notebook]


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A course with the student's version of every assignment, and one instructor's."""
    folder = tmp_path_factory.mktemp("course")
    coursemaker.assignments(folder, [int(GRADED[-2:])])
    coursemaker.nbgrader(folder, "generate_assignment", "--assignment=*", "--force")
    return folder


@pytest.mark.parametrize("name", books.NAMES)
def test_a_students_version_has_no_solution_and_no_hidden_test(course, name):
    path = course / "release" / name / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    assert not re.search("SOLUTION|HIDDEN|Marking|Answer of the course", text)
    released, source = nbformat.read(path, as_version=4), books.read(name)
    assert set(books.sources(released, "answer").values()) == {"YOUR ANSWER HERE"}
    for cell, visible in books.sources(released, "test").items():
        whole = books.sources(source, "test")[cell]
        assert visible == whole[: whole.index("### BEGIN HIDDEN TESTS")].rstrip("\n")
    assert (path.parent / "checks.py").is_file()


def hand_in(course, student, cells):
    """A submission: the released folder with these cells filled in."""
    folder = course / "submitted" / student / GRADED
    shutil.copytree(course / "release" / GRADED, folder)
    book = nbformat.read(folder / f"{GRADED}.ipynb", as_version=4)
    for cell in book.cells:
        cell.source = cells.get(cell.metadata.nbgrader.grade_id, cell.source)
    nbformat.write(book, folder / f"{GRADED}.ipynb")


def grades(course, student):
    """Cell -> points that nbgrader gave, and whether a person has to look."""
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        (notebook,) = book.find_submission(GRADED, student).notebooks
        return {each.name: (each.auto_score, each.needs_manual_grade) for each in notebook.grades}


def test_a_right_submission_has_full_marks_and_a_slip_costs_its_own(course):
    right = books.sources(books.read(GRADED), "solution", "answer")
    # A sign that the visible test sees, and a test cell that no longer looks.
    slip = {"fedyogi": right["fedyogi"].replace("x + lr", "x - lr"), "fedyogi_test": "pass"}
    hand_in(course, "right", right)
    hand_in(course, "wrong", right | slip)
    coursemaker.nbgrader(course, "autograde", GRADED)
    wrong = grades(course, "wrong")
    assert {name: wrong[name][0] for name in TESTS} == TESTS | {"fedyogi_test": 0}
    given = grades(course, "right")
    assert {name: given[name] for name in TESTS} == {n: (p, False) for n, p in TESTS.items()}
    assert {name for name, (_, waiting) in given.items() if waiting} == BY_HAND
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as book:
        submission = book.find_submission(GRADED, "right")
        assert (submission.score, submission.max_score) == (5, 10)
