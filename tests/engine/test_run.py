"""Requests that are refused, runs that diverge, and what histories say."""

import dataclasses
import math
import sys
import threading

import numpy as np
import pandas as pd
import pytest
import torch

import fedlib
from fedlib.engine import configure, programs
from fedlib.engine.device import SHARE
from fedlib.engine.fairness import fairness
from fedlib.models import MLP
from tests.refusals import refused

BAD = [
    ({"algorithm": "fedadm"}, "unknown algorithm 'fedadm': did you mean 'fedadam'"),
    ({"overrides": {"client_schedule": "expdecay"}}, "unknown client_schedule .*'exp_decay'"),
    ({"overrides": {"local_steps": [1, 2]}}, "local_steps has 2 numbers for 10 clients"),
    ({"overrides": {"local_steps": [-1] * 10}}, "local_steps is -1"),
    ({"eval_last": 0}, "eval_last is 0 .allowed: a whole number >= 1"),
    ({"clients_per_round": 11}, r"clients_per_round is 11 .allowed: 1..10"),
    ({"seed": {"batch": 1}}, "unknown seed 'batch': did you mean 'batches'"),
    ({"device": "meta"}, "unknown device 'meta'"),
    ({"backend": "fast"}, "unknown backend 'fast'"),
    ({"dtype": "tf32", "device": "cpu"}, "needs a CUDA device"),
    ({"overrides": {"local_epochs": "1,3"}}, r"allowed: .* or two such numbers \[low, high\]"),
    ({"overrides": {"local_steps": np.array(2)}}, r"local_steps is array\(2\)"),
    ({"algorithm": fedlib.FedOpt(client=fedlib.client.ClientOptimizer())}, "defines no step"),
]
BAD += [
    ({"algorithm": "mime", **given}, message)
    for given, message in (
        ({"overrides": {"base": "rmsprop"}}, "unknown base 'rmsprop': .*, sgd, yogi"),
        ({"overrides": {"split": 1}}, "override split is 1 .allowed: true or false"),
        ({"overrides": {"lean": True}}, "lean is True .allowed: true only with split"),
        ({"overrides": {"base": "adam", "v0": 0.1, "bias_correction": True}}, "leave v0 out"),
        ({"overrides": {"split": True}, "clients_per_round": 1}, "mime splits the cohort"),
    )
]
# Of numbers that the type cannot hold.
UNHELD = {"beta1": 1 - 1e-9, "tau": 1e-60, "client_lr": 1e60}
BAD += [
    ({"overrides": {key: value}}, f"{key.replace('_lr', '.lr')} is .*float32")
    for key, value in UNHELD.items()
]
BAD += [
    ({"overrides": {"client_optimizer": optimizer, **given}}, message)
    for optimizer, given, message in (
        ("delta_sgd", {"client_lr": 0.1}, "finds its own step sizes"),
        ("sps", {"client_lr": 0.1}, "client_lr is 0.1"),
        ("sps", {"client_schedule": "step_decay"}, "SPS has no learning rate to schedule"),
    )
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_bad_requests_are_refused_in_one_line(synthetic, change, message):
    settings = {"algorithm": "fedadam", "rounds": 1, **change}
    refused(message, fedlib.run, synthetic, settings.pop("algorithm"), **settings)


def test_digests_name_what_determines_the_numbers(synthetic):
    base = configure(synthetic, "fedadam", rounds=3)[0]
    few = dataclasses.replace(synthetic, clients_per_round=99)
    assert configure(few, "fedadam")[0].clients_per_round == 10  # all that there are
    for seed in (0, {}, {"init": 0}):
        assert base.digest == configure(synthetic, "fedadam", rounds=3, seed=seed)[0].digest
    changes = [
        {"rounds": 4},
        {"seed": 1},
        {"seed": {"batches": 1}},
        {"dtype": "float64"},
        {"eval_every": 2},
        {"eval_every": 2, "eval_last": 2},
        {"clients_per_round": 5},
        {"overrides": {"client_lr": 0.02}},
        {"overrides": {"form": "printed"}},
        {"overrides": {"batch_size": 5}},
        {"overrides": {"local_steps": 2}},
    ]
    digests = [configure(synthetic, "fedadam", **{"rounds": 3, **c})[0].digest for c in changes]
    digests += [configure(synthetic, "fedyogi", rounds=3)[0].digest]
    other = fedlib.load_task("synthetic", clients=10, seed=1)
    digests += [configure(other, "fedadam", rounds=3)[0].digest]
    assert len({base.digest, *digests}) == len(changes) + 3


def test_which_rounds_are_evaluated_has_a_name_only_where_it_is_not_the_usual(synthetic):
    usual = configure(synthetic, "fedadam", rounds=9, eval_every=4)[0]
    assert "eval_last" not in usual.as_dict()
    each = [configure(synthetic, "fedadam", rounds=9, eval_last=m)[0].digest for m in (1, 5)]
    assert each[0] == each[1]  # every round is evaluated, with either
    assert configure(synthetic, "fedadam", rounds=9, eval_every=4, eval_last=1)[0] == usual


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "mime_mvr"])
def test_a_diverging_configuration_ends_alone(name):
    task, ends = fedlib.load_task("quadratic"), []
    given = {"rounds": 30, "eval_every": 1}
    given["overrides"] = {"local_steps": 2}
    frame = fedlib.grid(task, name, client_lr=[0.1, 1e20, 0.3, 1e8], **given)
    for rate, own in frame.groupby("client_lr", sort=False):
        given["overrides"] = {"local_steps": 2, "client_lr": rate}
        alone = fedlib.run(task, name, **given)
        ends.append(alone.diverged or 31)
        assert (own["diverged"].fillna(31) == ends[-1]).all()
        assert all(bool(torch.isfinite(p).all()) for p in alone.params.values())
        assert np.isnan(alone.final("loss")) == (alone.diverged is not None)
        tests = own[own["split"] == "test"]
        assert tests["round"].max() == ends[-1] - 1 and np.isfinite(tests["value"]).all()
        if alone.diverged is None:
            assert np.allclose(own["value"], alone.frame["value"], rtol=1e-5, atol=1e-6)
        else:  # the last finite ones
            before = fedlib.run(task, name, **{**given, "rounds": alone.diverged - 1})
            torch.testing.assert_close(alone.params, before.params)
    assert 31 == ends[0] == ends[2] > ends[3] > ends[1]


def test_history_frames(synthetic):
    history = fedlib.run(synthetic, "fedavg", rounds=7, eval_every=3)
    frame, clients = history.frame, history.clients
    assert list(frame.columns) == ["round", "split", "metric", "value"]
    tests = frame[frame["split"] == "test"]
    assert sorted(tests["round"].unique()) == [0, 3, 6, 7]
    assert set(tests["metric"]) == {"loss", "accuracy", *fairness(torch.ones(1, 2), torch.ones(2))}
    assert sorted(frame[frame["split"] == "train"]["round"]) == [1, 2, 3, 4, 5, 6, 7]
    assert list(clients.columns) == ["client", "split", "metric", "value", "examples"]
    assert len(clients.query("split == 'test' and metric == 'accuracy'")) == 10
    assert set(history.params) == {"linear.weight", "linear.bias"}
    data = synthetic.test  # of no clients: it has no spread over them
    whole = dataclasses.replace(synthetic, test=fedlib.ClientData(data.x, data.y, [data.index]))
    assert fedlib.run(whole, "fedavg", rounds=0).metrics() == ["loss", "accuracy"]


RULES = [(23, 7, 5), (21, 7, 1), (4, 9, 9), (6, 6, 3)]


@pytest.mark.parametrize(("rounds", "every", "last"), RULES)
def test_every_nth_round_and_each_of_the_last_is_evaluated(rounds, every, last, quadratic):
    how = {"rounds": rounds, "overrides": {"local_steps": 1}}
    full = fedlib.run(quadratic, "fedadam", **how).series("loss")
    run = fedlib.run(quadratic, "fedadam", eval_every=every, eval_last=last, **how)
    expected = {0, *range(every, rounds + 1, every), *range(max(1, rounds - last + 1), rounds + 1)}
    pd.testing.assert_series_equal(run.series("loss"), full[sorted(expected)])
    assert run.final("loss", window=last) == full[max(1, rounds - last + 1) :].mean()
    seen = []
    ended = fedlib.run(
        quadratic,
        "fedadam",
        eval_every=every,
        eval_last=last,
        callback=lambda history: seen.append(history) or len(seen) == rounds - 1,
        **how,
    )
    there = {done for done in expected if done < rounds} | {rounds - 1}
    pd.testing.assert_series_equal(ended.series("loss"), full[sorted(there)])
    axes = {"server_lr": [0.1, 1.0], "eval_every": every, "eval_last": last}
    frame = fedlib.grid(quadratic, "fedadam", **how, **axes)
    assert set(frame.loc[frame["split"] == "test", "round"]) == expected


@pytest.mark.parametrize("l2", [0.0, 0.5])
def test_training_loss_is_the_example_weighted_mean_of_batch_losses(synthetic, l2):
    """With learning rate 0 the model never moves, so it is the loss over all training examples.

    The L2 term counts in gradients alone.
    """
    moved = {"l2": l2, "model": lambda: MLP(60, (5,), 10)}  # a softmax would begin at 0
    task = dataclasses.replace(synthetic, **moved) if l2 else synthetic
    history = fedlib.run(task, "fedavg", rounds=2, overrides={"client_lr": 0}, dtype="float64")
    assert history.meta["backend"] == "vectorized"
    model = task.model().double()
    model.load_state_dict(history.params)
    data = task.train
    with torch.no_grad():
        outputs = model(data.x[data.index].double())
    loss = float(torch.nn.functional.cross_entropy(outputs, data.y[data.index]))
    assert history.series("loss", "train").tolist() == pytest.approx([loss, loss], abs=1e-10)


def test_final_averages_the_last_rounds(quadratic):
    history = fedlib.run(quadratic, "fedavg", rounds=30, overrides={"local_steps": 1})
    series = history.series("loss")
    assert history.final("loss") == pytest.approx(series.loc[29:30].mean())
    assert history.final("loss", window=10) == pytest.approx(series.loc[21:30].mean())
    sparse = fedlib.run(quadratic, "fedavg", rounds=30, eval_every=7, overrides={"local_steps": 1})
    assert sparse.final("loss", window=1) == pytest.approx(series.loc[30])
    ends = []  # of a run that is under way, and of one that was ended

    def after(history):
        ends.append(history.final("loss", window=3))
        return len(ends) == 20

    ended = fedlib.run(quadratic, "fedavg", rounds=30, callback=after, overrides={"local_steps": 1})
    assert ended.final("loss", window=10) == pytest.approx(series.loc[11:20].mean())
    assert ends[9] == pytest.approx(series.loc[8:10].mean())
    # The model before training is in no mean, and an ended run has as many rounds as it had.
    assert ends[0] == pytest.approx(series.loc[1])
    assert ended.final("loss", window=99) == pytest.approx(series.loc[1:20].mean())
    assert ended.final("loss") == pytest.approx(series.loc[20])
    refused("did you mean", history.final, "los")
    longer = dataclasses.replace(history, meta={**history.meta, "stopped": 40})
    assert longer.window() == 3  # of 2.7 rounds
    for window in (0, math.nan, True, 2.5):
        refused(f"window is {window}", history.final, "loss", window=window)


def test_grid_frame_has_a_row_per_cell_and_metric(quadratic):
    rates = {"client_lr": [0.1, 0.2], "server_lr": [1, 2, 3]}
    usual = {"tau": 0.1, "server_lr": 9.0}  # the second in place of which come an axis's
    frame = fedlib.grid(quadratic, "fedadam", rounds=2, overrides=usual, **rates)
    columns = ["client_lr", "server_lr", "round", "split", "metric", "value", "diverged"]
    assert list(frame.columns) == columns and frame.index.is_unique
    ends = frame[(frame["round"] == 2) & (frame["split"] == "test")]
    cells = [(one, other) for one in (0.1, 0.2) for other in (1, 2, 3)]
    assert [*zip(ends["client_lr"], ends["server_lr"], strict=True)] == cells
    assert ends["value"].nunique() == 6
    for axes, message in (
        ({"client_lr": []}, "axis client_lr has no values"),
        ({"cliet_lr": [1.0]}, "unknown override for fedadam 'cliet_lr'"),
        ({"seed": [], "client_lr": [0.1]}, "seed is an empty list"),
        ({"client_lr": b"x"}, "client_lr is b'x'"),
    ):
        refused(message, fedlib.grid, quadratic, "fedadam", rounds=2, **axes)


@pytest.mark.parametrize(
    ("name", "size", "given"), [("fedadam", 1, {}), ("mime", 1, {}), ("mime", 3, {"split": True})]
)
def test_weights_of_all_zero_cohorts_leave_the_server_alone(name, size, given):
    draw = np.random.default_rng(0)
    A, b = np.stack([np.eye(2)] * 3), draw.standard_normal((3, 2))
    task = fedlib.quadratic_task(A, b, weights=[0.0, 1.0, 1.0], x0=[1, 2])
    how = {"rounds": 8, "clients_per_round": size}
    history = fedlib.run(task, name, **how, local_steps=1, **given)
    losses = history.series("loss")
    moved = (losses.diff().abs() > 0).iloc[1:]
    assert 0 < moved.sum() < 8


def test_seeds_are_an_axis_of_a_grid(quadratic):
    common = {"rounds": 2, "clients_per_round": 2, "overrides": {"local_steps": 1}}
    frame = fedlib.grid(quadratic, "fedavg", seed=[0, 5], client_lr=[0.1, 0.2], **common)
    assert list(frame.columns[:2]) == ["seed", "client_lr"]
    assert frame["seed"].is_monotonic_increasing
    short = dataclasses.replace(quadratic, rounds=1)
    ends = fedlib.grid(short, "fedavg", client_lr=[0.1], **common).query("split == 'test'")
    assert ends["round"].tolist() == [0, 2]
    for seed in (0, np.int64(5)):
        alone = fedlib.grid(quadratic, "fedavg", seed=seed, client_lr=[0.1, 0.2], **common)
        part = frame[frame["seed"] == seed].drop(columns="seed").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, alone)


def test_an_axis_is_no_column_that_the_frame_has_already(quadratic):
    """Mime's ``split`` would stand in the place of the splits train and test."""
    refused("axis split would be a second", fedlib.grid, quadratic, "mime", split=[True, False])


@pytest.mark.parametrize(
    "axis", [{"local_epochs": [(1, 2), [1, 3], 2]}, {"local_steps": [[1, 2], np.array([2, 3])]}]
)
def test_a_value_of_an_axis_may_be_a_list(axis):
    task = fedlib.load_task("synthetic", clients=2)
    frame = fedlib.grid(task, "fedavg", rounds=1, **axis)
    ((name, values),) = axis.items()
    cells = [tuple(value) if np.ndim(value) else value for value in values]
    assert frame[name].drop_duplicates().tolist() == cells
    for cell in cells:
        alone = fedlib.run(task, "fedavg", rounds=1, overrides={name: cell}).frame
        part = frame.loc[[each == cell for each in frame[name]], alone.columns]
        np.testing.assert_allclose(part["value"], alone["value"], rtol=1e-6)


def test_a_run_that_was_stopped_counts_the_rounds_it_did():
    task, threads = fedlib.load_task("quadratic"), threading.active_count()
    history = fedlib.run(task, "fedavg", rounds=10**6, callback=lambda history: True, progress=True)
    assert history.meta["seconds_per_round"] > 1e-5
    assert repr(history).endswith("1000000 rounds, stopped after round 1)")
    assert threading.active_count() == threads


def test_memories_of_clients_decide_how_many_configurations_train_together(monkeypatch):
    """A softmax has 610 numbers; four cohorts of 6 are expected to see 11.25 of 12 clients."""
    task = fedlib.load_task("synthetic", clients=12)
    seen = 12 * (1 - 0.5**4)
    each = math.ceil(seen) * 610 * 4
    module = sys.modules["fedlib.engine.run"]  # fedlib.engine.run is the function
    monkeypatch.setattr(module, "free_bytes", lambda device: each * 4 / SHARE + 1)
    how = {"rounds": 4, "clients_per_round": 6}
    cells = [{"client_lr": rate} for rate in (0.1, 0.2, 0.3, 0.4, 0.5)]
    for name, sizes in (("scaffold", [3, 2]), ("fedavg", [5])):
        runs = [configure(task, name, overrides=cell, **how) for cell in cells]
        assert [len(group) for group in programs(runs, "cpu")] == sizes
    with monkeypatch.context() as patch:
        patch.setattr("fedlib.engine.states.FREE_BYTES", 0)
        patch.setattr("fedlib.engine.states.free_bytes", lambda device: each - 1)
        with pytest.raises(fedlib.Error, match="clients' memories would take"):
            fedlib.run(task, "scaffold", **how)


def test_hyperparameters_may_be_keywords(quadratic, store):
    how = {"rounds": 3, "overrides": {"local_steps": 2}}
    for train in (fedlib.run, store.run):
        one = train(quadratic, "fedavg", client_lr=0.3, **how)
        other = train(quadratic, "fedavg", rounds=3, overrides={"client_lr": 0.3, "local_steps": 2})
        assert one.config.digest == other.config.digest and one.frame.equals(other.frame)
        refused("local_steps is given twice", train, quadratic, "fedavg", local_steps=1, **how)
        refused("unknown override .*'round'.*overrides", train, quadratic, "fedavg", round=3)
