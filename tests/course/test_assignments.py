"""Every session has an assignment in nbgrader's form, and the course's answers pass its checks."""

import sys
import warnings

import matplotlib
import pytest

from tests.course import books

TESTS = {"prediction_test", "quiz_test", "verdict_test"}  # and those of the functions


@pytest.mark.parametrize("name", books.NAMES)
def test_an_assignment_is_worth_ten_points(name):
    about = [cell.metadata.nbgrader for cell in books.read(name).cells]
    assert len({each.grade_id for each in about}) == len(about)
    assert sum(each.points for each in about if each.grade) == 10


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
    assert {stubs[cell] for cell in expected - TESTS} == {"NotImplementedError: "}
