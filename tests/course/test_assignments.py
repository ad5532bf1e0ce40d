"""Every session has an assignment in nbgrader's form, and the course's answers pass its checks."""

import ast
import sys
import warnings

import matplotlib
import pytest

from tests.course import books

# Points of docs/course/README.md: by a person and, half of them, by a program.
POINTS = {"derivation": 1, "experiment_answer": 2, "limits": 2}
TESTS = {"prediction_test": 1, "quiz_test": 1, "verdict_test": 1}  # and 2 for the functions


@pytest.mark.parametrize("name", books.NAMES)
def test_an_assignment_has_its_parts_in_nbgraders_form_and_ten_points(name):
    book = books.read(name)
    about = [cell.metadata.nbgrader for cell in book.cells]
    assert all(each.schema_version == 3 and each.locked != each.solution for each in about)
    assert len({each.grade_id for each in about}) == len(about)
    points = {"answer": {}, "test": {}}
    for cell in book.cells:
        kind, source = books.kind(cell), cell.source
        if kind in points:
            points[kind][cell.metadata.nbgrader.grade_id] = cell.metadata.nbgrader.points
        solution = kind == "solution"
        assert source.count("### BEGIN SOLUTION") == source.count("### END SOLUTION") == solution
        assert source.count("### BEGIN HIDDEN TESTS") == (kind == "test")
        assert (kind == "test") == source.rstrip().endswith("### END HIDDEN TESTS")
        assert cell.cell_type != "code" or cell.outputs == []
    assert points["answer"] == POINTS and points["test"].items() >= TESTS.items()
    assert sum(POINTS.values()) == sum(points["test"].values()) == 5
    for function, source in books.functions(book).items():
        left = ast.parse(books.stub(source)).body[0]
        assert left.name == function and isinstance(left.body[-1], ast.Raise)


def failures(cells):
    """Run a notebook's cells; those that fail, and how."""
    names = {"__name__": "__main__", "display": lambda *_: None}
    failed = {}
    for name, source in cells.items():
        try:
            exec(compile(source, name, "exec", dont_inherit=True), names)
        except Exception as problem:
            failed[name] = f"{type(problem).__name__}: {problem}"
    return failed


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.parametrize("name", books.NAMES)
def test_the_courses_answers_pass_and_stubs_fail(name, monkeypatch):
    monkeypatch.syspath_prepend(str(books.COURSE))  # as in a student's folder: import checks
    monkeypatch.delitem(sys.modules, "checks", raising=False)
    matplotlib.use("Agg")
    book = books.read(name)
    cells = books.sources(book, "code", "solution", "test")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        assert failures(cells) == {}
        stubs = failures({cell: books.stub(source) for cell, source in cells.items()})
    # What is filled in fails as a stub does; what runs the functions fails with them.
    expected = {*books.sources(book, "test"), "run", *books.FILLED}
    assert stubs.keys() == expected
    assert {stubs[cell] for cell in expected - TESTS.keys()} == {"NotImplementedError: "}
