"""Delta-SGD's printed tables and plans: the paper's settings, and which runs belong to a cell."""

import dataclasses
import json
from collections import Counter

import pytest

import fedlib
from fedlib import algorithms, papers, plans, tasks
from fedlib.models import Softmax
from fedlib.reproduction import tables
from fedlib.reproduction.compare import cells
from fedlib.reproduction.delta_sgd import tables as delta_sgd
from fedlib.reproduction.delta_sgd.tables import CLIENTS
from fedlib.results import Store
from fedlib.tasks import settings

IMAGES, TEXT, ABLATION = "26_autotuned_images", "27_autotuned_text", "39_delta_sgd_ablation"
OPTIONS = {"clients": 100, "alpha": 0.1, "sizes": 500, "width": 1.0, "test_examples": 10_000}


class Net(Softmax):
    """Softmax regression that MOON takes: its features are the inputs."""

    def features(self, x):
        return x

    def head(self, features):
        return self(features)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Makes a run that passes for one of CIFAR-10 with a ResNet-18."""
    base = fedlib.load_task("synthetic", clients=3)
    store = Store(tmp_path_factory.mktemp("runs"), published=())

    def make(algorithm="fedavg", label="delta_sgd", overrides=None, **options):
        task = dataclasses.replace(
            base,
            name="cifar10_resnet18",
            version="1",
            preset="paper",
            model=lambda: Net(60, 10),
            hyperparameters=settings.delta_sgd(),
            client_hyperparameters=settings.delta_sgd_clients(),
            options={**OPTIONS, **options},
            batch_size=64,
        )
        overrides = {**CLIENTS[label], **(overrides or {})}
        return store.run(task, algorithm, rounds=1, overrides=overrides, clients_per_round=2)

    return make


def rows_of(history, table):
    """Rows and columns of a printed table that take the run."""
    frame = cells([history], tables.find("delta_sgd", table, "cifar10_resnet18"))
    return frame[frame["seeds"] > 0]


def test_a_run_belongs_to_its_optimizer_and_alpha_alone(run):
    hit = rows_of(run(label="sgdm_decay", alpha=0.01), "Table 1")
    assert hit[["row", "column"]].to_numpy().tolist() == [["SGDM_decay", "alpha 0.01"]]
    assert rows_of(run(overrides={"delta": 1.0}), "Table 1").empty, "Figure 4's, not Table 1's"
    assert rows_of(run(label="sgd", overrides={"client_lr": 0.5}), "Table 1").empty
    assert rows_of(run(overrides={"local_epochs": 3}), "Table 1").empty


@pytest.mark.parametrize(
    ("algorithm", "alpha", "its"),
    [("fedprox", 0.01, ("2b", "6")), ("fedadam", 0.1, ("4",)), ("moon", 0.1, ("5",))],
)
def test_servers_and_losses_tell_the_tables_apart(run, algorithm, alpha, its):
    history = run(algorithm, "adam", alpha=alpha)
    for table in ("1", "2b", "4", "5", "6"):
        rows = rows_of(history, f"Table {table}")["row"].tolist()
        assert rows == (["Adam"] if table in its else []), f"Table {table}"


def test_clients_of_different_sizes_are_table_3s(run):
    even, paper, small = run(), run(sizes="100-500"), run(sizes="8-40")
    assert len(rows_of(even, "Table 1")) == 1 and rows_of(even, "Table 3").empty
    for history in (paper, small):
        assert rows_of(history, "Table 1").empty and len(rows_of(history, "Table 3")) == 1
    note = "sizes 8-40 instead of 100-500"
    assert note in rows_of(small, "Table 3")["note"].item()
    assert "sizes" not in rows_of(paper, "Table 3")["note"].item()


def plan(notebook, *parts, preset="paper", **numbers):
    return plans.select(plans.requests(notebook, preset, **numbers), *parts)


def test_table_1_is_every_task_alpha_and_client_optimizer_once():
    requests = plan(IMAGES, "table")
    printed = papers.table("delta_sgd", "table1")
    assert len(requests) == len(printed) == 120
    asked = Counter((r.task, r.options["alpha"]) for r in requests)
    assert len(asked) == 15 and set(asked.values()) == {printed["optimizer"].nunique()}
    assert {task for task, _ in asked} == set(delta_sgd.IMAGE_TASKS.values())
    for request in requests:
        own = {"alpha": request.options["alpha"], "draws": "authors"}
        assert request.options == own, "the paper's own sizes"
        assert request.rounds == tasks.rounds(request.task, "paper")
        assert request.rounds == 100 * request.eval_every, "a hundred points a curve"
        assert request.clients_per_round is None
        assert "client_lr" not in request.overrides, "nothing is tuned again"
        assert not request.keeps, "ResNets' parameters fill disks"
    text = plan(TEXT)
    assert Counter(r.task for r in text) == {"ag_news": 8, "dbpedia": 8}
    assert all(r.options == {"alpha": 1.0} and (r.rounds, r.eval_every) == (100, 5) for r in text)


def test_the_grids_are_the_printed_ones_on_the_one_tuned_task():
    rates = {}
    for request in plan(IMAGES, "tuning"):
        assert (request.task, request.options["alpha"]) == ("cifar10_resnet18", 0.1)
        optimizer = request.overrides["client_optimizer"]
        rates.setdefault(optimizer, []).append(request.overrides["client_lr"])
    stated = papers.settings("delta_sgd")["tuning"]
    assert rates == {name: stated[f"{name}_lr_grid"] for name in ("sgd", "sgdm", "adam", "adagrad")}
    for optimizer, values in settings.delta_sgd_clients().items():
        assert values.get("client_lr") in rates.get(optimizer, [None])


def test_the_ablations_are_complete():
    requests = plan(ABLATION)
    assert Counter(r.part for r in requests) == {
        **{"delta": 27, "epochs": 9, "seeds": 72, "fedprox": 40, "fedavg": 40},
        **{"sizes": 16, "fedadam": 32, "moon": 8},
    }
    by_part = {r.part: r for r in requests}
    assert by_part["sizes"].options == {"alpha": 0.1, "sizes": "100-500"}
    assert by_part["fedprox"].options["alpha"] == 0.01
    assert all(by_part[part].algorithm == part for part in ("fedprox", "fedadam", "moon"))
    assert Counter(r.seed for r in requests if r.part == "seeds") == {0: 24, 1: 24, 2: 24}
    epochs = {r.overrides["local_epochs"] for r in requests if r.part == "epochs"}
    deltas = {r.overrides["delta"] for r in requests if r.part == "delta"}
    assert (epochs, deltas) == ({1, 2, 3}, {0.01, 0.1, 1.0})


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_the_ablations_share_table_1s_runs(preset):
    def key(request):
        return json.dumps(dataclasses.asdict(dataclasses.replace(request, part="")), sort_keys=True)

    known = {key(request) for request in plan(IMAGES, preset=preset)}
    # At the paper's settings the seeds vary the partition, which Table 1 takes from the authors.
    shared = ("fedavg",) if preset == "paper" else ("seeds",)
    ablation = plan(ABLATION, *shared, preset=preset)
    assert preset == "quick" or all(r.options["draws"] == "authors" for r in ablation)
    assert all("draws" not in r.options for r in plan(ABLATION, "seeds", preset=preset))
    first = {key(request) for request in ablation if request.seed == 0}
    assert first and first <= known


def test_one_epoch_and_delta_one_tenth_are_delta_sgds_own():
    values = settings.delta_sgd_clients()["delta_sgd"]
    built = [
        algorithms.build("fedavg", client_optimizer="delta_sgd", **{**values, **other})
        for other in ({}, {"delta": 0.1}, {"delta": 1.0})
    ]
    assert built[0] == built[1] != built[2]


def test_a_readers_numbers_take_the_presets_place():
    table = plan(IMAGES, "table", preset="laptop", rounds=7, tasks=["cifar100_resnet18"], width=0.5)
    assert Counter((r.task, r.rounds) for r in table) == {("cifar100_resnet18", 7): 8}
    assert all(r.options["width"] == 0.5 for r in table)
