"""The plans of FedOpt's text tasks, and Table 10's second training."""

import pytest
import torch

import fedlib
from fedlib import papers
from fedlib.reproduction import experiments
from fedlib.reproduction.answers import configured
from fedlib.reproduction.experiments import fedopt_text

NOTEBOOKS = {
    "14_shakespeare": ("shakespeare", "Shakespeare"),
    "15_stackoverflow_nwp": ("stackoverflow_nwp", "StackOverflow NWP"),
    "16_stackoverflow_lr": ("stackoverflow_lr", "StackOverflow LR"),
}
FIVE = {"fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi"}


def part(requests, name):
    return [request for request in requests if request.part == name]


@pytest.fixture(scope="module", params=NOTEBOOKS)
def paper(request):
    """A notebook's plan at the paper's settings, its task and the paper's label."""
    task, label = NOTEBOOKS[request.param]
    return experiments.plan(request.param, "paper"), task, label


def test_paper_plans_change_nothing_of_the_tasks(paper):
    requests, task, _ = paper
    assert {request.task for request in requests} == {task}
    assert {request.algorithm for request in part(requests, "curves")} == FIVE
    for request in part(requests, "curves"):
        assert (request.rounds, request.clients_per_round, request.eval_every) == (None, None, 1)
        assert not request.options and not request.overrides


def test_paper_plans_have_the_printed_settings(paper):
    requests, name, label = paper
    task = fedlib.load_task(name, preset="paper", **({} if name == "shakespeare" else {"cap": 5}))
    rates = papers.table("fedopt", "table8_learning_rates").query(f"task == '{label}'")
    taus = papers.table("fedopt", "table9_tau").query(f"task == '{label}'")
    taus = {row.algorithm.lower(): 10.0**row.log10_tau for row in taus.itertuples()}
    for row in rates.itertuples():
        [request] = [
            one for one in part(requests, "curves") if one.algorithm == row.algorithm.lower()
        ]
        config, _ = configured(task, request)
        assert config.rounds == 1500
        assert config.clients_per_round == (50 if label == "StackOverflow NWP" else 10)
        assert (config.batch_size, config.local_epochs) == (
            papers.table("fedopt", "table7_batch_sizes").set_index("task")["batch_size"][label],
            1,
        )
        method = config.method
        assert method["client"]["lr"] == pytest.approx(10**row.log10_client_lr)
        assert method["server"]["lr"] == pytest.approx(10**row.log10_server_lr)
        if row.algorithm.lower() in taus:
            assert method["server"]["tau"] == pytest.approx(taus[row.algorithm.lower()])


def test_scaffold_is_tuned_over_the_whole_printed_grid(paper):
    requests, _, label = paper
    cells = {
        (request.overrides["client_lr"], request.overrides["server_lr"])
        for request in part(requests, "scaffold")
    }
    first, last = papers.settings("fedopt")["grid_log10"][label]["client"]
    clients = sorted({client for client, _ in cells})
    assert clients[0] == pytest.approx(10**first) and clients[-1] == pytest.approx(10**last)
    assert len(cells) == len(part(requests, "scaffold")) == 72


def test_scaffold_at_fedavgs_rates_or_left_out():
    for notebook, (name, label) in NOTEBOOKS.items():
        table = papers.table("fedopt", "table8_learning_rates")
        row = table.query(f"task == '{label}' and algorithm == 'FedAvg'").iloc[0]
        [one] = part(experiments.plan(notebook, "paper", scaffold_grid=0), "scaffold")
        assert one.overrides["client_lr"] == pytest.approx(10 ** row["log10_client_lr"])
        assert one.overrides["server_lr"] == pytest.approx(10 ** row["log10_server_lr"])
        if name != "shakespeare":
            every = experiments.plan(notebook, "paper")
            without = experiments.plan(notebook, "paper", scaffold_grid=-1)
            assert without == [request for request in every if request.part != "scaffold"]


@pytest.mark.parametrize("notebook", ["15_stackoverflow_nwp", "16_stackoverflow_lr"])
@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_table_10_repeats_the_curves_on_all_posts(notebook, preset):
    requests = experiments.plan(notebook, preset, seed=3)
    curves, tested = part(requests, "curves"), part(requests, "full_test")
    assert len(curves) == len(tested) == 5
    for one, other in zip(curves, tested, strict=True):
        assert (one.algorithm, one.rounds, one.seed) == (other.algorithm, other.rounds, 3)
        assert one.overrides == other.overrides
        assert one.clients_per_round == other.clients_per_round
        assert {**one.options, "validation": 0} == other.options
        assert other.eval_every == 0


def test_the_test_posts_do_not_change_what_is_trained():
    small = dict(clients=6, words=50, cap=10)
    [request] = fedopt_text.full_test(
        [experiments.Request("stackoverflow_lr", "fedadam", "curves", options=small, rounds=2)]
    )
    assert request.options == {**small, "validation": 0}
    sample = fedlib.load_task("stackoverflow_lr", **small, validation=20)
    every = fedlib.load_task("stackoverflow_lr", **request.options)
    assert sample.test.sizes.sum() == 20 < every.test.sizes.sum()
    one, other = (fedlib.run(task, "fedadam", rounds=2) for task in (sample, every))
    for key, value in one.params.items():
        torch.testing.assert_close(other.params[key], value, rtol=0, atol=0)
    assert one.final("recall_at_5") != other.final("recall_at_5")
