"""Which runs belong to a printed cell: the method, what the table varies, and what it tunes."""

import dataclasses
import math

import pandas as pd
import pytest
import torch

import fedlib
from fedlib import algorithms, papers
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.reproduction import matching
from fedlib.reproduction import tables as items
from fedlib.reproduction.compare import cells, summary
from fedlib.reproduction.tables import METRICS, Cell, Item, Metric
from fedlib.results.files import describe

CLIENTS = {"sgd": {"client_lr": 0.3}, "adam": {"client_lr": 0.002}, "delta_sgd": {"delta": 0.7}}


@pytest.fixture(scope="module")
def task():
    small = fedlib.load_task("synthetic", clients=3)
    own = {"fedavg": {"client_lr": 0.125, "server_lr": 0.5}, "fedadam": {"client_lr": 0.25}}
    return dataclasses.replace(
        small,
        hyperparameters={**small.hyperparameters, **own},
        client_hyperparameters=CLIENTS,
        options={**small.options, "alpha": 0.1},
    )


def made(task, algorithm="fedavg", accuracy=0.5, loss=1.0, diverged=None, **settings):
    """A history as the store returns it, with one accuracy and one training loss."""
    config, _ = configure(task, algorithm, rounds=10, **settings)
    rows = [(10, "test", "accuracy", accuracy), (10, "test", "accuracy_unweighted", accuracy)]
    rows += [(10, "train", "loss", loss), (10, "test", "mse_x1000", 100 * loss)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    history = History(frame, pd.DataFrame(), {"w": torch.zeros(1)}, config, {"diverged": diverged})
    return dataclasses.replace(history, meta={**history.meta, **describe(task, history)})


def table(*own, **settings):
    """An item with these cells."""
    common = {"notebook": "23_fair_synthetic", "rounds": 10, "clients_per_round": None}
    own_settings = {**common, "batch_size": 10, **settings}
    return Item("own", "Table 9", "synthetic", "Synthetic", tuple(own), **own_settings)


def ours(cell, *runs, **settings):
    return cells(runs, [table(cell, **settings)]).iloc[0]


NAMED = [(name, {}) for name in algorithms.METHODS]
NAMED += [("fedadam", {"client_optimizer": name}) for name in algorithms.CLIENT_OPTIMIZERS]
NAMED += [
    ("fedavg", {"client_optimizer": "sgdm", "client_schedule": "step_decay"}),
    ("fedavg", {"client_optimizer": "adam", "client_lr": 0.5}),
    ("scaffold", {"client_optimizer": "sgd"}),
    ("fedprox", {"mu": 0.5}),
]


@pytest.mark.parametrize(("algorithm", "overrides"), NAMED)
def test_a_run_as_it_is_configured_belongs(task, algorithm, overrides):
    """The same rule as the engine's, for every method and every client optimizer."""
    cell = Cell("row", algorithm, "accuracy", 50.0, overrides)
    run = made(task, algorithm, overrides=overrides)
    assert matching.belongs(cell, run)
    key = "client_lr" if algorithm != "fedadam" else "server_lr"
    other = made(task, algorithm, overrides={**overrides, key: 0.0123})
    assert not matching.belongs(cell, other)


def test_runs_of_another_client_optimizer_do_not_count(task):
    cell = Cell("Adam", "fedavg", "accuracy", 50.0, {"client_optimizer": "adam"})
    run = made(task, overrides={"client_optimizer": "adam"})
    assert not matching.belongs(cell, made(task))
    assert not matching.belongs(Cell("SGD", "fedavg", "accuracy", 50.0), run)
    old = dataclasses.replace(run, meta={**run.meta})
    del old.meta["client_hyperparameters"]  # stored by an older version: read, but not known
    assert not matching.belongs(cell, old)
    assert matching.belongs(Cell("SGD", "fedavg", "accuracy", 50.0), made(task))


def test_runs_stored_without_hyperparameters_do_not_count(task):
    run = made(task)
    bare = dataclasses.replace(run, meta={"diverged": None})
    assert not matching.belongs(Cell("row", "fedavg", "accuracy", 50.0), bare)


def test_what_the_table_varies_must_be_the_cells(task):
    cell = Cell("row", "fedavg", "accuracy", 50.0, options={"alpha": 0.1})
    wide = dataclasses.replace(task, options={**task.options, "alpha": 1.0})
    assert ours(cell, made(task, accuracy=0.25), made(wide, accuracy=0.75))["ours"] == 25.0
    assert ours(cell, made(wide))["seeds"] == 0
    # Without it, another concentration is a departure that is told.
    free = dataclasses.replace(cell, options={})
    found = ours(free, made(wide), options={"alpha": 0.1})
    assert found["seeds"] == 1 and "alpha 1.0 instead of 0.1" in found["note"]


def test_local_epochs_and_batches_must_be_the_cells_or_the_tasks_own(task):
    usual = Cell("row", "fedavg", "accuracy", 50.0)
    mixed = dataclasses.replace(usual, overrides={"local_epochs": (1, 3)})
    one = made(task, accuracy=0.25)
    three = made(task, accuracy=0.75, overrides={"local_epochs": (1, 3)})
    assert ours(usual, one, three)["ours"] == 25.0 and ours(mixed, one, three)["ours"] == 75.0
    assert "local epochs" not in ours(mixed, three)["note"]
    steps = made(task, overrides={"local_steps": 2})
    assert ours(usual, steps)["seeds"] == 0 == ours(usual, three)["seeds"]


def test_tuned_hyperparameters_are_chosen_by_the_training_loss(task):
    cell = Cell("row", "fedavg", "accuracy", 50.0, tuned=("client_lr",))
    grid = [
        made(task, accuracy=a, loss=loss, overrides={"client_lr": rate}, seed=seed)
        for rate, a, loss in ((0.01, 0.9, 2.0), (0.1, 0.6, 1.0), (1.0, 0.1, 1.5))
        for seed in (0, 1)
    ]
    found = ours(cell, *grid)
    assert (found["ours"], found["seeds"]) == (60.0, 2)
    grid[2].meta["diverged"] = grid[3].meta["diverged"] = 3
    assert ours(cell, *grid)["ours"] == pytest.approx(10.0)
    other = made(task, loss=0.1, overrides={"client_lr": 0.1, "server_lr": 0.1})
    assert ours(cell, *grid, other)["ours"] == pytest.approx(10.0)


def test_the_cells_cohort_is_part_of_the_papers_settings(task):
    paper = dataclasses.replace(task, preset="paper", clients_per_round=2)
    cell = Cell("row", "fedavg", "accuracy", 50.0, clients_per_round=2)
    assert ours(cell, made(paper))["note"] == ""
    plain = dataclasses.replace(cell, clients_per_round=None)
    assert "clients per round 2 instead of 3" in ours(plain, made(paper))["note"]


def test_illegible_numbers_are_marked_and_not_compared(task):
    lost = Cell("a", "fedavg", "accuracy", math.nan, unclear="missing: column lost")
    odd = Cell("b", "fedavg", "accuracy", 49.0, unclear="conflict_resolved: two readings")
    frame = cells([made(task)], [table(lost, odd)]).set_index("row")
    assert not frame.loc["a", "comparable"] and frame.loc["b", "comparable"]
    assert frame.loc["a", "ours"] == 50.0 and math.isnan(frame.loc["a", "difference"])
    assert frame.loc["b", "unclear"].startswith("conflict")
    row = summary(frame.reset_index()).iloc[0]
    assert (row["cells"], row["comparable"], row["within"], row["unclear"]) == (2, 1, 1, 2)


def test_the_summary_ranks_within_a_column_by_the_first_metric_that_ranks(task):
    wide = dataclasses.replace(task, options={**task.options, "alpha": 1.0})

    def pair(column, alpha, printed, metric="accuracy"):
        names = ("fedavg", "fedadam")
        return [
            Cell(name, name, metric, value, column=column, options={"alpha": alpha})
            for name, value in zip(names, printed, strict=True)
        ]

    runs = [made(task, a, accuracy=v) for a, v in (("fedavg", 0.4), ("fedadam", 0.6))]
    runs += [made(wide, a, accuracy=v, loss=v) for a, v in (("fedavg", 0.7), ("fedadam", 0.3))]
    item = table(*pair("0.1", 0.1, (45, 55)), *pair("1", 1.0, (45, 55)))
    totals = summary(cells(runs, [item])).set_index("column")
    assert list(totals["our_best"]) == ["fedadam", "fedavg"]
    assert list(totals["same_best"]) == [True, False]
    error = table(*pair("1", 1.0, (45, 55), "mse_x1000"))
    row = summary(cells(runs, [error])).iloc[0]
    assert (row["paper_best"], row["our_best"]) == ("fedavg", "fedadam")  # smaller is better
    assert cells(runs, [error])["ours"].tolist() == [70.0, 30.0]  # no percent


def test_printed_cells_read_the_transcribed_tables():
    found = items.printed_cells(
        "adafedadam",
        "table5_convergence_fairness",
        {"setup": "Femnist"},
        metrics={"avg": "avg"},
        tuned=("mu",),
    )
    rows = {cell.row: cell for cell in found}
    first = rows["FedAvg"]
    assert (first.printed, first.spread, first.algorithm) == (77.77, 0.64, "fedavg")
    assert first.unclear.startswith("unclear: raw") and not rows["FedAdam"].unclear
    assert {cell.metric for cell in found} == {"avg"} and first.tuned == ("mu",)

    def client(label):
        kind, _, decay = label.lower().partition("_")
        if kind not in ("sgd", "sgdm"):
            return None
        return "fedavg", {"client_optimizer": kind, **({"client_schedule": decay} if decay else {})}

    where = {"dataset": "MNIST", "alpha": 1}
    found = items.printed_cells(
        "delta_sgd", "table1", where, metrics="avg", row="optimizer", method=client, column="1"
    )
    assert [cell.row for cell in found] == ["SGD", "SGD_decay", "SGDM", "SGDM_decay"]
    assert found[1].overrides == {"client_optimizer": "sgd", "client_schedule": "decay"}
    assert found[2].unclear.startswith("diff_from_identity") and math.isnan(found[2].spread)
    with pytest.raises(fedlib.Error, match="has no row with"):
        items.printed_cells("fedopt", "table1_validation", {"task": "x"}, metrics="accuracy")


def test_every_item_is_sound():
    seen = set()
    for item in items.ITEMS:
        assert item.cells and item.paper in papers.papers()
        for cell in item.cells:
            assert cell.metric in METRICS and cell.algorithm in algorithms.METHODS
            key = (item.paper, item.item, item.task, cell.column, cell.row, cell.metric)
            assert key not in seen, f"two cells {key}"
            seen.add(key)
            legible = cell.printed == cell.printed
            assert legible or cell.unclear, f"{key} has no number and does not say why"
    assert items.find("fedopt", "Table 1", "cifar10")[0].label == "CIFAR-10"
    with pytest.raises(fedlib.Error, match="unknown printed table 'fedopt Table 99'"):
        items.find("fedopt", "Table 99")
    with pytest.raises(fedlib.Error, match="unknown task of fedopt's Table 1"):
        items.find("fedopt", "Table 1", "mnist")


def test_metrics_are_called_like_functions(task):
    run = made(task, accuracy=0.25, loss=0.5)
    assert METRICS["avg"](run) == (0.25, 0.25)
    weighted, unweighted = METRICS["mse_x1000"](run)
    assert weighted == 50.0 and math.isnan(unweighted)
    assert Metric(lambda history: (1.0, 2.0))(run) == (1.0, 2.0)
