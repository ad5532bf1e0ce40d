"""Plans: which runs the notebooks ask for, how they are listed, and that each is trained once."""

import hashlib
import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import fedlib
from fedlib import plans, tasks
from fedlib.plans import Request, grid, neighbours, printed, repeated, thinned
from fedlib.reproduction import answers, listing
from fedlib.tasks import load_task
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[1]
# By notebook and preset: how many runs its plan asks for, and the SHA-256 of their ordered text.
KNOWN = tomllib.loads(Path(__file__).with_name("plans.toml").read_text(encoding="utf-8"))
KNOWN_ONES = [(name, preset) for name in KNOWN for preset in tasks.PRESETS]


def fingerprint(requests):
    """How many, and a hash of everything that decides the runs and what trains together."""
    usual = {"eval_last": 1}  # younger than the hashes
    listed = [
        {k: v for k, v in asdict(one).items() if usual.get(k) != v or k not in usual}
        for one in requests
    ]
    text = json.dumps(listed, sort_keys=True)
    return [len(requests), hashlib.sha256(text.encode()).hexdigest()]


def test_plans_are_known_from_when_their_runs_are_published():
    published = [path.stem for path in (ROOT / "data" / "results").glob("*.parquet")]
    new = [
        f"{name}: {preset} = {json.dumps(fingerprint(plans.requests(name, preset)))}"
        for name in plans.planned()
        if name not in KNOWN and any(stem.startswith(name) for stem in published)
        for preset in tasks.PRESETS
    ]
    assert not new, "\n".join(new)
    assert set(KNOWN) <= set(plans.planned())


@pytest.mark.parametrize(("name", "preset"), KNOWN_ONES)
def test_a_notebooks_plan_is_the_known_one(name, preset):
    """Runs are found by what they are: a plan that departs asks for others than the published.

    Where that is meant, the message has what tests/plans.toml must say.
    """
    now = fingerprint(plans.requests(name, preset))
    assert now == KNOWN[name].get(preset), f"{name} departs: {preset} = {json.dumps(now)}"


def test_a_request_is_what_the_store_takes():
    request = Request("synthetic", "fedavg", "a", {"client_lr": 0.1}, seed=4, clients_per_round=7)
    common = {"rounds": 100, "seed": 4, "eval_every": 1, "eval_last": 1, "clients_per_round": 7}
    own = {"algorithm": "fedavg", "overrides": {"client_lr": 0.1}}
    assert request.settings(100) == common | own
    last = Request("synthetic", "fedavg", rounds=30, eval_every=0, eval_last=20)  # the plan's
    ends = {"rounds": 30, "eval_every": 30, "eval_last": 1}
    assert last.settings(100).items() >= ends.items()
    assert Request("synthetic", "fedavg", rounds=0, eval_every=0).settings(9)["eval_every"] == 1
    assert request.keeps and not last.keeps
    assert not replace(request, keep_params=False).keeps and replace(last, keep_params=True).keeps
    other = replace(request, options={"seed": 9, "preset": "laptop"})  # of the partition alone
    assert other.task_options("quick") == {"preset": "laptop", "seed": 9}


def test_a_notebook_that_is_named_twice_is_meant_once():
    known = ["02_theory", "10_topic"]
    assert plans.named(["10", "10_topic.ipynb", "02"], known) == ["10_topic", "02_theory"]


def test_grids_vary_the_last_rate_fastest_and_repetitions_go_seed_by_seed():
    n = SimpleNamespace(rounds=2, eval_every=None, eval_last=5, clients_per_round=7, seed=3)
    rates = {"client_lr": [0.1, 1.0], "server_lr": [1.0, 0.1]}
    runs = grid("synthetic", "fedadam", rates, n, fixed={"tau": 0.1}, options={"clients": None})
    cells = [(0.1, 0.1, 1.0), (0.1, 0.1, 0.1), (0.1, 1.0, 1.0), (0.1, 1.0, 0.1)]
    assert [tuple(run.overrides.values()) for run in runs] == cells
    common = (runs[0].rounds, runs[0].eval_every, runs[0].eval_last, runs[0].clients_per_round)
    assert common == (2, 1, 5, 7) and runs[0].options == {}
    (alone,) = grid("synthetic", "centralized", {}, n, rounds=9, clients_per_round=None)
    assert (alone.rounds, alone.clients_per_round, alone.overrides) == (9, None, {})
    refused("axis tau has no values", grid, "synthetic", "fedadam", {"tau": []}, n)
    assert [run.seed for run in repeated(runs[:2], 2)] == [3, 3, 4, 4]
    together = repeated({"a": runs[:1], "b": runs[1:2]}, 2)
    seeds = [{part: one.seed for part, (one,) in parts.items()} for parts in together]
    assert seeds == [{"a": 3, "b": 3}, {"a": 4, "b": 4}]
    assert repeated(runs, None) == runs
    refused("seeds is 0 .allowed: a whole number >= 1", repeated, runs, 0)


def test_rates_are_half_decades_on_both_sides_printed_ones_and_some_of_them():
    near = neighbours({"client_lr": 10**-1.5, "server_lr": [0.1, 1.0]}, 1)
    assert near["client_lr"] == [0.01, 10**-1.5, 0.1]
    assert near["server_lr"] == [10**-1.5, 0.1, 10**-0.5, 1.0, 10**0.5]
    assert neighbours({"client_lr": [0.1]}, 0) == {"client_lr": [0.1]}
    # FedOpt, Table 8, row FedAdam, column CIFAR-10; and the ends of the grid in appendix D.2.
    row = printed("fedopt", "table8_learning_rates", task="CIFAR-10", algorithm="fedadam")
    assert row == {"client_lr": [10**-1.5], "server_lr": [0.01]}
    tau = printed("fedopt", "grids", "tau", task="EMNIST AE")
    assert tau == {"tau": [1e-5, 1e-4, 1e-3, 1e-2, 1e-1]}
    assert thinned(tau, 3) == {"tau": [1e-5, 1e-3, 1e-1]} and thinned(tau, None) == tau


PLAN = """
from fedlib.plans import grid

quick = dict(rounds=3, width=0.25)
paper = dict(rounds=100)


def plan(n):
    runs = grid("cifar10", "fedavg", {}, n, options={"width": n.width})
    return {"curves": runs, "mu": grid("cifar10", "fedprox", {"mu": [0.1, 1.0]}, n)}
"""


def test_a_plan_cell_gets_the_presets_numbers_and_what_was_changed(write_notebook):
    write_notebook("10_own", PLAN)
    write_notebook("11_none", None)
    assert plans.planned() == ["10_own"]

    def first(*preset, **given):
        one = plans.requests("10_own", *preset, **given)[0]
        return one.rounds, dict(one.options), one.seed

    assert first() == first("quick") == first("quick", rounds=None) == (3, {"width": 0.25}, 0)
    assert first("paper", 2, rounds=7) == (7, {}, 2)
    assert first("laptop") == (None, {}, 0)  # of which the cell says nothing
    every = plans.requests("10_own")
    assert [one.part for one in every] == ["curves", "mu", "mu"]
    assert plans.select(every) == every and plans.select(every, "mu") == every[1:]
    refused(r"unknown part .* 'curve': did you mean 'curves'", plans.select, every, "curve")
    for name in ("11_none", "10_ow"):
        refused(r"unknown notebook with a plan.* known: 10_own", plans.requests, name)


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("def plan(n):\n    return {}[0]", "line 2: KeyError: 0"),
        ("def plan(n:\n    pass", "SyntaxError: '\\(' was never closed"),
        ("def plan(n):\n    pass", r"plan\(n\) returns nothing, not a dict of parts"),
        ("def plan(n):\n    return {'a': ['fedavg']}", "part 'a' has str 'fedavg', not requests"),
        (
            "import fedlib\n\n\ndef plan(n):\n    fedlib.load_task('quadratic')",
            "line 5: it loads a task, but a plan only lists runs",
        ),
    ],
)
def test_a_bad_plan_is_one_line_with_its_notebook(write_notebook, cell, message):
    write_notebook("10_own", cell)
    refused(f"^10_own, plan cell[,:] (?s:.*){message}", plans.requests, "10_own")


def test_a_plan_trains_nothing(write_notebook, quadratic):

    def plan(n):
        return {"a": fedlib.run(quadratic, "fedavg", rounds=1)}

    refused(
        "10_own, plan cell: it trains, but a plan only lists", plans.asked, plan, None, "10_own"
    )
    assert fedlib.run(quadratic, "fedavg", rounds=1)  # afterwards as before


def test_a_part_leaves_out_notebooks_without_it_and_a_parameter_may_be_of_any_notebook():
    both = ["10_cifar10", "39_delta_sgd_ablation"]
    assert list(plans.by_notebook(both, "quick", 0, {}, ["moon"])) == both[1:]
    folder = plans.notebooks()
    assert "figure_ids" not in plans.parameters(folder["10_cifar10"])
    plans.check_parameters([folder["10_cifar10"], folder["90_figures"]], ["figure_ids"])


RATES = {"client_lr": [0.01, 0.1, 1.0, 10.0], "server_lr": [0.1, 1.0]}
N = SimpleNamespace(seed=0)


def rates(request):
    return {"client_lr": {"fedavg": 0.5}.get(request.algorithm, 0.25)}


def test_a_grid_is_one_row_and_so_are_methods_that_try_the_same():
    runs = grid("synthetic", "fedavg", RATES, N) + grid("synthetic", "fedavgm", RATES, N)
    runs += grid("synthetic", "fedadam", RATES, N, fixed={"tau": 0.1})
    table = listing.run_table(repeated(runs, 3), "quick", rates)
    assert table["algorithm"].tolist() == ["fedavg, fedavgm", "fedadam"]
    assert table["settings"].tolist() == [
        "client_lr 0.01 … 10 (4); server_lr 0.1, 1",
        "tau 0.1; client_lr 0.01 … 10 (4); server_lr 0.1, 1",
    ]
    assert table["runs"].tolist() == [48, 24]
    assert set(table["seeds"]) == {"0, 1, 2"} and set(table["rounds"]) == {"120"}


@pytest.mark.parametrize("name", plans.planned())
def test_every_plan_is_listed_whole(name):
    requests = plans.requests(name)
    table = listing.run_table(requests, "quick", rates)
    assert table["runs"].sum() == len(requests)
    assert set(table["part"]) == {request.part for request in requests}
    tasks = listing.task_table(requests, "quick", ["clients"])
    assert tasks["task"].tolist() == list(dict.fromkeys(request.task for request in requests))
    assert (tasks != "").all(axis=None)


def test_answers_come_in_order_and_each_task_is_loaded_once(store, trained):
    """Two tasks in turns, two seeds, a grid, and a run that is asked for twice.

    The curves differ in their cohorts, so that they never train together.
    """
    common = dict(options={"clients": 4}, rounds=2)
    curves = [
        Request("synthetic", "fedavg", "curves", clients_per_round=2, **common),
        Request("synthetic", "fedadam", "curves", clients_per_round=3, **common),
    ]
    cells = [
        Request("synthetic", "fedavg", "grid", {"client_lr": rate}, eval_every=0, **common)
        for rate in (0.1, 0.2)
    ]
    quadratic = Request("quadratic", "fedavg", "other", {"local_steps": 1}, rounds=1)
    requests = [cells[0], quadratic, *repeated(curves, 2), cells[1], curves[0]]
    loaded = []

    def load(name, **options):
        loaded.append((name, options["seed"]))
        return load_task(name, **options)

    histories = answers.answer(store, requests, "quick", load)
    assert loaded == [("synthetic", 0), ("synthetic", 1), ("quadratic", 0)]
    for request, history in zip(requests, histories, strict=True):
        config = history.config
        assert (config.task["name"], config.algorithm) == (request.task, request.algorithm)
        assert config.rounds == request.rounds and config.seeds["init"] == request.seed
        assert config.task["seed"] == request.seed
    assert [h.config.method["client"]["lr"] for h in (histories[0], histories[-2])] == [0.1, 0.2]
    assert histories[2].config.digest == histories[-1].config.digest
    digests = [digest for program in trained for digest in program]
    assert len(digests) == len(set(digests)) == 7
    assert len(trained) == 6  # the grid's cells together
    trained.clear()
    again = answers.answer(store, requests, "quick")
    assert [h.config.digest for h in again] == [h.config.digest for h in histories]
    assert not trained


def test_a_refused_request_says_so_before_anything_trains(store, trained):
    bad = [Request("quadratic", "fedavg", "a"), Request("quadratic", "fedavg", "a", {"tau": 1.0})]
    refused("unknown override for fedavg 'tau'", answers.answer, store, bad, "quick")
    refused("unknown override for fedavg 'tau'", answers.survey, bad, "quick")
    assert not trained
