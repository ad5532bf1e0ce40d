"""Table 10: the last model on all test posts; Table 1: the mean over rounds on a sample of them."""

import dataclasses

import pandas as pd
import pytest

import fedlib
from fedlib import papers
from fedlib.figures import entry
from fedlib.reproduction import tables as items
from fedlib.reproduction.compare import cells
from fedlib.results import Store

SMALL = dict(clients=6, words=50, cap=10)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """FedAvg on a sample of the test posts, and on all of them, as stored runs."""
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    sample = fedlib.load_task("stackoverflow_lr", **SMALL, validation=20)
    every = fedlib.load_task("stackoverflow_lr", **SMALL, validation=0)
    return (
        store.run(sample, "fedavg", rounds=4),
        store.run(every, "fedavg", rounds=4),
    )


def ours(runs, table, algorithm="fedavg", task="stackoverflow_lr"):
    frame = cells(runs, items.find("fedopt", table, task))
    return frame.set_index("algorithm").loc[algorithm]


@pytest.mark.parametrize("task", ["stackoverflow_nwp", "stackoverflow_lr"])
def test_the_cells_are_the_printed_ones(task):
    [item] = items.find("fedopt", "Table 10", task)
    printed = papers.table("fedopt", "table10_stackoverflow_test").query(f"task == '{item.label}'")
    numbers = dict(zip(printed["algorithm"], printed["value"], strict=True))
    assert {cell.row: cell.printed for cell in item.cells} == numbers and len(numbers) == 5
    assert item.rounds == 1500
    assert item.clients_per_round == (50 if task == "stackoverflow_nwp" else 10)


def test_table_10_takes_the_last_model_on_all_posts(runs):
    sample, every = runs
    found = ours(runs, "Table 10")
    assert found["runs"] == (every.config.digest,)
    assert found["ours"] == pytest.approx(100 * every.series("recall_at_5").iloc[-1])
    assert found["printed"] == 40.6
    assert "clients 6 instead of 342477" in found["note"] and "validation" not in found["note"]
    # A run on a sample of the posts is not the table's.
    assert ours([sample], "Table 10")["seeds"] == 0


def test_the_last_model_counts_however_many_rounds_there_are(runs):
    _, every = runs
    curve = pd.DataFrame({"round": range(1401, 1501), "value": [0.2] * 99 + [0.9]})
    long = dataclasses.replace(
        every,
        frame=curve.assign(split="test", metric="recall_at_5"),
        config=dataclasses.replace(every.config, rounds=1500),
    )
    assert ours([long], "Table 10")["ours"] == pytest.approx(90)
    assert ours([long], "Table 1")["ours"] == pytest.approx(20.7)


def test_the_table_is_drawn_from_the_tasks_that_were_run(runs):
    chosen = entry("fedopt/table_10")
    assert set(chosen.notebooks) == {"stackoverflow_nwp", "stackoverflow_lr"}
    figure, data = chosen.draw(runs)
    assert figure is None and set(data["task"]) == {"stackoverflow_lr"}
    assert data.set_index("method")["ours"].notna().to_dict() == {
        **dict.fromkeys(("FedAdagrad", "FedAdam", "FedYogi", "FedAvgM"), False),
        "FedAvg": True,
    }
