"""The plans of FedOpt's grids against the printed grids and settings."""

import dataclasses
import math
from collections import Counter

import pytest

import fedlib
from fedlib import papers
from fedlib.optimizers.schedules import SCHEDULES
from fedlib.reproduction import experiments
from fedlib.reproduction.experiments import fedopt_grids
from fedlib.reproduction.fedopt.grids import ADAPTIVE, OPTIMIZERS, TASKS

GRIDS = "30_learning_rate_grids"
QUICK = {"rounds": 3, "clients_per_round": 2, "points": 4}


@pytest.fixture(scope="module")
def paper():
    return experiments.plan(GRIDS, "paper", seed=5)


def half_decades(first, last):
    return [10 ** (first + half / 2) for half in range(round(2 * (last - first)) + 1)]


@pytest.mark.parametrize("task", TASKS)
def test_the_heat_maps_cover_the_printed_grid(paper, task):
    # Ends as the settings state them; the plan reads the single values from another file.
    stated = papers.settings("fedopt")["grid_log10"][TASKS[task]]
    client, server = half_decades(*stated["client"]), half_decades(*stated["server"])
    for algorithm in OPTIMIZERS:
        mine = [one for one in paper if (one.task, one.algorithm) == (task, algorithm)]
        pairs = [(one.overrides["client_lr"], one.overrides["server_lr"]) for one in mine]
        assert len(pairs) == len(client) * len(server)
        wanted = [(c, s) for c in client for s in server]
        assert sorted(pairs) == [pytest.approx(pair) for pair in wanted]
        taus = {one.overrides.get("tau") for one in mine}
        assert taus == ({1e-3} if algorithm in ADAPTIVE else {None})


def test_the_paper_preset_has_the_papers_own_settings(paper):
    assert len(paper) == 2440
    for one in paper:
        assert one.seed == 5 and one.part == "grid"
        assert one.rounds is None and one.clients_per_round is None and not one.options
        # Evaluations inside the window of the last 100 rounds, and no thousands of parameters.
        assert 1 <= one.eval_every <= 50 and not one.keeps


@pytest.mark.parametrize("notebook", [GRIDS, "31_tau", "33_lr_decay_and_centralized"])
def test_the_printed_winners_are_in_the_grids(notebook):
    requests = experiments.plan(notebook, "paper")
    rates = papers.table("fedopt", "table8_learning_rates")
    taus = papers.table("fedopt", "table9_tau").set_index(["task", "algorithm"])["log10_tau"]
    cells = {
        (one.task, one.algorithm, *map(one.overrides.get, ("client_lr", "server_lr", "tau")))
        for one in requests
    }
    found = 0
    for task, label in TASKS.items():
        for row in rates[rates["task"] == label].itertuples():
            name, tau = row.algorithm.lower(), taus.get((label, row.algorithm))
            if (notebook == "31_tau") > (name in ADAPTIVE):
                continue
            if notebook.startswith("33") and task != "emnist_cr":
                continue
            tau = None if tau is None else 1e-3 if notebook == GRIDS else 10.0 ** int(tau)
            assert (task, name, 10**row.log10_client_lr, 10**row.log10_server_lr, tau) in cells
            found += 1
    assert found == {GRIDS: 35, "31_tau": 21, "33_lr_decay_and_centralized": 5}[notebook]


def test_tau_takes_the_whole_grid_of_rates_for_each_value(paper):
    requests = experiments.plan("31_tau", "paper")
    counts = Counter((one.task, one.algorithm, one.overrides["tau"]) for one in requests)
    assert len(counts) == 7 * 3 * 5
    per_map = Counter((one.task, one.algorithm) for one in paper)
    for (task, algorithm, tau), count in counts.items():
        assert count == per_map[task, algorithm] and -5.01 < math.log10(tau) < -0.99
        assert algorithm in ADAPTIVE


def test_notebooks_share_their_quick_runs():
    grids, tau, best = (
        experiments.plan(name, "quick", seed=1) for name in (GRIDS, "31_tau", "32_client_server_lr")
    )
    assert best == grids
    fixed = [dataclasses.replace(one, part="grid") for one in tau if one.overrides["tau"] == 1e-3]
    assert len(fixed) >= 7 * 3 and all(one in grids for one in fixed)


def test_points_thin_the_axes_and_keep_their_ends():
    full = fedopt_grids.axis("cifar10", "client_lr")
    thin = fedopt_grids.axis("cifar10", "client_lr", 4)
    assert len(full) == 8 and (thin[0], thin[-1]) == (full[0], full[-1])
    assert len(thin) == 4 and set(thin) <= set(full) and thin == sorted(thin)
    assert fedopt_grids.axis("cifar10", "client_lr", 99) == full
    requests = experiments.plan(GRIDS, "quick", **QUICK)
    assert len(requests) == 7 * 5 * 16
    for one in requests:
        assert (one.rounds, one.clients_per_round, one.eval_every) == (3, 2, 0)
        assert one.options == fedopt_grids.SMALL[one.task]


def test_the_middle_of_some_rates():
    assert fedopt_grids.middle([1, 2, 3, 4], 2) == [2, 3]
    assert fedopt_grids.middle([1, 2, 3, 4], 3) == [2, 3, 4]
    assert fedopt_grids.middle([1, 2, 3], None) == fedopt_grids.middle([1, 2, 3], 9) == [1, 2, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fedopt_grids.axis("mnist", "tau"), "unknown task with a grid"),
        (lambda: fedopt_grids.axis("cifar10", "tau", 1), "points is 1; allowed"),
        (lambda: fedopt_grids.middle([1, 2], 0), "number of learning rates is 0; allowed"),
    ],
)
def test_bad_numbers_are_one_line_errors(call, message):
    with pytest.raises(fedlib.Error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_decay_runs_table_11():
    requests = experiments.plan("33_lr_decay_and_centralized", "paper")
    parts = Counter(one.part for one in requests)
    # 72 pairs of rates for two optimizers, times five taus for three; and Table 8's again.
    assert parts == {"constant": 5, "decay": 5 + 72 * (2 + 3 * 5), "centralized": 30}
    assert {one.task for one in requests} == {"emnist_cr"}
    assert not any(one.overrides for one in requests if one.part == "constant")
    schedules = {one.overrides["client_schedule"] for one in requests if one.part == "decay"}
    assert schedules == {"exp_decay_thirds"}
    central = [one for one in requests if one.part == "centralized"]
    bases = {"adagrad", "adam", "yogi", "momentum", "sgd"}
    assert {one.overrides["base"] for one in central} == bases
    assert {one.rounds for one in central} == {
        papers.settings("fedopt")["lr_decay"]["centralized_epochs"]
    }
    small = experiments.plan("33_lr_decay_and_centralized", "quick", points=0, rates=2, width=0.5)
    assert Counter(one.part for one in small) == {"constant": 5, "decay": 5, "centralized": 10}
    assert {one.options["width"] for one in small} == {0.5}


def test_the_scaled_schedule_is_exp_decay_at_the_papers_rounds():
    scaled, own = SCHEDULES["exp_decay_thirds"], SCHEDULES["exp_decay"]
    stated = papers.settings("fedopt")["lr_decay"]
    assert [scaled(t, 1500) for t in range(1500)] == [own(t, 1500) for t in range(1500)]
    assert own(500, 1500) == pytest.approx(stated["factor"]) and stated["every_rounds"] == 500
    assert [scaled(t, 9) for t in range(9)] == pytest.approx([1] * 3 + [0.1] * 3 + [0.01] * 3)
