"""The picture of notebook 08: the loop's accuracies as lines, the library's as marks."""

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib.reproduction.theory import from_scratch as drawing

METHODS = ("fedavg", "fedadam", "fedyogi", "mime", "fedadam_delta_sgd")


@pytest.fixture
def curves():
    """Five rounds of some methods; here the library's accuracies are not the loop's."""
    values = np.random.default_rng(0).random((len(METHODS), 2, 5))
    frames = [
        pd.DataFrame({"method": name, "round": range(5), "ours": ours, "fedlib": theirs})
        for name, (ours, theirs) in zip(METHODS, values, strict=True)
    ]
    return pd.concat(frames, ignore_index=True)


def test_lines_are_the_loops_and_marks_the_librarys(curves):
    figure = drawing.from_scratch(curves)
    assert [ax.get_title() for ax in figure.axes] == list(drawing.PANELS)
    for ax, shown in zip(figure.axes, drawing.PANELS.values(), strict=True):
        drawn = [name for name in shown if name in METHODS]
        lines = iter(ax.get_lines())
        for name in drawn:
            curve = curves[curves["method"] == name].set_index("round")
            line, marks = next(lines), next(lines)
            np.testing.assert_array_equal(line.get_ydata(), 100 * curve["ours"])
            assert line.get_marker() == "None" and marks.get_linestyle() == "None"
            rounds = marks.get_xdata()
            np.testing.assert_array_equal(marks.get_ydata(), 100 * curve["fedlib"].loc[rounds])
            assert line.get_color() == marks.get_color()
        assert next(lines, None) is None
        labels = [text.get_text() for text in ax.get_legend().get_texts()]
        assert len(labels) == len(set(labels)) == len(drawn)


def test_methods_that_lie_on_each_other_are_marked_in_turn(curves):
    servers = drawing.from_scratch(curves).axes[0]
    marked = {line.get_label(): set(line.get_xdata()) for line in servers.get_lines()[1::2]}
    assert marked["FedAdam"] == {1, 3} and marked["FedYogi"] == {0, 2, 4}


def test_mistakes_are_named(curves):
    with pytest.raises(fedlib.Error, match="columns method, round, ours, fedlib"):
        drawing.from_scratch(curves.drop(columns="fedlib"))
    with pytest.raises(fedlib.Error, match="columns method"):
        drawing.from_scratch(curves[:0])
    with pytest.raises(fedlib.Error, match="unknown method 'fedsgd'"):
        drawing.from_scratch(curves.replace({"method": {"mime": "fedsgd"}}))
