"""What FedOpt claims, measured on made runs; and claims that broken algorithms make fail."""

import dataclasses
import os

import pandas as pd
import pytest
import torch

import fedlib
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.optimizers import server
from fedlib.reproduction import claims
from fedlib.reproduction.evidence import FAILS, HOLDS, NOT_RUN
from fedlib.reproduction.fedopt.tables import SETUPS, TABLES_1
from fedlib.results import Store

ROUNDS = 20
FIVE = ("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi")


def runs(task, **finals):
    """Two seeds of each algorithm, whose metric rises (or falls) evenly to a last value."""
    metric = TABLES_1[task].cells[0].metric
    plain = dataclasses.replace(fedlib.load_task("quadratic"), name=task)
    made = []
    for name, last in finals.items():
        for seed in (0, 1):
            config = configure(plain, name, rounds=ROUNDS, seed=seed).config
            rows = [(r, "test", metric, last * r / ROUNDS) for r in range(ROUNDS + 1)]
            rows += [(r, "train", "loss", 1.0) for r in range(1, ROUNDS + 1)]
            frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
            made.append(History(frame, pd.DataFrame(), {}, config, {"diverged": None}))
    return made


def verdict(id, task, lost=(), **finals):
    """Of runs that end so; those of the algorithms in ``lost`` diverged."""
    made = runs(task, **finals)
    for run in made:
        if run.config.algorithm in lost:
            run.meta["diverged"] = ROUNDS // 2
    return claims.judged(claims.EVIDENCE[id], "quick", {SETUPS[task][0]: made}).verdict


def five(fedavg, fedavgm, fedadagrad, fedadam, fedyogi, **more):
    return dict(zip(FIVE, (fedavg, fedavgm, fedadagrad, fedadam, fedyogi), strict=True)) | more


@pytest.mark.parametrize(
    ("finals", "expected"),
    [
        (five(0.30, 0.37, 0.67, 0.65, 0.66), HOLDS),  # Table 1
        (five(0.30, 0.60, 0.67, 0.65, 0.66), FAILS),  # momentum close behind
        (five(0.30, 0.37, 0.40, 0.65, 0.66), FAILS),  # one adaptive method is not ahead
    ],
)
def test_sparse_tags_ask_each_adaptive_method_for_a_lead_of_three_tenths(finals, expected):
    assert verdict("fedopt-sparse-lr", "stackoverflow_lr", **finals) == expected


@pytest.mark.parametrize(
    ("finals", "expected"),
    [
        # A last value of 0.5 on an even way passes 0.195 before half of the rounds, 0.26 does not.
        (five(0.195, 0.2, 0.2, 0.5, 0.5), HOLDS),
        (five(0.195, 0.2, 0.2, 0.252, 0.252), FAILS),  # ahead, but not in half of the rounds
        (five(0.195, 0.2, 0.5, 0.5, 0.21), FAILS),
    ],
)
def test_next_words_ask_for_a_lead_at_the_end_and_in_rounds(finals, expected):
    assert verdict("fedopt-sparse-nwp", "stackoverflow_nwp", **finals) == expected


@pytest.mark.parametrize(
    ("finals", "expected"),
    [
        (five(6.47, 1.65, 4.0, 1.0, 0.98), HOLDS),  # Table 1
        (five(1.9, 1.65, 4.0, 1.0, 0.98), FAILS),
        (five(6.47, 0.9, 4.0, 1.0, 0.98), FAILS),
        (five(6.47, 7.0, 4.0, 1.0, 0.98), FAILS),
    ],
)
def test_the_autoencoder_asks_for_half_of_the_error_and_momentum_between(finals, expected):
    assert verdict("fedopt-autoencoder", "emnist_ae", **finals) == expected


@pytest.mark.parametrize(
    ("finals", "expected"),
    [
        (five(0.85, 0.85, 0.86, 0.86, 0.86, centralized=0.88), HOLDS),
        (five(0.83, 0.85, 0.86, 0.86, 0.86, centralized=0.88), FAILS),
        (five(0.78, 0.78, 0.78, 0.78, 0.78, centralized=0.88), FAILS),
        (five(0.85, 0.85, 0.86, 0.86, 0.86), NOT_RUN),
    ],
)
@pytest.mark.parametrize("task", ["emnist_cr", "shakespeare"])
def test_dense_tasks_ask_for_equality_near_centralised_training(task, finals, expected):
    assert verdict("fedopt-dense-equal", task, **finals) == expected


@pytest.mark.parametrize(
    ("task", "fedavg", "scaffold", "expected"),
    [
        ("emnist_cr", 0.85, 0.855, HOLDS),
        ("emnist_cr", 0.85, 0.87, FAILS),
        ("stackoverflow_lr", 0.4, 0.3, HOLDS),
        ("stackoverflow_lr", 0.4, 0.42, FAILS),
        ("emnist_ae", 10.0, 9.5, HOLDS),  # an error: smaller is better
        ("emnist_ae", 10.0, 8.0, FAILS),
    ],
)
def test_scaffold_may_not_be_better_than_fedavg_in_the_tasks_metric(
    task, fedavg, scaffold, expected
):
    assert verdict("fedopt-scaffold", task, fedavg=fedavg, scaffold=scaffold) == expected


def test_a_scaffold_that_diverged_is_worse_than_a_fedavg_that_did_not():
    ends = {"fedavg": 0.85, "scaffold": 0.87}
    assert verdict("fedopt-scaffold", "emnist_cr", ["scaffold"], **ends) == HOLDS
    assert verdict("fedopt-scaffold", "emnist_cr", ["scaffold", "fedavg"], **ends) == FAILS


# --- Broken algorithms, from an empty store: some minutes


def uniform(optimizer, v, square):
    """A second moment that is the same for all coordinates: adaptivity taken away."""
    moment = optimizer.beta2 * v + (1 - optimizer.beta2) * square
    return moment.mean(-1, keepdim=True).expand_as(moment)


def ascending(optimizer, x, g, state):
    """A server step in the wrong direction."""
    return x + optimizer.lr * g, state


@pytest.mark.skipif(os.environ.get("FEDLIB_CLAIMS") != "all", reason="opt-in: FEDLIB_CLAIMS=all")
@pytest.mark.parametrize(
    ("id", "kind", "method", "broken"),
    [
        ("fedopt-sparse-lr", server.Adam, "second_moment", uniform),
        ("fedopt-sparse-nwp", server.Adam, "second_moment", uniform),
        ("fedopt-dense-equal", server.SGD, "step", ascending),
    ],
)
def test_a_broken_algorithm_makes_its_claim_fail(id, kind, method, broken, tmp_path, monkeypatch):
    monkeypatch.setattr(kind, method, broken)
    torch.set_num_threads(2)
    store = Store(tmp_path / "runs", published=[])
    (judged,) = claims.judge([id], "quick", store, train=True, progress=False)
    assert judged.verdict != HOLDS, judged.frame().to_string()
