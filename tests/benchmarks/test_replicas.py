"""The benchmark of replicas measures what it says; how long that takes is not tested."""

from __future__ import annotations

from benchmarks.replicas import measure


def test_it_measures_the_tasks_whose_seeds_are_joined() -> None:
    table = measure(["mnist", "cifar100"], seeds=2, repeats=1)
    assert list(table["task"]) == ["mnist"]  # of cifar100 two cohorts fill more than a core
    row = table.iloc[0]
    assert row["parameters"] == 500 and 0 < row["joined"] and 0 < row["apart"]
    assert row["apart / joined"] == row["apart"] / row["joined"]
