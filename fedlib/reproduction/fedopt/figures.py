"""Figures and tables of Adaptive Federated Optimization."""

from __future__ import annotations

from fedlib.reproduction.entry import Entry
from fedlib.reproduction.fedopt.batch_sizes import fedopt_table_7
from fedlib.reproduction.fedopt.convergence import ALONE, fedopt_figure_1, fedopt_figure_4
from fedlib.reproduction.printed import printed_entry
from fedlib.reproduction.theory import architectures, partitions

# Figures 1 and 4 and Table 1: a notebook per task.
_TASKS = {
    "cifar10": "10_cifar10",
    "cifar100": "11_cifar100",
    "emnist_cr": "12_emnist_cr",
    "emnist_ae": "13_emnist_ae",
    "shakespeare": "14_shakespeare",
    "stackoverflow_lr": "16_stackoverflow_lr",
    "stackoverflow_nwp": "15_stackoverflow_nwp",
}
_PARTITIONS = {"": "06_partitions"}
_MODELS = {"": "07_models"}

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "fedopt/figure_1",
        "Test accuracy, recall or error over rounds (FedOpt, Figure 1). "
        "Marks at the right edge: what Table 1 prints; it has no SCAFFOLD.",
        {task: notebook for task, notebook in _TASKS.items() if task != ALONE},
        fedopt_figure_1,
    ),
    Entry(
        "fedopt/table_1",
        "Average test performance over the last 100 rounds: accuracy and recall in percent, "
        "the autoencoder's squared error times 1000 (FedOpt, Table 1).",
        _TASKS,
        printed_entry("fedopt", "Table 1", "").draw,
    ),
    Entry(
        "fedopt/figure_4",
        "Test accuracy over rounds on EMNIST CR (FedOpt, Figure 4). "
        "Marks at the right edge: what Table 1 prints; it has no SCAFFOLD.",
        {ALONE: _TASKS[ALONE]},
        fedopt_figure_4,
    ),
    Entry(
        "fedopt/table_7",
        "Batch sizes of the clients (FedOpt, Table 7), and those of fedlib's tasks.",
        {"": "13_emnist_ae"},
        make=fedopt_table_7,
    ),
    Entry(
        "fedopt/table_2",
        "Sizes of the data sets (FedOpt, Table 2), and of those that are prepared here.",
        _PARTITIONS,
        make=partitions.fedopt_table_2,
    ),
    Entry(
        "fedopt/figure_14",
        "Different labels per client of the federated CIFAR-100 (FedOpt, Figure 14): Pachinko "
        "allocation of labels with CIFAR-100's structure. Bars: mean over ten partitions, "
        "lines: the smallest and largest number; shaded: 20 to 30 labels.",
        _PARTITIONS,
        make=lambda _: partitions.fedopt_figure_14(),
    ),
    Entry(
        "fedopt/table_3",
        "Layers of the EMNIST autoencoder as built here, and the printed numbers of parameters "
        "(FedOpt, Table 3).",
        _MODELS,
        make=lambda _: architectures.fedopt_table("EMNIST AE"),
    ),
    Entry(
        "fedopt/table_4",
        "Layers of the EMNIST character recognition network as built here, and the printed "
        "numbers of parameters (FedOpt, Table 4).",
        _MODELS,
        make=lambda _: architectures.fedopt_table("EMNIST CR"),
    ),
    Entry(
        "fedopt/table_5",
        "Layers of the Shakespeare network as built here, and the printed numbers of "
        "parameters (FedOpt, Table 5).",
        _MODELS,
        make=lambda _: architectures.fedopt_table("Shakespeare"),
    ),
    Entry(
        "fedopt/table_6",
        "Layers of the Stack Overflow next-word network as built here, and the printed "
        "numbers of parameters (FedOpt, Table 6).",
        _MODELS,
        make=lambda _: architectures.fedopt_table("StackOverflow NWP"),
    ),
)

from fedlib.reproduction.fedopt import entries_grids, entries_text  # noqa: E402

ENTRIES = (*ENTRIES, *entries_grids.ENTRIES, *entries_text.ENTRIES)
