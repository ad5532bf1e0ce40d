"""The picture of all numbers: what is full, what is grey, what is named."""

import pandas as pd

from fedlib.reproduction.overview import paper_against_ours


def test_fair_numbers_are_full_and_the_furthest_that_do_not_agree_are_named():
    common = {"paper": "fedopt", "algorithm": "fedavg", "column": "", "metric": "avg"}
    rows = [
        {"row": "A", "printed": 50.0, "ours": 51.0, "fair": True, "agrees": True},
        {"row": "B", "printed": 50.0, "ours": 40.0, "fair": True, "agrees": False},
        {"row": "C", "printed": 80.0, "ours": 10.0, "fair": False, "agrees": False},
    ]
    frame = pd.DataFrame([{**common, **row} for row in rows])
    frame = frame.assign(difference=frame["ours"] - frame["printed"])
    panel, *_ = paper_against_ours(frame).axes
    assert panel.get_title() == "FedOpt: 2 compared, 1 agree"
    assert [text.get_text() for text in panel.texts] == ["B, avg"]
    grey = panel.lines[1]
    assert list(grey.get_ydata()) == [10.0] and grey.get_markerfacecolor() == "none"
