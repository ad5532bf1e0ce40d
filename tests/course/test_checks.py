"""Plausible wrong answers are refused, in one line, by the cell that tests them.

Each is the course's own answer with one slip in it: a sign, a root, a weight.
"""

import sys

import numpy as np
import pytest

from docs.course import checks
from tests.course import books

EACH = "np.nanmean(np.take_along_axis(tags, top, axis=1).sum(1) / np.maximum(tags.sum(1), 1))"
# Session, function, what its answer has, and in its place.
SLIPS = [
    ("01", "label_skew", "np.abs(np.array", "np.square(np.array"),
    ("01", "dirichlet_partition", "np.full(classes, alpha)", "np.full(classes, alpha / classes)"),
    ("02", "fedavg_round", "p @ np.array(ends)", "np.mean(ends, axis=0)"),
    ("02", "scaffold_round", "c + p @ (np.array(new)", "p @ (np.array(new)"),
    ("03", "fedadagrad", "v = v + delta**2", "v = v + m**2"),
    ("03", "fedadam", "np.sqrt(v) + tau", "np.sqrt(v + tau)"),
    ("03", "fedyogi", " * np.sign(v - delta**2)", ""),
    ("04", "select", "skipna=False", "skipna=True"),
    ("04", "at_edge", "low < high and ", ""),
    ("05", "recall_at_5", "np.take_along_axis(tags, top, axis=1).sum() / tags.sum()", EACH),
    ("05", "sparse_adagrad", "np.add.at(total, place, g)", "total[place] = g"),
    ("06", "client_step", "    g = ", "    m *= beta1\n    g = "),
    ("06", "server_state", "(1 - beta2) * c**2", "c**2"),
    ("07", "means", "(a * n).sum() / n.sum()", "a.mean()"),
    ("07", "spread", "-(-3 * len(a) // 10)", "3 * len(a) // 10"),
    ("08", "accumulated", "momentum * n + 1", "1"),
    ("08", "fednova_round", "np.where(a > 0, 1 / np.where(a > 0, a, 1), 0)", "(1 / a)"),
    ("09", "step_size", "np.sqrt(1 + delta * theta)", "(1 + delta * theta)"),
    ("09", "local_round", "x_before, g_before, x = x, g,", "x ="),
    ("10", "statement", "-np.inf, 0.0", "np.nan, 0.0"),
    ("10", "claim", '("does not hold", "not resolved")', '("not resolved", "does not hold")'),
    ("11", "clipped", " if length > clip else delta", ""),
    ("11", "private_round", "clipped(end - x, clip)", "end - x"),
]


@pytest.fixture(autouse=True)
def checks_beside_the_notebook(monkeypatch):
    """``import checks``, as in a student's folder."""
    monkeypatch.syspath_prepend(str(books.COURSE))
    monkeypatch.delitem(sys.modules, "checks", raising=False)


def test_every_function_has_a_slip():
    written = [(name, each) for name in books.NAMES for each in books.functions(books.read(name))]
    assert {(f"session_{session}", function) for session, function, *_ in SLIPS} == set(written)


@pytest.mark.parametrize(("session", "function", "right", "wrong"), SLIPS)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_slip_is_refused_in_one_line(session, function, right, wrong):
    book = books.read(f"session_{session}")
    answers = books.functions(book)
    assert right in answers[function], "the slip is none of this answer"
    answers[function] = answers[function].replace(right, wrong)
    names = {}
    for source in (books.sources(book, "code")["setup"], *answers.values()):
        exec(source, names)
    with pytest.raises(AssertionError) as refused:
        exec(books.sources(book, "test")[f"{function}_test"], names)
    assert "\n" not in str(refused.value)
    # The visible lines of two cells are plain asserts; all others say what is wrong.
    assert session in ("04", "10") or (
        type(refused.value).__name__ == "Wrong" and str(refused.value)
    )


def test_predictions_questions_and_verdicts_are_checked_by_their_form():
    checks.prediction([0.5, 1], 2, low=0, high=1)
    checks.orders(["CAB"], 1, "ABC")
    checks.quiz(["a", "d"], 2, "abcd")
    for margins, right in (
        ([1.0, 2.0, 3.0], "holds"),
        ([-1.0, -2.0, -3.0], "does not hold"),
        ([-1.0, 0.5, 1.0], "not resolved"),
    ):
        checks.verdict(margins, right)
        for other in {"holds", "does not hold", "not resolved"} - {right}:
            with pytest.raises(checks.Wrong, match="do not give"):
                checks.verdict(margins, other)
    for check, wrong, message in (
        (checks.prediction, ([0.5], 2, 0, 1), "give a list of 2 numbers"),
        (checks.prediction, ([0.5, np.nan], 2, 0, 1), "nan is not a number"),
        (checks.orders, (["AAB"], 1, "ABC"), "is not an order of ABC"),
        (checks.quiz, (["a", "e"], 2, "abcd"), "'e' is not one of a, b, c, d"),
        (checks.verdict, ([1.0, 2.0, np.inf], "holds"), "at least three seeds"),
    ):
        with pytest.raises(checks.Wrong, match=message):
            check(*wrong)
