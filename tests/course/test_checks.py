"""Plausible wrong answers are refused, in one line, by the cell that tests them.

Each is the course's own answer with one slip in it: a sign, a root, a weight.
"""

import sys

import numpy as np
import pytest

from docs.course.checks import compare
from tests.course import books

SLIPS = {
    ("session_01", "label_skew"): [
        ("np.abs(np.array", "np.square(np.array"),
        ("- everyone", "- 1 / classes"),
    ],
    ("session_01", "dirichlet_partition"): [
        ("np.full(classes, alpha)", "np.full(classes, alpha / classes)"),
        (".pop()", "[0]"),
    ],
    ("session_02", "fedavg_round"): [
        ("p @ np.array(ends)", "np.mean(ends, axis=0)"),
        ("gradient(y)", "gradient(x)"),
    ],
    ("session_02", "scaffold_round"): [
        ("gradient(y) - own + c", "gradient(y) + own - c"),
        ("c + p @ (np.array(new) - controls)", "p @ (np.array(new) - controls)"),
    ],
    ("session_03", "fedadagrad"): [("np.sqrt(v)", "v"), ("v = v + delta**2", "v = v + m**2")],
    ("session_03", "fedadam"): [
        ("beta2 * v", "0.99 * v"),
        ("np.sqrt(v) + tau", "np.sqrt(v + tau)"),
    ],
    ("session_03", "fedyogi"): [
        ("v - (1 - beta2)", "v + (1 - beta2)"),
        (" * np.sign(v - delta**2)", ""),
    ],
    ("session_04", "select"): [
        ("skipna=False", "skipna=True"),
        ("values.mean(skipna=False)", "values.min()"),
    ],
    ("session_04", "at_edge"): [("low < high and ", ""), ("rate in (low, high)", "rate == high")],
    ("session_05", "recall_at_5"): [
        ("/ tags.sum()", "/ (5 * len(tags))"),
        (
            "np.take_along_axis(tags, top, axis=1).sum() / tags.sum()",
            "np.nanmean(np.take_along_axis(tags, top, axis=1).sum(1) / np.maximum(tags.sum(1), 1))",
        ),
    ],
    ("session_05", "sparse_adagrad"): [
        ("np.add.at(total, place, g)", "total[place] = g"),
        ("np.sqrt(v[words])", "v[words]"),
    ],
    ("session_06", "client_step"): [
        ("g_here - g_server + c", "g_here + g_server - c"),
        ("    g = ", "    m *= beta1\n    g = "),
    ],
    ("session_06", "server_state"): [
        ("(1 - beta2) * c**2", "c**2"),
        ("beta1 * m +", "beta2 * m +"),
    ],
    ("session_07", "means"): [
        ("(a * n).sum() / n.sum()", "a.mean()"),
        ("examples > 0", "examples >= 0"),
    ],
    ("session_07", "spread"): [
        ("-(-3 * len(a) // 10)", "3 * len(a) // 10"),
        ("errors.std()", "errors.std(ddof=1)"),
    ],
    ("session_08", "accumulated"): [("momentum * n + 1", "1"), ("total += n", "total = n")],
    ("session_08", "fednova_round"): [
        ("(p @ a) * ", ""),
        ("np.where(a > 0, 1 / np.where(a > 0, a, 1), 0)", "(1 / a)"),
    ],
    ("session_09", "step_size"): [
        ("np.sqrt(1 + delta * theta)", "(1 + delta * theta)"),
        ("(2 * turned)", "turned"),
    ],
    ("session_09", "local_round"): [
        ("eta0, 1.0\n", "eta0, 0.0\n"),
        ("x_before, g_before, x = x, g,", "x ="),
    ],
    ("session_10", "statement"): [("ddof=1", "ddof=0"), ("-np.inf, 0.0", "np.nan, 0.0")],
    ("session_10", "claim"): [
        ('("does not hold", "not resolved")', '("not resolved", "does not hold")'),
        ('return "holds"', 'return "not resolved"'),
    ],
}
CASES = [(*key, *slip) for key, slips in SLIPS.items() for slip in slips]


@pytest.fixture(autouse=True)
def checks_beside_the_notebook(monkeypatch):
    """``import checks``, as in a student's folder."""
    monkeypatch.syspath_prepend(str(books.COURSE))
    for name in [name for name in sys.modules if name.partition(".")[0] == "checks"]:
        monkeypatch.delitem(sys.modules, name)


def test_every_function_has_slips():
    written = {
        (name, function) for name in books.NAMES for function in books.functions(books.read(name))
    }
    assert set(SLIPS) == written and min(map(len, SLIPS.values())) >= 2


@pytest.mark.parametrize(("name", "function", "right", "wrong"), CASES)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_a_slip_is_refused_in_one_line(name, function, right, wrong):
    book = books.read(name)
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
    assert type(refused.value).__name__ == "Wrong" or name in ("session_04", "session_10")
    assert str(refused.value) or name in ("session_04", "session_10")


def test_what_a_line_says():
    for given, message in (
        (np.zeros(3), r"x has shape \(3,\), not \(2,\); look at p"),
        ([1.0, 2.5], r"x is \[1. 2.5\], not \[1. 2.\]; look at p"),
        (None, "x is None: return it; look at p"),
        ("a", "x is str, not numbers; look at p"),
    ):
        with pytest.raises(compare.Wrong, match=f"^{message}$"):
            compare.same("x", given, [1.0, 2.0], "look at p")
    with pytest.raises(compare.Wrong, match="step must return 2 things: x, m"):
        compare.results("step", np.zeros(2), "x, m")
    compare.same("x", [1.0, 2.0 + 1e-12], [1.0, 2.0])
