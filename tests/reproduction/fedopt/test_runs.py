"""FedOpt's printed tables, and the runs that its notebooks ask for."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import torch

import fedlib
from fedlib import papers
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.optimizers.schedules import SCHEDULES
from fedlib.reproduction import experiments, tables
from fedlib.reproduction.answers import configured
from fedlib.reproduction.compare import cells
from fedlib.reproduction.fedopt import grids
from fedlib.reproduction.fedopt.grids import ADAPTIVE, OPTIMIZERS, REPEATED, TASKS
from fedlib.reproduction.fedopt.runs import DECAY, TABLES_1, TABLES_10, TABLES_11
from fedlib.reproduction.matching import belongs
from fedlib.reproduction.request import Place
from fedlib.results import Store
from fedlib.tasks import settings

STATED = papers.settings("fedopt")
RATES = papers.table("fedopt", "table8_learning_rates")
TAUS = papers.table("fedopt", "table9_tau").set_index(["task", "algorithm"])["log10_tau"]
MAPS, TAU, DECAYS = "30_learning_rate_grids", "31_tau", "33_lr_decay_and_centralized"
POSTS = ("stackoverflow_nwp", "stackoverflow_lr")
every_task = pytest.mark.parametrize("task", list(TABLES_1)[1:])  # 10 has its plan itself


def parts(notebook, preset="paper", **numbers):
    """The requests of a notebook by part."""
    split = {}
    for request in experiments.plan(notebook, preset, seed=3, **numbers):
        split.setdefault(request.part, []).append(request)
    return split


def half_decades(first, last):
    return [10 ** (first + half / 2) for half in range(round(2 * (last - first)) + 1)]


def printed_pairs(task):
    """A task's grid as the settings state its ends; the plans read its values from a table."""
    stated = STATED["grid_log10"][TASKS[task]]
    return [
        (c, s) for c in half_decades(*stated["client"]) for s in half_decades(*stated["server"])
    ]


def pairs(requests):
    return sorted((one.overrides["client_lr"], one.overrides["server_lr"]) for one in requests)


# --- Tables 1 and 10, notebooks 10 to 16


@every_task
def test_the_papers_plan_leaves_everything_to_the_task_and_tunes_scaffold(task):
    split = parts(TABLES_1[task].notebook)
    assert list(split) == ["curves", "scaffold", *(["full_test"] if task in POSTS else [])]
    assert [one.algorithm for one in split["curves"]] == list(OPTIMIZERS)
    assert [one.place.row.lower() for one in split["curves"]] == list(OPTIMIZERS)
    assert split["curves"][0].place == Place("fedopt", "Table 1", "FedAdagrad")
    assert not any(one.overrides for one in split["curves"])
    assert {one.algorithm for one in split["scaffold"]} == {"scaffold"}
    for one in split["curves"] + split["scaffold"]:
        assert (one.task, one.rounds, one.seed, one.eval_every) == (task, None, 3, 1)
        assert not one.options and one.clients_per_round is None
    wanted = sorted(printed_pairs(task))
    assert pairs(split["scaffold"]) == [pytest.approx(pair) for pair in wanted]
    fedavg = settings.fedopt(TASKS[task])["fedavg"]
    assert (fedavg["client_lr"], fedavg["server_lr"]) in pairs(split["scaffold"])


@every_task
def test_a_small_problem_searches_the_neighbours_of_its_own_rates(task):
    notebook, own = TABLES_1[task].notebook, settings.small(TABLES_1[task].label)
    requests = experiments.plan(notebook, seed=5, reach=1)
    assert {one.seed for one in requests} == {5, 6, 7}
    assert {one.algorithm for one in requests} == set(own)
    central = own.pop("centralized", None)
    if central:
        tried = [one for one in requests if (one.algorithm, one.seed) == ("centralized", 5)]
        assert {one.overrides["base"] for one in tried} == {"adam"} and len(tried) == 3
    for name, values in own.items():
        tried = [one.overrides for one in requests if (one.algorithm, one.seed) == (name, 5)]
        assert len(tried) == 9 and all(set(pair) == {"client_lr", "server_lr"} for pair in tried)
        for side in ("client_lr", "server_lr"):
            around = values[side] * 10 ** np.array([-0.5, 0, 0.5])
            assert sorted({pair[side] for pair in tried}) == pytest.approx(around.tolist())


@every_task
def test_near_fedavg_scaffold_has_its_very_rates(task):
    notebook = TABLES_1[task].notebook
    (one,) = parts(notebook, scaffold_grid=0)["scaffold"]
    assert dict(one.overrides) == settings.fedopt(TASKS[task])["fedavg"]
    assert len(parts(notebook, scaffold_grid=1)["scaffold"]) == 9
    every = parts(notebook)
    del every["scaffold"]
    if task in POSTS:
        assert parts(notebook, scaffold_grid=-1) == every
    else:
        with pytest.raises(fedlib.Error, match="scaffold_grid is -1"):
            parts(notebook, scaffold_grid=-1)


def test_a_laptop_trains_adam_centrally_once_for_two_notebooks():
    # The same runs: what one notebook has stored, the other does not train.
    alone = {
        notebook: [
            (one.rounds, one.eval_every, one.overrides["client_lr"], dict(one.options))
            for one in experiments.plan(notebook, preset="laptop")
            if one.overrides.get("base") == "adam"
        ]
        for notebook in ("12_emnist_cr", "33_lr_decay_and_centralized")
    }
    assert len(alone["12_emnist_cr"]) == 3
    assert alone["12_emnist_cr"] == alone["33_lr_decay_and_centralized"]


def test_scaffolds_grid_ends_where_the_papers_ends():
    # FedAvg's rate on EMNIST AE is two steps from the end.
    near = grids.around("emnist_ae", 3)["client_lr"]
    assert near[-1] == pytest.approx(100) and len(near) == 3 + 1 + 2


def test_numbers_reach_every_request():
    options = {"width": 0.5, "examples_per_client": 40, "test_clients": 3}
    split = parts("11_cifar100", rounds=4, eval_every=2, scaffold_grid=0, **options)
    for one in split["curves"] + split["scaffold"]:
        assert (one.rounds, one.eval_every, dict(one.options)) == (4, 2, options)
    assert parts("12_emnist_cr", clients=7)["curves"][0].options == {"clients": 7}


@pytest.mark.parametrize("task", ["shakespeare", *POSTS])
def test_the_runs_have_the_printed_settings(task):
    loaded = fedlib.load_task(task, preset="paper", **({"cap": 5} if task in POSTS else {}))
    curves = {one.algorithm: one for one in parts(TABLES_1[task].notebook)["curves"]}
    for row in RATES[RATES["task"] == TASKS[task]].itertuples():
        config = configured(loaded, curves[row.algorithm.lower()]).config
        assert (config.rounds, config.local_epochs) == (1500, 1)
        assert config.clients_per_round == (50 if task == "stackoverflow_nwp" else 10)
        assert config.batch_size == papers.printed("fedopt", "table7_batch_sizes", task=row.task)
        client, server = config.method["client"], config.method["server"]
        assert client["lr"] == pytest.approx(10**row.log10_client_lr)
        assert server["lr"] == pytest.approx(10**row.log10_server_lr)
        if (row.task, row.algorithm) in TAUS:
            assert server["tau"] == pytest.approx(10.0 ** TAUS[row.task, row.algorithm])


def test_tables_have_the_papers_settings():
    assert [len(table.cells) for table in TABLES_1.values()] == [5] * 7
    assert [table.rounds for table in TABLES_10.values()] == [1500, 1500]
    assert [table.clients_per_round for table in TABLES_10.values()] == [50, 10]
    rounds = {task: table.rounds for task, table in TABLES_1.items()}
    assert rounds.pop("cifar10") == rounds.pop("cifar100") == 4000
    assert rounds.pop("emnist_ae") == 3000 and set(rounds.values()) == {1500}
    cohorts = {task: table.clients_per_round for task, table in TABLES_1.items()}
    assert cohorts.pop("stackoverflow_nwp") == 50 and set(cohorts.values()) == {10}
    assert TABLES_1["shakespeare"].batch_size == 4
    assert TABLES_1["emnist_ae"].cells[1].printed == 1.01
    clients = {task: table.options["clients"] for task, table in TABLES_1.items()}
    assert list(clients.values()) == [500, 500, 3400, 3400, 715, 342477, 342477]
    for data in ("CIFAR-10", "CIFAR-100"):  # both have these
        for quantity, wanted in (("train_clients", 500), ("test_clients", 100)):
            where = {"dataset": data, "quantity": quantity}
            assert papers.printed("fedopt", "table2_datasets", **where) == wanted
    for table in TABLES_1.values():
        assert {cell.metric for cell in table.cells} == {table.cells[0].metric}


@pytest.mark.parametrize(
    ("name", "file", "place", "count"),
    [
        ("Table 1", "table1_validation", "task", 35),
        ("Table 10", "table10_stackoverflow_test", "task", 10),
        ("Table 11", "table11_lr_decay", "client_lr_schedule", 15),
    ],
)
def test_tables_have_the_printed_numbers(name, file, place, count):
    columns = {"centralized": "tuned_constant", "constant": "constant", "ExpDecay": "expdecay"}
    numbers = {
        (columns.get(cell.column, table.label), cell.row): cell.printed
        for table in tables.find("fedopt", name)
        for cell in table.cells
    }
    printed = papers.table("fedopt", file).set_index([place, "algorithm"])["value"]
    assert numbers == printed.to_dict() and len(numbers) == count


@pytest.mark.parametrize("task", POSTS)
def test_table_10_repeats_the_curves_on_all_posts(task):
    split = parts(TABLES_1[task].notebook)
    for one, other in zip(split["curves"], split["full_test"], strict=True):
        place = Place("fedopt", "Table 10", one.place.row)
        options = {**one.options, "validation": 0}
        again = dict(part="full_test", options=options, eval_every=0, place=place)
        assert other == dataclasses.replace(one, **again)


@pytest.fixture(scope="module")
def tested(tmp_path_factory):
    """Stored runs of FedAvg: on a sample of the test posts, and on all of them."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    small = dict(data="stackoverflow", clients=6, words=50, cap=10)
    return [
        store.run(
            fedlib.load_task("stackoverflow_lr", **small, validation=count), "fedavg", rounds=4
        )
        for count in (20, 0)
    ]


def compared(runs, tables_of):
    frame = cells(runs, [tables_of["stackoverflow_lr"]])
    return frame.set_index("algorithm").loc["fedavg"]


def test_the_test_posts_do_not_change_what_is_trained(tested):
    sample, every = tested
    for key, value in sample.params.items():
        torch.testing.assert_close(every.params[key], value, rtol=0, atol=0)
    assert sample.final("recall_at_5") != every.final("recall_at_5")


def test_table_10_takes_the_last_model_on_all_posts(tested):
    sample, every = tested
    row = compared(tested, TABLES_10)
    assert row["runs"] == (every.config.digest,)
    assert row["ours"] == pytest.approx(100 * every.series("recall_at_5").iloc[-1])
    assert row["printed"] == 40.6
    assert "clients 6 instead of 342477" in row["note"] and "validation" not in row["note"]
    # A run on a sample of the posts is not the table's.
    assert compared([sample], TABLES_10)["seeds"] == 0


def test_the_last_model_counts_however_many_rounds_there_are(tested):
    curve = pd.DataFrame({"round": range(1401, 1501), "value": [0.2] * 99 + [0.9]})
    long = dataclasses.replace(
        tested[1],
        frame=curve.assign(split="test", metric="recall_at_5"),
        config=dataclasses.replace(tested[1].config, rounds=1500),
    )
    assert compared([long], TABLES_10)["ours"] == pytest.approx(90)
    assert compared([long], TABLES_1)["ours"] == pytest.approx(20.7)


# --- Grids, notebooks 30 to 32


@pytest.fixture(scope="module")
def maps():
    return experiments.plan(MAPS, "paper", seed=5)


@every_task
def test_the_heat_maps_cover_the_printed_grid(maps, task):
    for algorithm in OPTIMIZERS:
        requests = [one for one in maps if (one.task, one.algorithm) == (task, algorithm)]
        assert pairs(requests) == [pytest.approx(pair) for pair in sorted(printed_pairs(task))]
        taus = {one.overrides.get("tau") for one in requests}
        assert taus == ({1e-3} if algorithm in ADAPTIVE else {None})


def test_the_paper_preset_has_the_papers_own_settings(maps):
    assert len(maps) == 2440
    for one in maps:
        assert one.seed == 5 and one.part == "grid"
        assert one.rounds is None and one.clients_per_round is None and not one.options
        # Evaluations inside the window of the last 100 rounds, and no thousands of parameters.
        assert 1 <= one.eval_every <= 50 and not one.keeps


@pytest.mark.parametrize(("notebook", "count"), [(MAPS, 35), (TAU, 21), (DECAYS, 5)])
def test_the_printed_winners_are_in_the_grids(notebook, count):
    keys = ("client_lr", "server_lr", "tau")
    asked = {
        (one.task, one.algorithm, *map(one.overrides.get, keys))
        for one in experiments.plan(notebook, "paper")
    }
    tasks = {label: task for task, label in TASKS.items()}
    winners = set()
    for row in RATES.itertuples():
        task, name, tau = tasks[row.task], row.algorithm.lower(), None
        if name in ADAPTIVE:
            tau = 1e-3 if notebook == MAPS else 10.0 ** int(TAUS[row.task, row.algorithm])
        if (tau is None and notebook == TAU) or (task != "emnist_cr" and notebook == DECAYS):
            continue
        winners.add((task, name, 10**row.log10_client_lr, 10**row.log10_server_lr, tau))
    assert winners <= asked and len(winners) == count


def test_tau_takes_the_whole_grid_of_rates_for_each_value(maps):
    requests = experiments.plan(TAU, "paper")
    counts = Counter((one.task, one.algorithm, one.overrides["tau"]) for one in requests)
    assert len(counts) == 7 * 3 * 5
    per_map = Counter((one.task, one.algorithm) for one in maps)
    for (task, algorithm, tau), count in counts.items():
        assert count == per_map[task, algorithm] and -5.01 < math.log10(tau) < -0.99
        assert algorithm in ADAPTIVE


def test_small_grids_are_shared_by_the_optimizers_and_reach_beyond_their_own_rates():
    maps = experiments.plan(MAPS, "quick", seed=1, reach=2, points=None)
    assert maps == experiments.plan("32_client_server_lr", "quick", seed=1, reach=2)
    for task in grids.problems("quick"):
        runs = [one for one in maps if one.task == task]
        seeds = {one.seed for one in runs}
        assert seeds == ({1, 2, 3} if task in REPEATED else {1})
        assert {one.algorithm for one in runs} == set(OPTIMIZERS)
        for algorithm in OPTIMIZERS:
            tried = pairs([one for one in runs if (one.algorithm, one.seed) == (algorithm, 1)])
            axes = grids.common(task, 2)
            every = [(c, s) for c in axes["client_lr"] for s in axes["server_lr"]]
            assert tried == every
            own = settings.small(TASKS[task])[algorithm]
            for name, values in axes.items():
                assert values[0] * 9.9 < own[name] < values[-1] / 9.9
        assert {one.eval_every for one in runs} == {0} and not any(one.options for one in runs)


def test_a_small_problems_server_rates_grow_with_tau():
    requests = experiments.plan(TAU, "quick", seed=4)
    assert {one.seed for one in requests} == {4, 5, 6}
    assert {one.task for one in requests} == set(grids.CALM)
    own = settings.small("EMNIST CR")["fedadam"]
    for tau, halves in ((1e-5, -1), (1e-4, -1), (1e-3, 0), (1e-2, 1), (1e-1, 3)):
        tried = pairs(
            one
            for one in requests
            if (one.task, one.algorithm, one.seed) == ("emnist_cr", "fedadam", 4)
            and one.overrides["tau"] == tau
        )
        middle = own["client_lr"], own["server_lr"] * 10 ** (halves / 2)
        assert len(tried) == 9 and tried[4] == pytest.approx(middle)


def test_points_thin_the_axes_and_keep_their_ends():
    full, thin = (grids.axis("cifar10", "client_lr", points) for points in (None, 4))
    assert len(full) == 8 and (thin[0], thin[-1]) == (full[0], full[-1])
    assert len(thin) == 4 and set(thin) <= set(full) and thin == sorted(thin)
    assert grids.axis("cifar10", "client_lr", 99) == full
    assert grids.middle([1, 2, 3, 4], 3) == [2, 3, 4]
    assert grids.middle([1, 2, 3], None) == grids.middle([1, 2, 3], 9) == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grids.axis("mnist", "tau"), "unknown task with a grid"),
        (lambda: grids.axis("cifar10", "tau", 1), "points is 1; allowed"),
        (lambda: grids.middle([1, 2], 0), "number of learning rates is 0; allowed"),
    ],
)
def test_bad_numbers_are_one_line_errors(call, message):
    with pytest.raises(fedlib.Error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


# --- Table 11, notebook 33


def test_decay_runs_table_11():
    split = parts(DECAYS)
    counts = {part: len(requests) for part, requests in split.items()}
    # 72 pairs of rates for two optimizers, times five taus for three; and Table 8's again.
    assert counts == {"constant": 5, "decay": 5 + 72 * (2 + 3 * 5), "centralized": 30}
    assert {one.task for requests in split.values() for one in requests} == {"emnist_cr"}
    assert not any(one.overrides for one in split["constant"])
    assert {one.overrides["client_schedule"] for one in split["decay"]} == {DECAY}
    assert {one.place.column for one in split["decay"]} == {"ExpDecay"}
    bases = {"adagrad", "adam", "yogi", "momentum", "sgd"}
    assert {one.overrides["base"] for one in split["centralized"]} == bases
    epochs = STATED["lr_decay"]["centralized_epochs"]
    assert {one.rounds for one in split["centralized"]} == {epochs}
    small = parts(DECAYS, "quick", rates=2, seeds=1)
    counts = {part: len(requests) for part, requests in small.items()}
    assert counts == {"constant": 5 * 9, "decay": 5 * 9, "centralized": 10}
    for one, falling in zip(small["constant"], small["decay"], strict=True):
        assert falling.overrides == {**one.overrides, "client_schedule": DECAY}


def test_the_scaled_schedule_is_exp_decay_at_the_papers_rounds():
    scaled, printed = SCHEDULES[DECAY], SCHEDULES["exp_decay"]
    stated = STATED["lr_decay"]
    assert [scaled(t, 1500) for t in range(1500)] == [printed(t, 1500) for t in range(1500)]
    assert printed(500, 1500) == pytest.approx(stated["factor"]) and stated["every_rounds"] == 500
    assert [scaled(t, 9) for t in range(9)] == pytest.approx([1] * 3 + [0.1] * 3 + [0.01] * 3)


def test_runs_of_table_11_find_their_cells():
    plain, values = fedlib.load_task("quadratic"), settings.fedopt("EMNIST CR")
    task = dataclasses.replace(plain, name="emnist_cr", hyperparameters=values, batch_size=20)

    def places(algorithm, **overrides):
        config = configure(task, algorithm, rounds=1, overrides=overrides).config
        meta = {"hyperparameters": values.get(algorithm, {})}
        run = History(pd.DataFrame(), pd.DataFrame(), {}, config, meta)
        return [
            (cell.row, cell.column)
            for table in TABLES_11
            for cell in table.cells
            if cell.algorithm == algorithm and belongs(cell, run)
        ]

    assert places("centralized", base="momentum", client_lr=0.3) == [("SGDM", "centralized")]
    assert places("centralized", base="yogi", client_lr=0.01) == [("Yogi", "centralized")]
    assert places("fedadam") == [("FedAdam", "constant")]
    # ExpDecay's rates are tuned and not printed: any belong.
    rates = {"client_lr": 0.5, "server_lr": 0.125, "tau": 0.1}
    assert places("fedadam", client_schedule=DECAY, **rates) == [("FedAdam", "ExpDecay")]
    assert places("fedavg", client_schedule=DECAY) == [("FedAvg", "ExpDecay")]
    assert places("fedadam", client_lr=0.5) == []  # a constant rate that is not Table 8's
