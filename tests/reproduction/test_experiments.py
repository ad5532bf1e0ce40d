"""Plans: pure data that asks for what the notebooks need, and nothing that fedlib refuses."""

import subprocess
import sys

import pytest

import fedlib
from fedlib import tasks
from fedlib.algorithms import hyperparameters
from fedlib.engine.config import TRAINING_KEYS
from fedlib.reproduction import experiments
from fedlib.reproduction.request import Experiment, Request, given, grid, repeated, tuned
from fedlib.tasks import TASKS

EVERY = [(name, preset) for name in experiments.planned() for preset in tasks.PRESETS]


@pytest.fixture
def own_plan(monkeypatch):
    """The plan of a notebook of the tests' own."""

    def own(preset, seed, numbers):
        common = dict(options=given(numbers, "width"), rounds=numbers.get("rounds"), seed=seed)
        return [
            *tuned("cifar10", ("fedavg", "fedadam"), "curves", **common),
            *grid("cifar10", "fedprox", "mu", {"mu": [0.1, 1.0]}, **common),
        ]

    experiment = Experiment("10_own", {"rounds": 3, "width": 0.25}, own)
    monkeypatch.setitem(experiments.EXPERIMENTS, "10_own", experiment)


def test_requests_of_a_task_with_the_same_options_share_it():
    one = Request("cifar10", "fedavg", "a", options={"width": 0.5, "alpha": 1.0})
    other = Request("cifar10", "fedadam", "b", options={"alpha": 1.0, "width": 0.5})
    assert one.task_key("quick") == other.task_key("quick") != one.task_key("paper")
    assert Request("cifar10", "fedavg", "a", seed=1).task_options("quick")["seed"] == 1
    fixed = Request("cifar10", "fedavg", "a", seed=1, options={"seed": 0, "preset": "paper"})
    assert fixed.task_options("quick") == {"preset": "paper", "seed": 0}


def test_a_request_is_what_the_store_takes():
    request = Request("synthetic", "fedavg", "a", {"client_lr": 0.1}, seed=4, clients_per_round=7)
    assert request.settings(100) == {
        "algorithm": "fedavg",
        "rounds": 100,
        "seed": 4,
        "eval_every": 1,
        "clients_per_round": 7,
        "overrides": {"client_lr": 0.1},
    }
    last = Request("synthetic", "fedavg", "a", rounds=30, eval_every=0)
    assert last.settings(100)["eval_every"] == 30 and last.settings(100)["rounds"] == 30
    none = Request("synthetic", "fedavg", "a", rounds=0, eval_every=0)
    assert none.settings(9)["eval_every"] == 1
    assert request.keeps and not last.keeps


def test_builders():
    common = dict(options={"clients": 5}, rounds=2, seed=3)
    runs = tuned("synthetic", ("fedavg", "fedadam"), "curves", **common)
    assert [run.algorithm for run in runs] == ["fedavg", "fedadam"]
    assert all((run.seed, run.rounds, dict(run.options)) == (3, 2, {"clients": 5}) for run in runs)
    axes = {"client_lr": [0.1, 1.0], "server_lr": [1.0, 0.1, 0.01]}
    cells = grid("synthetic", "fedadam", "grid", axes, overrides={"tau": 0.1}, **common)
    assert [dict(cell.overrides) for cell in cells[:2]] == [
        {"tau": 0.1, "client_lr": 0.1, "server_lr": 1.0},
        {"tau": 0.1, "client_lr": 0.1, "server_lr": 0.1},
    ]
    assert len(cells) == 6
    with pytest.raises(fedlib.Error, match="axis tau has no values"):
        grid("synthetic", "fedadam", "grid", {"tau": []})
    assert repeated(runs, None) == runs
    pairs = [(run.seed, run.algorithm) for run in repeated(runs, 2)]
    assert pairs == [(3, "fedavg"), (3, "fedadam"), (4, "fedavg"), (4, "fedadam")]
    assert [run.seed for run in repeated(runs[:1], [7, 9])] == [7, 9]


def test_small_numbers_are_taken_under_quick_only(own_plan):
    def first(**settings):
        return experiments.plan("10_own", **settings)[0]

    assert (first().rounds, dict(first().options)) == (3, {"width": 0.25})
    assert (first(rounds=5).rounds, first(rounds=None).rounds) == (5, 3)
    paper = first(preset="paper")
    assert paper.rounds is None and not paper.options
    assert first(preset="paper", rounds=7).rounds == 7
    assert experiments.filled("10_own", "quick", {"rounds": 0, "device": None}) == {
        **{"rounds": 0, "device": None, "width": 0.25}
    }
    assert experiments.filled("no_such", "quick", {"rounds": None}) == {"rounds": None}


def test_parts(own_plan):
    requests = experiments.plan("10_own", preset="paper")
    assert {one.part for one in experiments.select(requests, "mu")} == {"mu"}
    assert experiments.select(requests) == requests and len(requests) == 4
    assert experiments.select(requests, "mu", "curves") == requests
    with pytest.raises(fedlib.Error, match=r"unknown part .* 'curve': did you mean 'curves'"):
        experiments.select(requests, "curve")
    with pytest.raises(fedlib.Error, match="did you mean '10_cifar10'"):
        experiments.plan("10_cifar")


@pytest.mark.parametrize(("name", "preset"), EVERY)
def test_every_plan_asks_for_known_things_once(name, preset):
    requests = experiments.plan(name, preset, seed=5)
    assert requests
    seen = set()
    for one in requests:
        assert one.task in TASKS and one.part and one.seed >= 5
        optimizer = one.overrides.get("client_optimizer", "sgd")
        known = {*hyperparameters(one.algorithm, optimizer), *TRAINING_KEYS, "client_optimizer"}
        assert set(one.overrides) <= known, one
        key = (one.part, one.task_key(preset), repr(one.settings(-1)))
        assert key not in seen, f"asked twice: {one}"
        seen.add(key)
    assert experiments.plan(name, preset, seed=5) == requests


def test_plans_train_nothing_and_need_no_data():
    code = (
        "import sys, fedlib.reproduction.experiments as e\n"
        "[e.plan(n, p) for n in e.planned() for p in ('quick', 'paper')]\n"
        "assert 'fedlib.figures' not in sys.modules and 'matplotlib' not in sys.modules\n"
        "assert 'fedlib.tasks.cifar' not in sys.modules, 'a plan loads a task'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# As few data as these tasks can have; what a laptop cuts, networks and words, stays.
FEW = {
    **{"clients": 5, "examples": 200, "sizes": 20, "rows": 2, "cap": 10, "validation": 50},
    **{"examples_per_client": 20, "test_clients": 3, "test_examples": 60},
}


@pytest.mark.parametrize("notebook", experiments.planned())
def test_a_laptop_trains_two_rounds_of_every_task_of_a_notebook(notebook, prepared):
    prepared()
    firsts = {}
    for request in experiments.plan(notebook, "laptop"):
        firsts.setdefault(request.task, request)
    for name, request in firsts.items():
        known, _ = tasks.defaults(name, tasks.scale(name, "laptop"))
        few = {key: value for key, value in FEW.items() if key in known}
        options = {**request.task_options("laptop"), **few}
        task = fedlib.load_task(name, **options)
        assert task.preset == tasks.scale(name, "laptop")
        settings = request.settings(2) | {"rounds": 2, "eval_every": 2, "clients_per_round": 2}
        history = fedlib.run(task, settings.pop("algorithm"), **settings)
        assert len(history.series("loss", "train")) == 2 or history.diverged


def test_a_laptop_cuts_what_two_cores_cannot_train_and_nothing_else():
    names = dict.fromkeys(r.task for n in experiments.planned() for r in experiments.plan(n))
    cut = {name for name in names if tasks.scale(name, "laptop") == "laptop"}
    resnets = {"cifar10", "cifar100", "cifar10_resnet18", "cifar100_resnet50", "fair_cifar10"}
    assert cut == resnets | {
        "fashion_mnist",
        "ag_news",
        "dbpedia",
        "stackoverflow_lr",
        "stackoverflow_nwp",
    }
    assert tasks.scale("cifar100_resnet18", "laptop") == "laptop"
    assert tasks.scale("cifar10", "quick") == "quick" and tasks.scale("mnist", "paper") == "paper"
    assert fedlib.load_task("synthetic", "laptop", clients=5).preset == "paper"
    # So runs of the paper's own settings are shared by both presets.
    laptop, paper = (experiments.plan("23_fair_synthetic", p)[0] for p in ("laptop", "paper"))
    assert laptop.task_options("laptop") | {"preset": "paper"} == paper.task_options("paper")
