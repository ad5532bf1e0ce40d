"""Grids of learning rates: outcomes, the selection of the best, and Figure 12's omission rule."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import papers
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.reproduction.fedopt import outcomes as tuning
from fedlib.reproduction.matching import belongs
from fedlib.reproduction.tables import find
from fedlib.results import selection
from fedlib.tasks import settings

SCHEDULE = "exp_decay_thirds"


@pytest.fixture(scope="module")
def task():
    plain = fedlib.load_task("quadratic")
    return dataclasses.replace(
        plain, name="emnist_cr", hyperparameters=settings.fedopt("EMNIST CR"), batch_size=20
    )


def made(
    task, algorithm="fedavg", test=(2.0, 1.0), train=(1.5,), score=0.5, diverged=None, **given
):
    """A run of these test losses (round 0 first) and training losses."""
    config, _ = configure(task, algorithm, rounds=len(train), overrides=given)
    rows = [(r, "test", "loss", v) for r, v in enumerate(test)]
    rows += [(r, "test", "accuracy", score) for r in range(len(test))]
    rows += [(r, "train", "loss", v) for r, v in enumerate(train, 1)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    meta = {"diverged": diverged, "hyperparameters": task.hyperparameters.get(algorithm, {})}
    return History(frame, pd.DataFrame(), {}, config, meta)


def test_outcomes_are_the_histories_own_numbers(task):
    noise = np.random.default_rng(0).random(61)
    runs = [
        made(task, "fedadam", test=noise, train=noise[1:], client_lr=0.5, tau=1e-4),
        made(task, "fedavg", test=noise[:2], train=noise[:1], server_lr=0.25),
        made(task, "fedavg", diverged=1),
    ]
    frame = tuning.outcomes(runs)
    for run, row in zip(runs[:2], frame.itertuples(), strict=False):
        assert row.loss == pytest.approx(run.final("loss"), rel=1e-12)
        assert row.performance == pytest.approx(100 * run.final("accuracy"), rel=1e-12)
        assert row.train_loss == pytest.approx(selection.training_score(run), rel=1e-12)
        assert row.initial_loss == run.series("loss").iloc[0]
    assert frame["tau"].tolist()[0] == 1e-4 and frame["tau"].isna().tolist() == [False, True, True]
    assert frame["client_lr"][0] == 0.5 and frame["server_lr"][1] == 0.25
    assert frame["metric"].unique().tolist() == ["accuracy"]
    last = frame.iloc[2]
    assert last["train_loss"] == math.inf == selection.training_score(runs[2])
    assert math.isnan(last["loss"]) and math.isnan(last["performance"]) and last["diverged"] == 1


def grid(losses, algorithm="fedavg", start=2.0, preset="quick"):
    """A frame as of outcomes: {(client, server): test loss}; NaN diverged; train 10 - loss."""
    rows = [
        {
            **{"task": "emnist_cr", "algorithm": algorithm, "client_lr": c, "server_lr": s},
            **{"tau": math.nan, "preset": preset, "metric": "accuracy", "performance": 50 - loss},
            **{"loss": loss, "initial_loss": start, "train_loss": 10 - loss},
            "diverged": 1.0 if math.isnan(loss) else math.nan,
        }
        for (c, s), loss in losses.items()
    ]
    return pd.DataFrame(rows)


def test_the_best_row_by_each_measure():
    frame = grid({(0.1, 1): 1.0, (0.1, 10): 0.5, (1, 1): 0.7, (1, 10): math.nan})
    assert tuning.best(frame, "loss", "client_lr")["server_lr"].tolist() == [10, 1]
    assert tuning.best(frame, "performance", "client_lr")["server_lr"].tolist() == [10, 1]
    assert tuning.best(frame, "train_loss", "task")["loss"].tolist() == [1.0]
    gone = grid({(0.1, 1): math.nan, (1, 1): 0.7})
    assert tuning.best(gone, "loss", "client_lr")["client_lr"].tolist() == [1]
    assert tuning.measure(frame) == "loss" and tuning.measure(grid({}).reindex(columns=["preset"]))
    assert tuning.measure(frame.assign(preset="paper")) == "performance"
    errors = frame.assign(metric="mse_x1000")
    assert tuning.best(errors, "performance", "client_lr")["loss"].tolist() == [1.0, 0.7]


def test_client_rates_that_did_not_train_are_left_out():
    losses = {(0.1, 1): 1.95, (0.1, 10): 1.85, (1, 1): 1.85, (1, 10): 1.2, (10, 1): 1.79}
    frame = grid({**losses, (10, 10): 100.0, (100, 1): math.nan, (100, 10): 5.0})
    best = tuning.best_server_rates(frame)
    # 10 % of the initial 2.0: only losses below 1.8 count as training.
    assert dict(zip(best["client_lr"], best["server_lr"], strict=True)) == {1: 10, 10: 1}
    text = tuning.best_server_rates(frame, rule="text")
    assert text["client_lr"].tolist() == [0.1, 1, 10, 100]
    # Without the run at 100 the worst is 5.
    calm = frame[frame["loss"] < 50]
    assert set(tuning.best_server_rates(calm, rule="text")["client_lr"]) == {0.1, 1, 10}
    assert tuning.best_server_rates(grid({(1, 1): 1.99})).empty
    with pytest.raises(fedlib.Error, match="unknown rule"):
        tuning.trained(frame, "worst")


def test_wrong_runs_are_one_line_errors(task):
    with pytest.raises(fedlib.Error, match="no runs"):
        tuning.outcomes([])
    strange = made(task)
    strange.frame = strange.frame[strange.frame["metric"] != "accuracy"]
    with pytest.raises(fedlib.Error, match="printed metric"):
        tuning.outcomes([strange])


def test_table_11_has_all_its_numbers():
    printed = papers.table("fedopt", "table11_lr_decay")
    cells = [cell for item in find("fedopt", "Table 11") for cell in item.cells]
    assert len(cells) == len(printed) == 15
    columns = {"centralized": "tuned_constant", "constant": "constant", "ExpDecay": "expdecay"}
    for cell in cells:
        chosen = printed["client_lr_schedule"] == columns[cell.column]
        (value,) = printed[chosen & (printed["algorithm"] == cell.row)]["value"]
        assert cell.printed == value


def test_runs_of_table_11_find_their_cells(task):
    central, federated = find("fedopt", "Table 11")
    runs = {
        ("SGDM", "centralized"): made(task, "centralized", base="momentum", client_lr=0.3),
        ("Yogi", "centralized"): made(task, "centralized", base="yogi", client_lr=0.01),
        ("FedAdam", "constant"): made(task, "fedadam"),
        # ExpDecay's rates are tuned and not printed: any belong.
        ("FedAdam", "ExpDecay"): made(
            task, "fedadam", client_schedule=SCHEDULE, client_lr=0.5, server_lr=0.125, tau=0.1
        ),
        ("FedAvg", "ExpDecay"): made(task, "fedavg", client_schedule=SCHEDULE),
    }
    for place, run in runs.items():
        found = {
            (cell.row, cell.column)
            for item in (central, federated)
            for cell in item.cells
            if cell.algorithm == run.config.algorithm and belongs(cell, run)
        }
        assert found == {place}
    other = made(task, "fedadam", client_lr=0.5)  # a constant rate that is not Table 8's
    assert not any(belongs(cell, other) for cell in federated.cells if cell.row == "FedAdam")
