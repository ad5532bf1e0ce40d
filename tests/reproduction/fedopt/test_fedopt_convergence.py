"""FedOpt's Figures 1 and 4: a panel per task, with the metric and the numbers of Table 1."""

import dataclasses

import numpy as np
import pytest

import fedlib
from fedlib import figures, papers
from fedlib.reproduction import tables as items
from fedlib.reproduction.fedopt.batch_sizes import fedopt_table_7
from fedlib.reproduction.fedopt.convergence import fedopt_figure_1, fedopt_figure_4

METHODS = ("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi", "scaffold")
TASKS = [item.task for item in items.find("fedopt", "Table 1")]


@pytest.fixture(scope="module")
def histories():
    small = fedlib.load_task("synthetic", clients=3)
    own = {name: {"client_lr": 0.01} for name in METHODS}
    task = dataclasses.replace(small, hyperparameters=own, clients_per_round=2)
    histories = [fedlib.run(task, name, rounds=2) for name in METHODS]
    for history in histories:  # what the store adds
        history.meta |= {"hyperparameters": own[history.config.algorithm]}
    return histories


def as_task(histories, name):
    """The same numbers under another task's name, their accuracy as the task's own metric."""
    metric = items.find("fedopt", "Table 1", name)[0].cells[0].metric
    changed = []
    for history in histories:
        task = {**history.config.task, "name": name}
        frame = history.frame.replace({"metric": {"accuracy": metric}})
        config = dataclasses.replace(history.config, task=task)
        changed.append(dataclasses.replace(history, config=config, frame=frame))
    return changed


@pytest.fixture(scope="module")
def every(histories):
    return [history for name in TASKS for history in as_task(histories, name)]


def test_figure_1_has_all_tasks_but_emnist_cr(every):
    figure, data = fedopt_figure_1(every)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [
        *("CIFAR-10", "CIFAR-100", "EMNIST AE", "Shakespeare"),
        *("StackOverflow LR", "StackOverflow NWP"),
    ]
    units = dict(zip(titles, (ax.get_ylabel() for ax in figure.axes), strict=True))
    assert units["StackOverflow LR"] == "test recall at 5 (%)"
    assert units["EMNIST AE"] == "test MSE × 1000" and units["CIFAR-100"] == "test accuracy (%)"
    assert [ax.get_yscale() for ax in figure.axes] == ["linear"] * 2 + ["log"] + ["linear"] * 3
    assert set(data["task"]) == set(TASKS) - {"emnist_cr"}
    assert np.isfinite(data["mean"]).all() and set(data["algorithm"]) == set(METHODS)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend[-2:] == ["SCAFFOLD", "printed (4000/3000/1500 rounds)"]


def test_lines_are_the_runs_and_marks_the_printed_numbers(every):
    figure, data = fedopt_figure_1(every)
    panel = figure.axes[2]
    lines = {line.get_label(): line for line in panel.get_lines()}
    run = next(h for h in every if h.config.task["name"] == "emnist_ae")
    np.testing.assert_allclose(lines["FedAvg"].get_ydata(), run.series("mse_x1000"))
    for algorithm in ("FedAvg", "FedAvgM", "FedAdagrad", "FedAdam", "FedYogi"):
        where = {"task": "EMNIST AE", "algorithm": algorithm}
        value = papers.printed("fedopt", "table1_validation", **where)
        assert lines[f"_printed {algorithm.lower()}"].get_ydata()[0] == value
        own = data[(data["task"] == "emnist_ae") & (data["algorithm"] == algorithm.lower())]
        assert (own["printed"] == value).all() and (own["printed_rounds"] == 3000).all()
    assert "_printed scaffold" not in lines
    assert data.loc[data["algorithm"] == "scaffold", "printed"].isna().all()


def test_panels_are_those_of_the_tasks_that_were_run(every, histories):
    figure, data = fedopt_figure_4(every)
    assert [ax.get_title() for ax in figure.axes] == ["EMNIST CR"]
    assert set(data["task"]) == {"emnist_cr"} and set(data["metric"]) == {"accuracy"}
    four = [h for h in every if h.config.task["name"] in (*TASKS[:2], *TASKS[3:5])]
    assert len(fedopt_figure_1(four)[0].axes) == 4  # two places of the grid stay empty
    with pytest.raises(fedlib.Error, match="none of these runs"):
        fedopt_figure_1(as_task(histories, "emnist_cr"))


def test_the_catalogue_names_a_notebook_for_each_panel():
    one = figures.entry("fedopt/figure_1").notebooks
    four = figures.entry("fedopt/figure_4").notebooks
    assert list(one) + list(four) == [*(t for t in TASKS if t != "emnist_cr"), "emnist_cr"]
    assert {**one, **four} == dict(figures.entry("fedopt/table_1").notebooks)
    for item in items.find("fedopt", "Table 1"):
        assert item.notebook == {**one, **four}[item.task]


@pytest.fixture(scope="module")
def tasks():
    return {name: fedlib.load_task(name) for name in TASKS}


def test_table_7_compares_the_tasks_with_the_print(tasks, monkeypatch):
    module = "fedlib.reproduction.fedopt.batch_sizes.load_task"
    monkeypatch.setattr(module, lambda name, **_: tasks[name])
    _, data = fedopt_table_7()
    assert list(data["printed"]) == list(data["ours"]) == [20, 20, 20, 20, 4, 100, 16]
    assert (data["difference"] == 0).all() and data["task"][4] == "Shakespeare"
    other = dataclasses.replace(tasks["shakespeare"], batch_size=32)
    monkeypatch.setattr(module, lambda name, **_: other)
    assert list(fedopt_table_7()[1]["difference"]) == [12, 12, 12, 12, 28, -68, 16]


def test_items_have_the_papers_settings():
    table = {item.task: item for item in items.find("fedopt", "Table 1")}
    assert [len(item.cells) for item in table.values()] == [5] * 7
    rounds = {name: item.rounds for name, item in table.items()}
    assert rounds.pop("cifar10") == rounds.pop("cifar100") == 4000
    assert rounds.pop("emnist_ae") == 3000 and set(rounds.values()) == {1500}
    cohorts = {name: item.clients_per_round for name, item in table.items()}
    assert cohorts.pop("stackoverflow_nwp") == 50 and set(cohorts.values()) == {10}
    assert {name: item.batch_size for name, item in table.items()}["shakespeare"] == 4
    for item in table.values():
        assert all(cell.metric == item.cells[0].metric for cell in item.cells)
    assert items.METRICS["mse_x1000"].smaller and table["emnist_ae"].cells[1].printed == 1.01


def test_the_papers_options_are_options_of_the_task(tasks):
    for item in items.find("fedopt", "Table 1"):
        assert set(item.options) <= set(tasks[item.task].options), item.task
