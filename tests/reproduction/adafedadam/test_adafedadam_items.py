"""AdaFedAdam's Table 5 as cells, and kept runs by their requests."""

import pytest

import fedlib
from fedlib import papers
from fedlib.reproduction import experiments
from fedlib.reproduction import tables as items
from fedlib.reproduction.answers import answer, kept
from fedlib.reproduction.request import Request
from fedlib.results import Store


def test_table_5_has_all_72_cells():
    table = items.find("adafedadam", "Table 5")
    assert [item.label for item in table] == ["Femnist", "Cifar10", "Sent140", "Synthetic"]
    assert sum(len(item.cells) for item in table) == 72
    for item in table:
        printed = papers.printed(
            *("adafedadam", "table5_convergence_fairness"),
            **{"setup": item.label, "algorithm": "AdaFedAdam", "metric": "worst30"},
        )
        (cell,) = (c for c in item.cells if (c.algorithm, c.metric) == ("adafedadam", "worst30"))
        assert cell.printed == printed and cell.spread > 0
        assert item.notebook in experiments.PLANS
        tuned = {cell.algorithm for cell in item.cells if cell.tuned}
        assert tuned == {"fedprox"}
    unclear = [(i.label, c.row, c.metric) for i in table for c in i.cells if c.unclear]
    assert unclear == [
        ("Femnist", "FedAvg", "avg"),
        ("Femnist", "FedAvg", "std"),
        ("Femnist", "FedAdam", "std"),
        ("Femnist", "FedNova", "std"),
    ]


@pytest.mark.parametrize("item", items.find("adafedadam", "Table 5"), ids=lambda one: one.task)
def test_an_items_settings_are_the_tasks_paper_preset(item):
    """Where the data is the paper's; stand-ins are smaller."""
    task = fedlib.load_task(item.task, preset="paper")
    assert (task.rounds, task.clients_per_round) == (item.rounds, item.clients_per_round)
    assert task.batch_size == item.batch_size
    size = {"clients", "examples"} if task.stand_in else set()
    for name, value in item.options.items():
        assert name in task.options
        if name not in size:
            assert task.options[name] == value
    for cell in item.cells:
        assert cell.algorithm in task.hyperparameters
        assert all(task.options[name] == value for name, value in cell.options.items())


def test_kept_runs_are_all_or_none(tmp_path, monkeypatch):
    store = Store(tmp_path / "runs", published=[tmp_path / "results"])
    requests = [
        Request("synthetic", name, "x", options={"clients": 4}, rounds=1)
        for name in ("fedavg", "fednova")
    ]
    assert kept(store, requests, "quick") == []
    answer(store, requests[:1], "quick", progress=False)
    assert kept(store, requests, "quick") == []
    made = answer(store, requests, "quick", progress=False)

    def refuse(*_, **__):
        raise AssertionError("trained")

    monkeypatch.setattr("fedlib.engine.execute", refuse)
    (tmp_path / "runs").rename(tmp_path / "results")
    found = kept(store, requests[::-1], "quick")
    assert [h.config.digest for h in found] == [h.config.digest for h in made[::-1]]
