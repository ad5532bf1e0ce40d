"""The figures and tables of Delta-SGD."""

from __future__ import annotations

from functools import partial

import numpy as np

from fedlib import partitioners
from fedlib.figures.curves import Drawing
from fedlib.figures.partitions import label_panels
from fedlib.reproduction.delta_sgd import client_optimizers as clients
from fedlib.reproduction.delta_sgd.step_size_paths import delta_sgd_figure_7
from fedlib.reproduction.delta_sgd.tables import IMAGE_TASKS, RESNETS, THREE
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.printed import printed_entry
from fedlib.reproduction.tables import ABLATION, IMAGES

# A printed table, and the part of the plan that has its runs.
_PRINTED = {
    "Table 1": "table",
    "Table 2a": "table",
    "Table 2b": "fedprox",
    "Table 3": "sizes",
    "Table 4": "fedadam",
    "Table 5": "moon",
    "Table 6": "fedprox",
}


def class_distributions() -> Drawing:
    """Figure 8: class distributions of 100 clients of 500 examples for three values of alpha."""
    labels = np.repeat(np.arange(10), 5000)  # CIFAR-10's, which are balanced
    parts = {
        alpha: partitioners.dirichlet_overlapping(labels, 100, alpha, 500, seed=0)
        for alpha in (0.01, 0.1, 1.0)
    }
    figure, data = label_panels(labels, parts, "alpha", rows=1, size=(5.5, 3.6))
    for ax in figure.axes:
        ax.set(xticks=[0, 0.5, 1], ylabel="client" if ax is figure.axes[0] else "")
    return figure, data


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "delta_sgd/figure_1",
        dict.fromkeys((task for task, _ in clients.FIGURE_1), IMAGES),
        partial(clients.curves, clients.FIGURE_1),
        parts=("table",),
    ),
    Entry(
        "delta_sgd/figure_2",
        dict.fromkeys(clients.OVER_ALPHA, IMAGES),
        partial(clients.profiles, clients.FIGURE_2),
        parts=("table",),
    ),
    Entry(
        "delta_sgd/figure_3",
        dict.fromkeys(IMAGE_TASKS.values(), IMAGES),
        partial(clients.profiles, clients.FIGURE_3),
        parts=("table",),
    ),
    Entry(
        "delta_sgd/figure_4",
        dict.fromkeys(RESNETS, ABLATION),
        clients.delta_sgd_figure_4,
        parts=("delta",),
    ),
    Entry(
        "delta_sgd/figure_5",
        {"cifar100_resnet50": ABLATION},
        clients.delta_sgd_figure_5,
        parts=("epochs",),
    ),
    Entry(
        "delta_sgd/figure_6",
        dict.fromkeys(THREE, ABLATION),
        partial(clients.curves, clients.FIGURE_6, apart=True),
        parts=("seeds",),
    ),
    Entry("delta_sgd/figure_7", {"": "05_auto_tuned_clients"}, lambda _: delta_sgd_figure_7()),
    Entry("delta_sgd/figure_8", {"": "06_partitions"}, lambda _: class_distributions()),
    *(printed_entry("delta_sgd", name, parts=(part,)) for name, part in _PRINTED.items()),
    Entry(
        "delta_sgd/table_7",
        dict.fromkeys(THREE, ABLATION),
        clients.delta_sgd_table_7,
        parts=("seeds",),
    ),
)
