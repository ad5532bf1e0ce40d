"""AdaFedAdam's Tables 1, 2, 3, 6 and 7."""

from __future__ import annotations

from fedlib.figures.catalogue.base import Entry
from fedlib.figures.side_by_side import side_by_side

_METRICS = {"avg": "average", "std": "spread", "worst30": "worst 30 %"}
_COLUMNS = (
    "Average, spread and worst 30 % of the clients' test accuracies in percent: printed, ours "
    "weighted by examples, ours with clients alike"
)


def _entry(number: int, task: str, notebook: str, what: str, setting: str = "setting") -> Entry:
    return Entry(
        f"adafedadam/table_{number}",
        f"{what} {_COLUMNS} (AdaFedAdam, Table {number}).",
        {task: notebook},
        side_by_side("adafedadam", f"Table {number}", _METRICS, setting=setting),
        clients=True,
    )


_CIFAR10 = "fair_cifar10"
_LEVELS = (_CIFAR10, "36_noniid_levels")
_SOLVERS = ("synthetic", "37_local_solvers")

ENTRIES: tuple[Entry, ...] = (
    _entry(
        *(1, _CIFAR10, "35_resource_heterogeneity"),
        "Cifar10 with U(1, 3) local epochs, drawn for each client and round.",
    ),
    _entry(2, *_LEVELS, "AdaFedAdam on Cifar10 under Dirichlet partitions.", "partition"),
    _entry(3, *_SOLVERS, "AdaFedAdam on Synthetic with three local solvers.", "local solver"),
    _entry(6, *_LEVELS, "Five algorithms on Cifar10 under Dirichlet partitions.", "partition"),
    _entry(7, *_SOLVERS, "Six algorithms on Synthetic with three local solvers.", "local solver"),
)
