"""FedOpt's claims about tuning: measures on made outcomes, and broken algorithms that fail them."""

import math
import os

import numpy as np
import pandas as pd
import pytest
import torch

import fedlib
from fedlib import plans
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.optimizers import server
from fedlib.reproduction import answers, claims
from fedlib.reproduction.evidence import FAILS, HOLDS, OPEN, Missing, Runs
from fedlib.reproduction.fedopt import outcomes, tuning_claims
from fedlib.reproduction.fedopt.tables import ADAPTIVE, OPTIMIZERS
from fedlib.results import Store

RATES = [10.0 ** (half / 2) for half in range(-4, 3)]


def cells(task, value, taus=(math.nan,), names=OPTIMIZERS, seeds=3):
    """Outcomes of grids: the metric (percent) is a function of algorithm, rates, tau and seed."""
    rows = [
        {
            **{"task": task, "algorithm": name, "client_lr": c, "server_lr": s, "tau": tau},
            **{"metric": "accuracy", "seed": seed, "performance": value(name, c, s, tau, seed)},
            **{"loss": 0.5, "initial_loss": 2.0, "diverged": math.nan},
        }
        for name in names
        for tau in taus
        for c in RATES
        for s in RATES
        for seed in range(seeds)
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(train_loss=100 - frame["performance"])


def worst(statements):
    verdicts = {statement.verdict for statement in statements}
    return next(verdict for verdict in (FAILS, OPEN, HOLDS) if verdict in verdicts)


def valley(width):
    """A ridge at c * s = 0.1 of this half-width (decades); a band at s = 0.1 with adaptivity."""

    def value(name, c, s, tau, seed):
        away = math.log10(s) + 1 + (0 if name in ADAPTIVE else math.log10(c))
        return 60.0 - seed if abs(away) <= width(name) else 10.0

    return value


def test_more_good_cells_with_adaptivity():
    wide = cells("stackoverflow_lr", valley(lambda name: 0.6 if name in ADAPTIVE else 0.1))
    (statement,) = tuning_claims.easy_to_tune(wide)
    # Three of seven rows, against a diagonal of seven cells and one cell more.
    assert statement.verdict == HOLDS
    assert statement.margins == pytest.approx([(21 - 7 - 1) / 49] * 3)
    alike = cells("stackoverflow_lr", lambda name, *_: 50.0)
    assert worst(tuning_claims.easy_to_tune(alike)) == FAILS
    with pytest.raises(Missing):
        tuning_claims.easy_to_tune(cells("cifar10", lambda *_: 50.0))


def test_good_cells_are_near_the_best_of_all_optimizers_and_diverged_ones_are_not():
    frame = cells("cifar10", lambda name, *_: 60.0 if name == "fedadam" else 50.0, seeds=1)
    lost = (frame["algorithm"] == "fedadam") & (frame["client_lr"] == RATES[0])
    frame.loc[lost, ["performance", "diverged"]] = [math.nan, 1.0]
    shares = outcomes.good_share(frame)[0]
    assert shares.to_dict() == {**dict.fromkeys(OPTIMIZERS, 0.0), "fedadam": 6 / 7}


def test_a_fixed_tau_is_judged_at_rates_that_were_tuned_for_each():
    def value(best, other):
        return lambda name, c, s, tau, seed: (
            (best if tau == 0.1 else other) + seed if (c, s) == (RATES[2], RATES[3]) else 20.0
        )

    taus = dict(taus=(1e-5, 1e-3, 0.1), names=ADAPTIVE)
    near = tuning_claims.fixed_tau(cells("cifar10", value(81.0, 80.0), **taus))
    assert len(near) == 4 and worst(near) == HOLDS
    assert near[0].margins == pytest.approx([0.01] * 3)
    assert worst(tuning_claims.fixed_tau(cells("cifar10", value(83.0, 80.0), **taus))) == FAILS
    untrained = cells("cifar10", value(81.0, 80.0), **taus).assign(loss=1.9)
    assert worst(tuning_claims.fixed_tau(untrained)) == FAILS
    errors = cells("emnist_ae", value(10.8, 10.0), **taus).assign(metric="mse_x1000")
    errors["performance"] = errors["train_loss"]  # small is good
    assert worst(tuning_claims.fixed_tau(errors)) == HOLDS
    seeds_apart = errors[(errors["tau"] == 0.1) == (errors["seed"] == 0)]
    for partial in (seeds_apart, errors[errors["tau"] == 1e-3]):
        with pytest.raises(Missing):
            tuning_claims.fixed_tau(partial)


def test_slopes_of_the_best_server_rate():
    def value(name, c, s, tau, seed):
        best = 0.1 if name in ADAPTIVE else 0.1 / c
        return 80.0 - 10 * abs(math.log10(s / best))

    frame = cells("cifar10", value)
    inside = frame[(frame["client_lr"] >= 10**-1.1) & (frame["client_lr"] <= 1.1)]
    slopes = outcomes.slopes(inside).unstack("algorithm")
    assert slopes[list(ADAPTIVE)].to_numpy() == pytest.approx(np.zeros((3, 3)), abs=1e-9)
    assert slopes[["fedavg", "fedavgm"]].to_numpy() == pytest.approx(-np.ones((3, 2)))
    assert worst(tuning_claims.inverse_rates(inside)) == HOLDS
    alike = cells("cifar10", lambda name, *rest: value("fedavg", *rest))
    assert worst(tuning_claims.inverse_rates(alike)) == FAILS
    with pytest.raises(Missing):
        tuning_claims.inverse_rates(frame.assign(loss=1.95))
    hole = inside[(inside["algorithm"] != "fedadam") | (inside["seed"] > 0)]
    assert {len(statement.margins) for statement in tuning_claims.inverse_rates(hole)} == {2}


def ends(level, seed, rounds=30):
    task = fedlib.quadratic_task(np.eye(2)[None].repeat(3, 0), np.ones((3, 2)))
    config = configure(task, "fedavg", rounds=rounds, seed=seed).config
    rows = [(r, "test", "accuracy", level if r > 20 else 0.0) for r in range(rounds + 1)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    return History(frame, pd.DataFrame(), {}, config, {"diverged": None})


@pytest.mark.parametrize(("gain", "verdict"), [(0.02, HOLDS), (-0.02, FAILS), (0.0, FAILS)])
def test_decay_has_to_gain_and_to_narrow_the_gap(gain, verdict):
    def runs(names, level):
        return Runs(
            {name: [ends(level + 0.001 * seed, seed) for seed in range(3)] for name in names}
        )

    kinds = {
        "constant": runs(OPTIMIZERS, 0.8),
        "decay": runs(OPTIMIZERS, 0.8 + gain),
        "centralized": runs(("sgd", "adam"), 0.9),
    }
    statements = tuning_claims.decay(kinds)
    assert len(statements) == len(OPTIMIZERS) + 1 and worst(statements) == verdict
    assert statements[0].margins == pytest.approx([gain] * 3)  # of the last third only
    with pytest.raises(Missing):
        tuning_claims.decay(kinds | {"centralized": Runs({})})


# --- Broken algorithms, trained from an empty store


def judged(id, notebook, task, folder, **numbers):
    requests = plans.requests(notebook, "quick", **numbers)
    requests = [request for request in requests if request.task == task]
    runs = answers.answer(Store(folder / "runs", published=[]), requests, "quick", progress=False)
    return claims.judged(claims.EVIDENCE[id], "quick", {notebook: runs}).verdict


def uphill(self, x, g, state, step=server.Adaptive.step):
    after, state = step(self, x, g, state)
    return 2 * x - after, state


def momentum(self, x, g, state, step=server.Adaptive.step):
    state = step(self, x, g, state)[1]
    return x - self.lr * state["m"] / 0.01, state


# Claim -> task, numbers, what is broken and by what. (Decay's claim does not hold anyway.)
STEP = (server.Adaptive, "step")
MUTATIONS = {
    "fedopt-cifar10": ("cifar10", {"reach": 0}, *STEP, uphill),
    "fedopt-cifar100": ("cifar100", {"reach": 0}, *STEP, uphill),
    "fedopt-easy-to-tune": ("stackoverflow_lr", {"seeds": 1}, *STEP, momentum),
    "fedopt-tau": ("emnist_cr", {"reach": 0}, *STEP, uphill),
    "fedopt-inverse-rates": ("cifar10", {"seeds": 1}, *STEP, momentum),
}


@pytest.mark.skipif(os.environ.get("FEDLIB_CLAIMS") != "all", reason="trains for minutes")
@pytest.mark.parametrize("id", MUTATIONS)
def test_a_broken_algorithm_does_not_show_what_the_paper_claims(id, tmp_path, monkeypatch):
    task, numbers, owner, name, broken = MUTATIONS[id]
    (notebook,) = claims.EVIDENCE[id].sources
    torch.set_num_threads(1)
    monkeypatch.setattr(owner, name, broken)
    assert judged(id, notebook, task, tmp_path, **numbers) != HOLDS


@pytest.mark.parametrize(
    ("rounds", "every", "window"),
    [(80, 2, 26), (1500, 1, 100), (1500, 10, 100), (1000, 50, 300), (1000, 1000, 333)],
)
def test_a_run_is_judged_by_six_evaluations_or_more(rounds, every, window):
    task = fedlib.load_task("quadratic")
    config = configure(task, "fedavg", rounds=rounds, eval_every=every).config
    nothing = pd.DataFrame({name: [] for name in ("round", "split", "metric", "value")})
    assert outcomes.late(History(nothing, pd.DataFrame(), {}, config, {})) == window
