"""A user's method beside the others: one rule, the same seeds, one number."""

from functools import partial

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import plans
from fedlib.errors import Error
from fedlib.reproduction import score as scoring

OWN = """
import fedlib

class Still(fedlib.FedOpt):
    def server_update(self, server, mean):
        return server
"""


@pytest.fixture
def small(monkeypatch):
    """Two tasks of the suite, a few rounds, two seeds, and the others' rates alone."""
    suite = {"10_cifar10": "accuracy", "16_stackoverflow_lr": "recall_at_5"}
    monkeypatch.setattr(scoring, "SUITE", suite)
    requests = partial(plans.requests, rounds=4, seeds=2, reach=0)
    monkeypatch.setattr("fedlib.plans.requests", requests)
    return requests


def test_the_score_is_the_mean_lead_with_students_interval():
    rows = [
        {"task": task, "method": method, "seed": seed, "value": base + lead / 100}
        for task, base in (("a", 0.5), ("b", 0.2))
        for seed in range(3)
        for method, lead in (("fedavg", 7.0 * seed), ("yours", 7.0 * seed + 1 + seed))
    ]
    table = scoring.table(pd.DataFrame(rows))
    # Leads of 1, 2 and 3 points: mean 2, deviation 1, and Student's 4.303 with two degrees.
    half = 4.303 / np.sqrt(3)
    assert table.loc["yours", ["lead", "low", "high"]].tolist() == pytest.approx(
        [2, 2 - half, 2 + half]
    )
    assert table.loc["fedavg", ["lead", "low", "high"]].tolist() == [0, 0, 0]
    assert table.loc["fedavg", ["a", "b"]].tolist() == pytest.approx([57, 27])
    assert list(table.index) == ["yours", "fedavg"]


@pytest.mark.slow
def test_a_method_is_tuned_on_all_rates_that_the_others_try(small, command, tmp_path, monkeypatch):
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    scored = command.json("score", "own:Still", "--set", "server_lr=1")
    frame = pd.DataFrame(scored["rows"])
    asked = small("10_cifar10")
    assert set(frame["method"]) == {"yours", *(r.algorithm for r in asked if r.part == "curves")}
    assert frame.groupby(["task", "method"])["seed"].apply(set).eq({0, 1}).all()
    yours = frame[frame["method"] == "yours"]
    rates = {r.overrides["client_lr"] for r in asked if r.part == "curves"}
    assert set(yours.loc[yours["task"] == "cifar10", "settings"]) == {len(rates)}
    assert set(yours["server_lr"]) == {1.0}
    # A server that stands still keeps the first model's numbers, and the others learn.
    metrics = dict(zip(("cifar10", "stackoverflow_lr"), scoring.SUITE.values(), strict=True))
    for row in yours.itertuples():
        task = fedlib.load_task(row.task, seed=row.seed)
        first = fedlib.run(task, "fedavg", rounds=0, seed=row.seed)
        assert row.value == pytest.approx(first.series(metrics[row.task])[0], abs=1e-6)
    assert scored["score"]["lead"] < 0
    with pytest.raises(Error, match="--tune tau: the method has client_lr and server_lr to tune"):
        scoring.score("fedavg", fedlib.results.Store(), tune=["tau"])
