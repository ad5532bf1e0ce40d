"""Figures and tables of Adaptive Federated Optimization that come from grids."""

from __future__ import annotations

from fedlib.reproduction.entry import Entry
from fedlib.reproduction.fedopt import heat_maps, tuning
from fedlib.reproduction.fedopt.grids import OPTIMIZERS, TASKS
from fedlib.reproduction.printed import printed_entry

_GRIDS, _TAU, _RATES, _DECAY = (
    *("30_learning_rate_grids", "31_tau", "32_client_server_lr"),
    "33_lr_decay_and_centralized",
)
_METRIC = {"emnist_ae": "MSE", "stackoverflow_lr": "recall at 5"}
_MAPS = (
    "Test {metric} over client and server learning rates on {label} (FedOpt, Figure {number}), "
    "and below the test loss; tau = 1e-3. Hatched: diverged."
)


def _map(number: int, task: str) -> Entry:
    caption = _MAPS.format(metric=_METRIC.get(task, "accuracy"), label=TASKS[task], number=number)
    return Entry(f"fedopt/figure_{number}", caption, {task: _GRIDS}, heat_maps.grids(*OPTIMIZERS))


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "fedopt/figure_2",
        _MAPS.format(metric="accuracy", label=TASKS["stackoverflow_nwp"], number=2),
        {"stackoverflow_nwp": _GRIDS},
        heat_maps.grids("fedadam", "fedyogi", "fedavgm"),
    ),
    Entry(
        "fedopt/figure_3",
        "Test performance for varying tau (FedOpt, Figure 3); for every tau the learning rates "
        "with the smallest training loss. Quick runs are compared by their test loss.",
        dict.fromkeys(TASKS, _TAU),
        tuning.against_tau("train_loss"),
    ),
    *(_map(number, task) for number, task in enumerate(TASKS, 5)),
    Entry(
        "fedopt/figure_12",
        "The best server learning rate for each client learning rate, tau = 1e-3 (FedOpt, Figure "
        "12); client rates at which no server rate lowers the test loss by 10 % are left out. "
        "Quick runs are compared by their test loss. Lines are shifted a little apart.",
        dict.fromkeys(TASKS, _RATES),
        tuning.server_against_client,
    ),
    Entry(
        "fedopt/figure_13",
        "Test performance for varying tau, all tasks (FedOpt, Figure 13); for every tau the "
        "learning rates that are best afterwards, on test data. Quick runs are compared by their "
        "test loss.",
        dict.fromkeys(TASKS, _TAU),
        tuning.against_tau("test"),
    ),
    Entry(
        "fedopt/table_8",
        "The best learning rates, log10 (FedOpt, Table 8): printed, and with the smallest training "
        "loss in our grids, whose tau is 1e-3.",
        dict.fromkeys(TASKS, _GRIDS),
        tuning.best_learning_rates,
    ),
    Entry(
        "fedopt/table_9",
        "The best tau, log10 (FedOpt, Table 9): printed, and with the smallest training loss in "
        "our grids; beside it the learning rates of the same run.",
        dict.fromkeys(TASKS, _TAU),
        tuning.best_tau,
    ),
    Entry(
        "fedopt/table_11",
        "EMNIST CR, test accuracy in percent: centralised optimizers, and federated ones with a "
        "constant or a falling client learning rate (FedOpt, Table 11).",
        {"emnist_cr": _DECAY},
        printed_entry("fedopt", "Table 11", "").draw,
    ),
)
