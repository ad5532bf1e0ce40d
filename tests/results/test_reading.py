"""What a run was, read back from its configuration; the papers' selection rule."""

import copy
import dataclasses
import hashlib
import math

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import algorithms
from fedlib.engine import History, configure
from fedlib.results import reading, selection
from tests.refusals import refused


@pytest.fixture(scope="module")
def task():
    return fedlib.load_task("synthetic", clients=4)


def made(task, algorithm="fedavg", losses=(1.0,) * 30, diverged=None, accuracy=0.5, **settings):
    """A history whose training losses are these, one a round."""
    config = configure(task, algorithm, rounds=len(losses), **settings).config
    rows = [(r, "train", "loss", v) for r, v in enumerate(losses, 1)]
    rows += [(r, "test", "accuracy", accuracy) for r in range(len(losses) + 1)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    return History(frame, pd.DataFrame(), {}, config, {"diverged": diverged})


BUILT = [(name, "sgd") for name in algorithms.METHODS]
BUILT += [("fedadam", name) for name in algorithms.CLIENT_OPTIMIZERS if name != "sgd"]


@pytest.mark.parametrize(("name", "optimizer"), BUILT)
def test_every_hyperparameter_is_read_under_its_override_key(task, name, optimizer):
    expected = algorithms.hyperparameters(name, optimizer)
    given = {
        key: 0.0625 + i / 64 for i, key in enumerate(expected) if isinstance(expected[key], float)
    }
    if "base" in expected:  # the base's own numbers exist only if it has them
        given = {**{k: v for k, v in given.items() if k != "momentum"}, "base": "adam"}
    if optimizer != "sgd":
        given["client_optimizer"] = optimizer
    method = algorithms.build(name, **given).describe()
    run = configure(task, name, rounds=1)
    config = dataclasses.replace(run.config, method=method)
    found = reading.hyperparameters(run._replace(config=config))
    for key, value in given.items():
        assert found[key] == value, key
    assert found["client_optimizer"] == optimizer
    for key in ("batch_size", "local_epochs", "local_steps"):
        assert found[key] == getattr(config, key)


def test_values_groups_and_frames(task):
    runs = [
        made(task, "fedavg", overrides={"client_lr": rate, "local_epochs": 2}, seed=seed)
        for rate in (0.5, 0.25)
        for seed in ({"batches": 1}, {"init": 1})
    ]
    assert reading.value(runs[2], "client_lr") == 0.25 and reading.value(runs[1], "seed") == 1
    assert reading.value(runs[0], "option.clients") == 4 == reading.option(runs[0], "clients")
    assert reading.value(runs[0], "task") == "synthetic"
    assert reading.hyperparameter(runs[0], "local_epochs") == 2
    assert reading.group(runs, "client_lr") == {0.5: runs[:2], 0.25: runs[2:]}
    assert list(reading.group(runs, "seed", "client_lr"))[1] == (1, 0.5)
    falling = {"client_optimizer": "sgdm", "client_schedule": "step_decay"}
    assert reading.client_label(made(task, overrides=falling)) == "sgdm_decay"
    assert reading.client_label(runs[0]) == "sgd" == reading.client_optimizer(runs[0])
    refused("unknown hyperparameter of fedavg 'tau'", reading.hyperparameter, runs[0], "tau")
    refused("unknown option of task synthetic 'client'", reading.option, runs[0], "client")
    frame = reading.frame(runs, "client_lr", "option.clients")
    assert list(frame)[:3] == ["client_lr", "clients", "round"]
    assert frame["client_lr"].value_counts().to_dict() == {0.5: 122, 0.25: 122}
    assert frame["diverged"].isna().all()
    assert (reading.frame([made(task, diverged=3)])["diverged"] == 3).all()


def test_all_local_data_count_only_if_each_run_was_evaluated_on_them(task):
    both, one = made(task), made(task)
    both.frame = pd.concat([both.frame, both.frame.assign(split="local")])
    assert reading.split_of(both, both) == "local"
    assert reading.split_of(both, one) == reading.split_of() == "test"


def test_the_score_is_the_mean_training_loss_of_the_window(task):
    windows = [made(task, losses=[1.0] * n).window() for n in (4000, 1500, 150, 15, 1)]
    assert windows == [100, 100, 10, 1, 1]
    losses = np.linspace(2, 1, 30)
    assert selection.training_score(made(task, losses=losses)) == pytest.approx(losses[-2:].mean())
    assert selection.training_score(made(task, diverged=9)) == math.inf


def test_the_setting_with_the_least_mean_training_loss_over_its_seeds_wins(task):
    def pair(rate, *scores, diverged=None, **settings):
        settings["overrides"] = {"client_lr": rate}
        ends = diverged, None
        return [
            made(task, losses=[score] * 30, seed=seed, diverged=ends[seed], **settings)
            for seed, score in enumerate(scores)
        ]

    lucky, steady = pair(0.5, 0.1, 0.9, accuracy=0.9), pair(0.25, 0.4, 0.4, accuracy=0.1)
    twice = [*lucky, *steady[::-1], *map(copy.copy, steady)]
    assert selection.winners(twice) == {"fedavg": steady}
    uneven = pair(0.125, 0.15, 0.6)  # neither its best seed nor its worst is the best
    assert selection.winners([*lucky, *steady, *uneven]) == {"fedavg": uneven}
    by_accuracy = selection.winners([*steady, *lucky], score=lambda run: -run.final())
    assert by_accuracy == {"fedavg": lucky}
    by_rate = selection.winners([*lucky, *steady], "client_lr", lambda run: run.config.rounds)
    assert by_rate == {(0.5, 30): lucky, (0.25, 30): steady}
    # What diverged for one seed loses; if all did, that which got furthest is shown.
    early, late = pair(1.0, 0.0, 0.0, diverged=3), pair(2.0, 0.0, 0.0, diverged=9)
    assert selection.winners([*early, *late, *lucky]) == {"fedavg": lucky}
    assert selection.winners([*early, *late]) == {"fedavg": late}
    assert selection.winners([]) == {}
    # A task of one's own has other data for each seed; two data of one seed are two problems.
    own = [made(dataclasses.replace(task, seed=seed), seed=seed) for seed in (0, 1, 0)]
    assert selection.by_setting(own[:2]) == [own[:2]]
    assert selection.by_setting(own) == [[run] for run in own]


def test_settings_are_chosen_on_one_half_of_the_clients_and_reported_on_the_other(task):
    history = made(task)
    names = [f"writer {number}" for number in range(7)]
    rows = [(n, "test", "accuracy", i / 10, 10 * i) for i, n in enumerate(names)]
    rows += [(n, "test", "loss", 5.0, 10) for i, n in enumerate(names)]
    columns = ["client", "split", "metric", "value", "examples"]
    history.clients = pd.DataFrame(rows, columns=columns)
    order = sorted(range(7), key=lambda i: hashlib.sha256(names[i].encode()).hexdigest())
    means = []
    for half in (order[::2], order[1::2]):
        held = [i for i in half if i > 0]  # the first has no examples
        weighted = sum(i / 10 * 10 * i for i in held) / sum(10 * i for i in held)
        means.append((weighted, sum(i / 10 for i in held) / len(held)))
    assert selection.on_half(history, choosing=True) == pytest.approx(means[0])
    assert selection.on_half(history) == pytest.approx(means[1])
    assert selection.held_out_score(history) == pytest.approx(-means[0][0])
    history.clients = history.clients[:1]
    refused("but two halves need two clients", selection.on_half, history)
    assert selection.held_out_score(made(task, diverged=3)) == math.inf
    history.clients = history.clients[:0]
    assert selection.held_out_score(history) == math.inf


@pytest.mark.parametrize(("rule", "window"), [((20, 1), 120), ((20, 100), 100), ((20, 5), 120)])
def test_a_run_is_judged_by_six_evaluations_at_least_and_by_100_rounds(rule, window, quadratic):
    every, last = rule
    run = fedlib.run(quadratic, "fedavg", rounds=400, eval_every=every, eval_last=last)
    assert selection.late(run) == window
    inside = run.series("loss")[lambda series: series.index > 400 - window]
    assert len(inside) == {100: 100, 120: 6 + (last - 1)}[window]
    assert run.final("loss", window=window) == inside.mean()
    short = fedlib.run(quadratic, "fedavg", rounds=90, eval_every=every, eval_last=last)
    assert selection.late(short) == 30  # a third
