"""The picture of all numbers: which colour a number has, what is named."""

import pandas as pd

from fedlib.reproduction.overview import paper_against_ours


def test_numbers_have_the_colour_of_their_runs_and_those_that_are_furthest_off_are_named():
    common = {"paper": "fedopt", "column": "", "metric": "avg", "preset": "paper", "data": "real"}
    rows = [
        {"row": "A", "printed": 50.0, "ours": 51.0, "fair": True, "agrees": True},
        {"row": "B", "printed": 50.0, "ours": 40.0, "fair": True, "agrees": False},
        {"row": "C", "printed": 80.0, "ours": 10.0, "fair": False, "agrees": False},
        {"row": "D", "printed": 80.0, "ours": 20.0, "fair": False, "agrees": False},
    ]
    rows[3] |= {"preset": "quick", "data": "stand-in"}
    frame = pd.DataFrame([{**common, **row} for row in rows])
    frame = frame.assign(difference=frame["ours"] - frame["printed"])
    figure = paper_against_ours(frame)
    panel, other, *_ = figure.axes
    assert panel.get_title("left") == "FedOpt"
    assert [text.get_text() for text in panel.texts] == ["B: 40", "1 of 2 comparable agree"]
    assert [text.get_text() for text in other.texts] == ["no number is comparable"]
    small, cut, full = panel.lines[1:]
    assert [list(dots.get_ydata()) for dots in (small, cut, full)] == [[20], [10], [51, 40]]
    assert len({dots.get_color() for dots in (small, cut, full)}) == 3
    assert [text.get_text()[:5] for text in figure.legends[0].get_texts()] == [
        "small",
        "real ",
        "the p",
    ]
