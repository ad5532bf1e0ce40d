"""``fedlib.plot``: which runs are one line, what it is called, and that it shows the histories."""

import numpy as np
from IPython.core.formatters import DisplayFormatter
from matplotlib.figure import Figure

import fedlib
from fedlib import figures
from fedlib.figures import style
from tests.figures import conftest
from tests.refusals import refused


def trained(task, name, seed=0, **overrides):
    return fedlib.run(task, name, rounds=3, seed=seed, overrides=overrides)


def lines(figure):
    (ax,) = figure.axes
    return conftest.lines(ax)


def mean(*runs, metric="accuracy", split="test"):
    return np.mean([run.series(metric, split) for run in runs], axis=0)


def test_runs_that_differ_in_their_seeds_are_one_line(histories):
    left, right = Figure().subplots(1, 2)
    assert fedlib.plot(histories[0], title="Mine", ax=left) is left.figure
    assert left.get_title("left") == "Mine" and not left.collections and not right.get_lines()
    figure = fedlib.plot([*histories, histories[0]])  # a run that is given twice counts once
    assert lines(figure)["FedAvg"].get_color() == style.LOOKS["fedavg"].color
    assert list(lines(figure)) == ["FedAvg", "FedAdam"] and len(figure.axes[0].collections) == 2
    for line, first in zip(lines(figure).values(), (0, 2), strict=True):
        np.testing.assert_allclose(line.get_ydata(), 100 * mean(*histories[first : first + 2]))


def test_other_hyperparameters_are_other_lines(synthetic):
    pairs = [(lr, seed) for lr in (0.01, 0.1) for seed in (0, 1)]
    runs = [trained(synthetic, "fedavg", seed, client_lr=lr) for lr, seed in pairs]
    runs.append(trained(synthetic, "fedadam"))
    figure = fedlib.plot(runs, "loss", "train")
    assert list(lines(figure)) == ["FedAvg, client_lr=0.01", "FedAvg, client_lr=0.1", "FedAdam"]
    line = lines(figure)["FedAvg, client_lr=0.1"]
    expected = mean(*runs[2:4], metric="loss", split="train")
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert figure.axes[0].get_ylabel() == "train loss"
    assert len({line.get_color() for line in lines(figure).values()}) == 3


def test_a_run_that_a_callback_ended_has_the_rounds_that_it_had(synthetic):
    ended = fedlib.run(synthetic, "fedavg", rounds=90, callback=lambda run: len(run.frame) > 20)
    (ax,) = fedlib.plot(ended).axes
    rounds = ended.meta["stopped"]
    assert rounds < 9 and ax.get_xlim() == (0, rounds)
    assert any(f", {rounds} rounds, 1 seed" in text.get_text() for text in ax.texts)
    last = 100 * ended.final()
    assert (
        last
        == 100 * ended.series("accuracy").iloc[-1]
        == lines(ax.figure)["FedAvg"].get_ydata()[-1]
    )


def test_a_dict_names_the_lines(histories):
    figure = fedlib.plot({"one": histories[0], "two": histories[:2]}, percent=False)
    assert list(lines(figure)) == ["one", "two"]
    np.testing.assert_allclose(lines(figure)["one"].get_ydata(), mean(histories[0]))
    np.testing.assert_allclose(lines(figure)["two"].get_ydata(), mean(*histories[:2]))
    assert len(figure.axes[0].collections) == 1
    assert figure.axes[0].get_ylabel() == "test accuracy"


def test_mistakes_are_named(histories):
    refused(r"unknown metric 'test mse': .*known: .*test accuracy", fedlib.plot, histories, "mse")
    for draw, nothing in ((fedlib.plot, []), (fedlib.plot, {}), (figures.client_density, [])):
        refused("no runs to draw", draw, nothing)
    refused("no test mse per client", figures.client_density, histories, "mse")
    refused("line 'a' has no runs", fedlib.plot, {"a": []})
    refused("line 'a' has runs that differ in more than", fedlib.plot, {"a": histories})
    refused("histories is 'fedavg' .allowed", fedlib.plot, "fedavg")
    for label in ("", "_a"):  # matplotlib leaves these out
        refused(f"a line's label is {label!r}: give one", fedlib.plot, {label: histories[0]})


def test_other_data_under_one_name_are_no_seeds():
    A, b = np.ones((2, 1, 1)), np.ones((2, 1))
    tasks = [fedlib.quadratic_task(factor * A, b) for factor in (1, 2)]
    runs = [fedlib.run(task, "fedavg", rounds=1, overrides={"local_steps": 1}) for task in tasks]
    refused("other data, model or loss under the same name", fedlib.plot, runs, "loss")
    assert list(lines(fedlib.plot({"1": runs[0], "2": runs[1]}, "loss"))) == ["1", "2"]


def test_a_notebook_shows_the_picture(histories):
    data, _ = DisplayFormatter().format(fedlib.plot(histories))
    assert data["image/png"].startswith(b"\x89PNG")
