"""Tables 1, 2, 3, 6 and 7: which runs their cells take, and what is drawn from them."""

import dataclasses

import numpy as np
import pytest

import fedlib
from fedlib import papers
from fedlib.reproduction import draw, tables
from fedlib.reproduction.compare import cells
from fedlib.results import Store
from fedlib.results.files import file_path, open_runs, write_runs

METRICS = {"avg": "average", "std": "spread", "worst30": "worst 30 %"}
SOLVERS = ("SGD", "SGD+momentum", "SGD+Nesterov")
TABLE_7 = tables.find("adafedadam", "Table 7")
OVERRIDES = TABLE_7.groupby(["algorithm", "column"])["overrides"].first()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """FedAvg, FedNova and FedProx (two mu) with each local solver, two rounds of five clients."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    task = fedlib.load_task("synthetic", clients=5)
    asked = [("fedavg", {}), ("fednova", {}), ("fedprox", {"mu": 0.01}), ("fedprox", {"mu": 1.0})]
    requests = [
        {"algorithm": name, "overrides": {**values, **OVERRIDES[name, solver]}}
        for solver in SOLVERS
        for name, values in asked
    ]
    histories = store.runs(task, requests, rounds=2)
    keys = [(solver, name, values.get("mu")) for solver in SOLVERS for name, values in asked]
    return store, dict(zip(keys, histories, strict=True))


def as_cifar10(store, history, beta, epochs, **changes):
    """A run's numbers as one of the Cifar10 setup; stored, so that it knows the task's values."""
    task = dataclasses.replace(fedlib.load_task("synthetic", clients=5), name="fair_cifar10")
    options = {"data": "cifar10", "clients": 16, "beta": beta, "examples": 50_000}
    options |= {"width": 1.0, "augment": False}
    about = {"name": "fair_cifar10", "preset": "paper", "options": options, "stand_in": False}
    config = dataclasses.replace(
        history.config, task={**history.config.task, **about, **changes}, local_epochs=epochs
    )
    write_runs(store.root, [(task, dataclasses.replace(history, config=config))], False)
    return open_runs(file_path(store.root, [config]))[config.digest]


@pytest.fixture
def cifar10(made, tmp_path):
    """Runs of FedAvg as if of the Cifar10 setup: (concentration, epochs) -> stored run."""
    store = Store(tmp_path / "runs", published=[])
    history = made[1]["SGD", "fedavg", None]
    asked = [(0.1, (1, 3)), (0.1, 1), (0.5, 1), (0.1, 2)]
    return store, {one: as_cifar10(store, history, *one) for one in asked}


def test_a_run_belongs_to_the_column_of_its_solver(made):
    runs = made[1]
    frame = cells(runs.values(), TABLE_7)
    shown = frame[(frame["metric"] == "avg") & (frame["seeds"] > 0)]
    assert len(shown) == 9
    for row in shown.itertuples():
        if row.algorithm == "fedprox":  # the mu with the smallest training loss
            both = [runs[row.column, "fedprox", mu] for mu in (0.01, 1.0)]
            run = min(both, key=lambda history: history.series("loss", "train").iloc[-1])
        else:
            run = runs[row.column, row.algorithm, None]
        assert row.runs == (run.config.digest,)
        assert row.ours == pytest.approx(100 * run.final(window=1))
    printed = papers.printed(
        "adafedadam",
        "table7_local_momentum_full",
        **{"local_solver": "SGD+Nesterov", "algorithm": "FedNova", "metric": "avg"},
    )
    cell = frame.query("column == 'SGD+Nesterov' and row == 'FedNova' and metric == 'avg'")
    assert cell["printed"].item() == printed == 96.85


def test_the_tables_of_cifar10_tell_epochs_and_concentrations_apart(cifar10):
    runs = cifar10[1]

    def used(name):
        frame = cells(runs.values(), tables.find("adafedadam", name))
        shown = frame[(frame["seeds"] > 0) & (frame["metric"] == "avg")]
        return dict(zip(shown["column"], shown["runs"], strict=True))

    assert used("Table 1") == {"": (runs[0.1, (1, 3)].config.digest,)}
    assert used("Table 6") == {
        "Dir(0.1)": (runs[0.1, 1].config.digest,),
        "Dir(0.5)": (runs[0.5, 1].config.digest,),
    }
    assert used("Table 2") == {}  # AdaFedAdam only


def test_side_by_side_has_a_row_per_method_and_the_cells_numbers(made, cifar10):
    histories = list(made[1].values())
    figure, data = draw.entry("adafedadam/table_7").draw(histories)
    assert figure is None and len(data) == 18
    long = cells(histories, TABLE_7)
    for metric, label in METRICS.items():
        part = long[long["metric"] == metric]
        for heading in ("printed", "ours"):
            np.testing.assert_allclose(data[f"{label}: {heading}"], part[heading])
        np.testing.assert_allclose(data[f"{label}: clients alike"], part["ours_unweighted"])
    assert list(data["local solver"]) == [solver for solver in SOLVERS for _ in range(6)]
    assert "unclear" not in data  # all of Table 7 is legible
    table_1 = draw.entry("adafedadam/table_1")
    assert table_1.clients
    assert dict(table_1.notebooks) == {"fair_cifar10": "35_resource_heterogeneity"}
    with pytest.raises(fedlib.Error, match="none of these runs is of its tasks"):
        table_1.draw(histories)
    data = table_1.draw([run.history() for run in cifar10[1].values()])[1]
    assert set(data["unclear"]) == {"missing"} and "setting" not in data
