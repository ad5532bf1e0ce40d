"""FedOpt's figures and tables from planted runs, and what comes out of grids of learning rates."""

import dataclasses
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib.engine import History, configure
from fedlib.figures import style
from fedlib.figures.save import note, render
from fedlib.reproduction import draw
from fedlib.reproduction.fedopt import figures, outcomes, tuning
from fedlib.reproduction.fedopt.tables import ADAPTIVE
from fedlib.reproduction.tables import find
from fedlib.results import Store
from tests import copies
from tests.refusals import refused

METRICS = find("fedopt", "Table 1").drop_duplicates("task").set_index("task")["metric"].to_dict()
RATES = (0.01, 0.1, 1.0)


@cache
def task_named(name):
    """A small task of this name."""
    plain = fedlib.load_task("quadratic")
    return dataclasses.replace(plain, name=name, options={"clients": 3, "width": 0.5})


def made(
    name, algorithm, test=(2.0, 1.0), train=(1.5,), score=0.5, diverged=None, seed=0, **overrides
):
    """A run of these test losses (round 0 first) and training losses, its metric last the score.

    The overrides are the task's own values.
    """
    rounds = len(test) - 1
    task = dataclasses.replace(task_named(name), hyperparameters={algorithm: overrides})
    config = configure(task, algorithm, rounds=rounds, seed=seed).config
    rows = [(r, "test", "loss", v) for r, v in enumerate(test)]
    rows += [(r, "test", METRICS[name], score * r / rounds) for r in range(len(test))]
    rows += [(r, "train", "loss", v) for r, v in enumerate(train, 1)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    meta = {"diverged": diverged, "hyperparameters": overrides}
    return History(frame, pd.DataFrame(), {}, config, meta)


# --- Outcomes of grids, and which are best


def outcomes_of(losses, seed=0):
    """A frame as of outcomes: {(client, server): test loss}; NaN diverged; train 10 - loss."""
    rows = [
        {
            **{"task": "emnist_cr", "algorithm": "fedavg", "client_lr": c, "server_lr": s},
            **{"tau": math.nan, "metric": "accuracy", "seed": seed, "performance": 50 - loss},
            **{"loss": loss, "initial_loss": 2.0, "train_loss": 10 - loss},
            "diverged": 1.0 if math.isnan(loss) else math.nan,
        }
        for (c, s), loss in losses.items()
    ]
    return pd.DataFrame(rows)


def test_the_best_row_by_each_measure():
    frame = outcomes_of({(0.1, 1): 1.0, (0.1, 10): 0.5, (1, 1): 0.7, (1, 10): math.nan})
    assert outcomes.best(frame, "loss", "client_lr")["server_lr"].tolist() == [10, 1]
    assert outcomes.best(frame, "performance", "client_lr")["server_lr"].tolist() == [10, 1]
    assert outcomes.best(frame, "train_loss", "task")["loss"].tolist() == [1.0]
    gone = outcomes_of({(0.1, 1): math.nan, (1, 1): 0.7})
    assert outcomes.best(gone, "loss", "client_lr")["client_lr"].tolist() == [1]
    errors = frame.assign(metric="mse_x1000")
    assert outcomes.best(errors, "performance", "client_lr")["loss"].tolist() == [1.0, 0.7]


def test_client_rates_that_did_not_train_are_left_out():
    losses = {(0.1, 1): 1.95, (0.1, 10): 1.85, (1, 1): 1.85, (1, 10): 1.2, (10, 1): 1.79}
    frame = outcomes_of({**losses, (10, 10): 100.0, (100, 1): math.nan, (100, 10): 5.0})
    best = outcomes.best_server_rates(frame)
    # 10 % of the initial 2.0: only losses below 1.8 count as training.
    assert dict(zip(best["client_lr"], best["server_lr"], strict=True)) == {1: 10, 10: 1}
    text = outcomes.best_server_rates(frame, rule="text")
    assert text["client_lr"].tolist() == [0.1, 1, 10, 100]
    # Without the run at 100 the worst is 5.
    calm = frame[frame["loss"] < 50]
    assert set(outcomes.best_server_rates(calm, rule="text")["client_lr"]) == {0.1, 1, 10}
    assert outcomes.best_server_rates(outcomes_of({(1, 1): 1.99})).empty


# --- Heat maps, Figures 3, 12 and 13, Tables 8 and 9


def planted(name="emnist_cr", algorithms=("fedadam", "fedavg"), gone=None):
    """A valley: FedAvg is best where the product of the rates is 0.1, others at server rate 0.1."""
    runs = []
    for algorithm in algorithms:
        tau = {"tau": 1e-3} if algorithm in ADAPTIVE else {}
        for c in RATES:
            for s in RATES:
                loss = 0.5 + 0.7 * abs(math.log10(s if tau else c * s) + 1)
                how = {"score": 1 - loss / 4, "client_lr": c, "server_lr": s, **tau}
                how["diverged"] = 2 if (algorithm, c, s) == gone else None
                runs.append(made(name, algorithm, (2.0, 2.0, loss), (2.0, loss), **how))
    return runs


def test_a_heat_map_shows_every_cell_and_crosses_what_diverged():
    runs = planted(gone=("fedavg", 1.0, 1.0))
    figure, data = tuning.grids(("fedavg", "fedadam", "fedyogi"), runs)
    assert any("not run: FedYogi" in text.get_text() for text in figure.texts)
    level, shades = data.query("algorithm == 'fedavg' and not hatched")["performance"].max(), {}
    for ax, algorithm in zip(figure.axes, ("fedavg", "fedadam"), strict=False):
        part = data[data["algorithm"] == algorithm]
        kept = part.assign(shown=part["performance"].mask(part["hatched"]))
        expected = kept.pivot(index="server_lr", columns="client_lr", values="shown").to_numpy()
        cells = [text for text in ax.texts if text.get_gid() is None]
        said = {text.get_position()[::-1]: text.get_text() for text in cells}
        for place, value in np.ndenumerate(expected):
            assert said[place] == ("×" if np.isnan(value) else f"{value:.1f}")
        assert len(said) == expected.size
        frames = [patch for patch in ax.patches if not patch.get_fill()]
        (frame,) = [patch for patch in frames if patch.get_linewidth() == tuning.FRAMES[0]]
        near = expected >= np.nanmax(expected) - tuning.POINTS
        assert len(frames) == near.sum()
        best = expected[round(frame.get_y() + 0.47), round(frame.get_x() + 0.47)]
        found = f"{style.name(algorithm)}: {style.short(best)}"
        assert best == np.nanmax(expected) and ax.get_title("left").startswith(found)
        for patch in ax.patches:
            if patch.get_fill():
                place = round(patch.get_y() + 0.47), round(patch.get_x() + 0.47)
                shades[expected[place]] = patch.get_facecolor()
    # Two cells are crossed: that diverged, and whose loss rose from 2.0 to 2.6.
    assert data["hatched"].sum() == 2
    for value, (red, _, blue, _) in shades.items():  # grey below the level, blue above
        assert (blue > red + 0.05) == (value > level + 0.5), value
    assert render(figure, note(runs))["png"][:4] == b"\x89PNG"


def test_a_map_of_tags_is_compared_with_the_commonest_ones():
    """Only on the posts on which those were counted; else with FedAvg's best, or the weakest's."""
    frame = outcomes_of({(0.1, 1): 1.0, (1, 1): 0.7}).assign(hatched=False, algorithm="fedadam")
    (run,) = (made("cifar10", "fedavg", (2.0, 1.0), client_lr=1.0, server_lr=1.0),)
    posts = {"data": "stackexchange", "clients": 1914, "words": 2000}
    task = {**run.config.task, "options": posts}
    there = dataclasses.replace(run, config=dataclasses.replace(run.config, task=task))
    tags = frame.assign(metric="recall_at_5")
    assert tuning._level([there], tags, False)[0] == 24.8
    assert tuning._level([run], tags, False) == (49.3, ["FedAdam's best"])
    assert tuning._level([there], frame, False)[0] == 49.3


def test_a_map_shows_means_over_seeds_and_hatches_where_one_diverged():
    runs = planted(algorithms=("fedavg",))
    again = [
        dataclasses.replace(
            run,
            config=dataclasses.replace(run.config, seeds={**run.config.seeds, "init": 1}),
            frame=run.frame.assign(value=run.frame["value"] + 0.02),
        )
        for run in runs
    ]
    again[4] = dataclasses.replace(again[4], meta={**again[4].meta, "diverged": 1})
    _, data = tuning.grids(("fedavg",), [*runs, *again])
    once = outcomes.collect(runs)
    assert len(data) == 9 and set(data["seeds"]) == {2}
    assert data["hatched"].tolist() == [place in (0, 4) for place in range(9)]
    kept = ~data["hatched"]
    assert data["loss"][kept].tolist() == pytest.approx((once["loss"] + 0.01)[kept].tolist())


def test_figure_12_has_the_valleys_and_leaves_out_the_untrained():
    figure_12 = draw.entry("fedopt/figure_12").draw
    figure, data = figure_12(planted())
    best = data.set_index(["algorithm", "client_lr"])["server_lr"]
    assert best["fedadam"].to_dict() == dict.fromkeys(RATES, 0.1)
    assert best["fedavg"].to_dict() == {0.1: 1.0, 1.0: 0.1, 0.01: 1.0}
    panels = {ax.get_title("left"): ax for ax in figure.axes}
    dots = [line for line in panels["FedAvg"].lines if line.get_marker() == "o"]
    places = {line.get_xdata()[0]: line.get_ydata()[0] for line in dots}
    assert set(panels) == {"FedAdam", "FedAvg"}
    assert places == pytest.approx(dict(zip(sorted(RATES), [1, 1, 0.1], strict=True)))
    nothing = [made("cifar10", "fedavg", (2.0, 1.95), client_lr=c, server_lr=1.0) for c in RATES]
    figure, _ = figure_12([*nothing, *planted()])
    assert "none trained" in {text.get_text() for text in figure.axes[0].texts}
    refused("lowered the test loss", figure_12, nothing)


def test_figure_12_says_which_server_rates_are_as_good_as_the_best():
    """A plateau has no best server rate: a bar spans those beside it within a point."""
    runs = [
        made("cifar10", "fedavg", test, score=score, client_lr=1.0, server_lr=server)
        for server, score, test in (
            (0.01, 0.40, (2.0, 1.0)),
            (0.1, 0.50, (2.0, 1.0)),
            (1.0, 0.495, (2.0, 1.0)),
            (10.0, 0.5, (2.0, 1.95)),
            (100.0, 0.2, (2.0, 1.0)),
            (1000.0, 0.5, (2.0, 1.0)),
        )
    ]
    figure, data = draw.entry("fedopt/figure_12").draw(runs)
    assert data["server_lr"].tolist() == [0.1]
    bars = [line for line in figure.axes[0].lines if line.get_linewidth() == 5]
    assert [list(bar.get_ydata()) for bar in bars] == [[0.1, 1.0]]


def test_table_8_names_the_edges_of_what_was_tried():
    alone = made("cifar10", "fedavg", (2.0, 1.0), (2.0, 1.0), client_lr=0.1, server_lr=1.0)
    steps = [
        made("cifar100", "fedavg", (2.0, 1.0), (2.0, c), client_lr=c, server_lr=1.0) for c in RATES
    ]
    _, data = draw.entry("fedopt/table_8").draw([alone, *steps])
    assert data["at the grid's edge"].tolist() == ["", "client rate"]
    assert data["settings tried"].tolist() == [1, 3]


# --- Figures 1, 2 and 4


def test_a_bracket_joins_the_methods_that_end_within_a_point():
    scores = {"fedavg": 0.868, "fedadam": 0.875, "fedyogi": 0.84}
    runs = [made("emnist_cr", name, score=score) for name, score in scores.items()]
    figure, _ = figures.convergence(runs)
    (ax,) = figure.axes
    assert ax.get_title("left") == "EMNIST CR: 2 within 0.7"
    assert "within\n0.7" in {text.get_text() for text in ax.texts}


def test_figure_1_counts_the_tasks_with_a_clear_lead_over_fedavg():
    """A point, with one seed two, and 5 % of an error."""

    def counted(leads, seeds, metric="accuracy"):
        rows = [
            {"task": f"{lead}", "metric": metric, "algorithm": name, "line": line, "seeds": seeds}
            for lead in leads
            for name, line in (("fedavg", 20.0), ("fedadam", 20.0 + lead), ("scaffold", 90.0))
        ]
        return figures._overall(pd.DataFrame(rows))

    assert counted([1.5, 2.5, -4.0], 1).endswith("on 1 of 3 tasks")
    assert counted([1.5, 2.5, -4.0], 3).endswith("on 2 of 3 tasks")
    assert counted([1.5, -0.5, -4.0], 3, "mse_x1000").endswith("on 1 of 3 tasks")


def test_figure_2_names_the_two_methods_that_are_alike_at_every_rate():
    one = pd.Series({0.1: 5.0, 1.0: 7.0})
    lines = {"fedadam": [one, one], "fedyogi": [one + 0.3, one], "fedavgm": [one + 5, one]}
    assert tuning._alike(lines) == "FedAdam and FedYogi are within 0.3 points at every rate"
    del lines["fedyogi"]
    assert tuning._alike(lines) == "what each rate can reach"


# --- Table 2


def test_fedopt_table_2_puts_prepared_sizes_beside_the_printed_ones(tmp_path):
    store = Store(tmp_path / "data" / "runs", published=[])
    clients = {"train_client": np.arange(300) % 7, "test_client": np.arange(300) % 5}
    for name, shape, more in (("cifar10", (32, 32, 3), {}), ("femnist", (28, 28), clients)):
        x = np.full((300, *shape), 255, np.uint8)
        copies.pictures(tmp_path / "data", name, x, np.arange(300) % 10, **more)
    drawn = draw.draw("fedopt/table_2", store=store)
    frame = drawn.data.set_index("data set")
    ours = frame.filter(like=", ours")
    assert ours.loc["CIFAR-10"].tolist() == [3, 300, 3, 300]
    assert ours.loc["EMNIST-62"].tolist() == [7, 300, 5, 300]
    assert ours.loc["Shakespeare"].isna().all() and frame.loc["Shakespeare", "prepared"] == ""
    assert len(frame) == 5 and frame.loc["EMNIST-62", "train examples, printed"] == 671585
    assert "671,585 → 300" in (text := drawn.path.read_text()) and ">FEMNIST<" in text
