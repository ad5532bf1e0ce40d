"""Cells of AdaFedAdam's Tables 1, 2, 3, 6 and 7, and the tables drawn from them."""

import dataclasses

import numpy as np
import pytest
from fedlib.reproduction.adafedadam.variant_runs import solver_overrides
from fedlib.reproduction.side_by_side import side_by_side

import fedlib
from fedlib import figures, papers
from fedlib.errors import Error
from fedlib.reproduction import tables as items
from fedlib.reproduction.compare import cells
from fedlib.reproduction.kept import with_kept
from fedlib.results import Store
from fedlib.results.files import open_run, run_path, write_run

METRICS = {"avg": "average", "std": "spread", "worst30": "worst 30 %"}
SOLVERS = ("SGD", "SGD+momentum", "SGD+Nesterov")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """FedAvg, FedNova and FedProx (two mu) with each local solver, two rounds of five clients."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    task = fedlib.load_task("synthetic", clients=5)
    asked = [("fedavg", {}), ("fednova", {}), ("fedprox", {"mu": 0.01}), ("fedprox", {"mu": 1.0})]
    requests = [
        {"algorithm": name, "overrides": {**own, **solver_overrides(name, solver)}}
        for solver in SOLVERS
        for name, own in asked
    ]
    histories = store.runs(task, requests, rounds=2)
    keys = [(solver, name, own.get("mu")) for solver in SOLVERS for name, own in asked]
    return store, dict(zip(keys, histories, strict=True))


def as_cifar10(store, task, history, beta, epochs, **changes):
    """A run's numbers as one of the Cifar10 setup; stored, so that it knows the task's values."""
    options = {"data": "cifar10", "clients": 16, "beta": beta, "examples": 50_000}
    options |= {"width": 1.0, "augment": False}
    about = {"name": "fair_cifar10", "preset": "paper", "options": options, "stand_in": False}
    config = dataclasses.replace(
        history.config, task={**history.config.task, **about, **changes}, local_epochs=epochs
    )
    write_run(store.root, task, dataclasses.replace(history, config=config), False, False)
    return open_run(run_path(store.root, config))


def test_a_run_belongs_to_the_column_of_its_solver(made):
    _, runs = made
    frame = cells(runs.values(), items.find("adafedadam", "Table 7"))
    shown = frame[(frame["metric"] == "avg") & (frame["seeds"] > 0)]
    assert len(shown) == 9
    for row in shown.itertuples():
        if row.algorithm != "fedprox":
            own = runs[row.column, row.algorithm, None]
            assert row.runs == (own.config.digest,)
            assert row.ours == pytest.approx(100 * own.final(window=1))
    printed = papers.printed(
        *("adafedadam", "table7_local_momentum_full"),
        **{"local_solver": "SGD+Nesterov", "algorithm": "FedNova", "metric": "avg"},
    )
    found = frame.query("column == 'SGD+Nesterov' and row == 'FedNova' and metric == 'avg'")
    assert found["printed"].item() == printed == 96.85


def test_fedprox_has_the_mu_with_the_smallest_training_loss(made):
    _, runs = made
    frame = cells(runs.values(), items.find("adafedadam", "Table 7"))
    for solver in SOLVERS:
        both = [runs[solver, "fedprox", mu] for mu in (0.01, 1.0)]
        best = min(both, key=lambda run: run.series("loss", "train").iloc[-1])
        found = frame.query("column == @solver and row == 'FedProx' and metric == 'std'")
        assert found["runs"].item() == (best.config.digest,)


@pytest.fixture
def cifar10(made, tmp_path):
    """Runs of FedAvg as if of the Cifar10 setup: (concentration, epochs) -> stored run."""
    store = Store(tmp_path / "runs", published=[])
    history = made[1]["SGD", "fedavg", None]
    task = dataclasses.replace(fedlib.load_task("synthetic", clients=5), name="fair_cifar10")
    asked = [(0.1, (1, 3)), (0.1, 1), (0.5, 1), (0.1, 2)]
    return store, {one: as_cifar10(store, task, history, *one) for one in asked}


def test_the_tables_of_cifar10_tell_epochs_and_concentrations_apart(cifar10):
    runs = cifar10[1]

    def used(item):
        frame = cells(runs.values(), items.find("adafedadam", item))
        shown = frame[frame["seeds"] > 0]
        return {row.column: set(row.runs) for row in shown.itertuples() if row.metric == "avg"}

    assert used("Table 1") == {"": {runs[0.1, (1, 3)].config.digest}}
    assert used("Table 6") == {
        "Dir(0.1)": {runs[0.1, 1].config.digest},
        "Dir(0.5)": {runs[0.5, 1].config.digest},
    }
    assert used("Table 2") == {}  # AdaFedAdam only


def test_illegible_averages_are_marked_and_not_compared(cifar10):
    frame = cells(cifar10[1].values(), items.find("adafedadam", "Table 1"))
    average = frame[frame["metric"] == "avg"]
    assert average["printed"].isna().all() and not average["comparable"].any()
    assert average["unclear"].str.startswith("missing").all()
    assert frame.query("metric == 'worst30' and row == 'AdaFedAdam'")["printed"].item() == 58.01
    table = cells([], items.find("adafedadam", "Table 6"))
    assert table.query("metric == 'avg'")["printed"].isna().sum() == 8


def test_side_by_side_has_a_row_per_method_and_the_cells_numbers(made):
    _, runs = made
    draw = side_by_side("adafedadam", "Table 7", METRICS, setting="local solver")
    figure, data = draw(list(runs.values()))
    assert figure is None and len(data) == 18
    long = cells(runs.values(), items.find("adafedadam", "Table 7"))
    for metric, label in METRICS.items():
        own = long[long["metric"] == metric]
        for ours, column in (("printed", "printed"), ("ours", "ours")):
            np.testing.assert_allclose(data[f"{label}: {column}"], own[ours])
        np.testing.assert_allclose(data[f"{label}: clients alike"], own["ours_unweighted"])
    assert list(data["local solver"]) == [solver for solver in SOLVERS for _ in range(6)]
    assert "unclear" not in data  # all of Table 7 is legible
    with pytest.raises(Error, match="none of these runs is of its tasks"):
        side_by_side("adafedadam", "Table 1", METRICS)(list(runs.values()))


def test_side_by_side_changes_with_a_stored_value(made):
    _, runs = made
    draw = side_by_side("adafedadam", "Table 7", METRICS)
    histories = list(runs.values())
    changed = histories[0]
    frame = changed.frame.copy()
    last = frame["round"] == frame["round"].max()
    frame.loc[last & (frame["metric"] == "accuracy"), "value"] += 0.01
    histories[0] = dataclasses.replace(changed, frame=frame)
    before, after = draw(list(runs.values()))[1], draw(histories)[1]
    difference = (after["average: ours"] - before["average: ours"]).fillna(0)
    assert difference[0] == pytest.approx(1) and (difference[1:] == 0).all()


def test_every_table_is_in_the_catalogue_with_its_notebook():
    for number, task, notebook in (
        (1, "fair_cifar10", "35_resource_heterogeneity"),
        (2, "fair_cifar10", "36_noniid_levels"),
        (3, "synthetic", "37_local_solvers"),
        (6, "fair_cifar10", "36_noniid_levels"),
        (7, "synthetic", "37_local_solvers"),
    ):
        entry = figures.entry(f"adafedadam/table_{number}")
        assert dict(entry.notebooks) == {task: notebook} and entry.clients
        for item in items.find("adafedadam", f"Table {number}"):
            assert (item.task, item.notebook) == (task, notebook)


def test_kept_runs_stand_behind_the_histories_once(cifar10, made):
    store, runs = cifar10
    history = runs[0.1, 1].history(params=False)
    found = with_kept(store, [history], "adafedadam", "Table 1", "Table 6")
    assert found[0] is history
    digests = [run.config.digest for run in found]
    assert sorted(digests) == sorted(
        runs[key].config.digest for key in ((0.1, 1), (0.1, (1, 3)), (0.5, 1))
    )
    # Neither quick runs nor stand-ins: the store of the solvers' runs has quick ones only.
    assert with_kept(made[0], [], "adafedadam", "Table 7") == []


def test_stand_ins_are_not_kept(made, tmp_path):
    store = Store(tmp_path / "runs", published=[])
    task = dataclasses.replace(fedlib.load_task("synthetic", clients=5), name="fair_cifar10")
    as_cifar10(store, task, made[1]["SGD", "fedavg", None], 0.5, 1, stand_in=True)
    assert with_kept(store, [], "adafedadam", "Table 6") == []
