"""The papers' partitions: the labels that clients get. No runs, and no images, are needed.

CIFAR-10's and CIFAR-100's training labels are balanced (10 classes of 5,000, 100 of 500, five fine
labels to a coarse one), and a partition depends on the labels only, so the papers' partitions can
be drawn exactly as they are distributed without either data set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedlib import papers
from fedlib import partitioners as partition
from fedlib.datasets import store
from fedlib.figures import style
from fedlib.figures.curves import Drawing
from fedlib.figures.partitions import client_labels, label_legend, unique_labels

SEEDS = 10  # partitions behind Figure 14

# Table 2: the paper's name -> our data sets, the papers' own first.
PREPARED = {
    "CIFAR-10": ("cifar10",),
    "CIFAR-100": ("fed_cifar100", "cifar100"),
    "EMNIST-62": ("emnist", "emnist_byclass", "femnist"),
    "Shakespeare": ("shakespeare",),
    "StackOverflow": ("stackoverflow", "stackexchange"),
}
PER_CLIENT = 100  # examples of a CIFAR client

Split = Callable[[np.ndarray, float, int], list[np.ndarray]]  # from labels, concentration, seed
# At the papers' sizes; Pachinko's concentration is that at the root.
SPLITS: dict[str, Split] = {
    "dirichlet": lambda labels, alpha, seed: partition.dirichlet(labels, 500, alpha, 100, seed),
    "dirichlet_overlapping": lambda labels, alpha, seed: partition.dirichlet_overlapping(
        labels, 100, alpha, 500, seed
    ),
    "silos": lambda labels, beta, seed: partition.silos(labels, 16, beta, seed),
    "pachinko": lambda labels, alpha, seed: partition.pachinko(
        labels // 5, labels, 500, 100, alpha, 10.0, seed
    ),
}
SIZES = {
    "dirichlet": "500 x 100, 10 labels",
    "dirichlet_overlapping": "100 x 500, 10 labels",
    "silos": "16 clients, 10 labels",
    "pachinko": "500 x 100, 100 labels",
}
ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


def cifar_labels(classes: int) -> np.ndarray:
    """Labels like those of CIFAR's training images: int64 ``[50000]``, every class equally often.

    With 100 classes ``labels // 5`` are the coarse ones.
    """
    return np.repeat(np.arange(classes), 50_000 // classes)


def fedopt_figure_14() -> Drawing:
    """Unique labels per client of the federated CIFAR-100, over ten partitions."""
    fine = cifar_labels(100)
    with style.axes() as ax:
        ax.axvspan(19.5, 30.5, color="0.93", zorder=0)
        splits = [SPLITS["pachinko"](fine, 0.1, seed) for seed in range(SEEDS)]
        figure, data = unique_labels(fine, splits, ax=ax)
        inside = data["unique_labels"].between(20, 30)
        share = data.loc[inside, "clients"].sum() / data["clients"].sum()
        ax.set(title=f"500 clients of 100 examples; {share:.0%} have 20 to 30 of the 100 labels")
    return figure, data


def adafedadam_figure_6() -> Drawing:
    """Label distributions of the 16 CIFAR-10 clients for four values of beta."""
    betas = papers.settings("adafedadam")["experiments"]["noniid"]["dirichlet_beta"]
    figure, data = _label_panels("silos", "beta", betas, 2, (5.5, 4.6), shares=False)
    figure.axes[0].set(yticks=range(0, 16, 5))
    return figure, data


def delta_sgd_figure_8() -> Drawing:
    """Class distributions of 100 clients of 500 examples for three values of alpha."""
    alphas = (0.01, 0.1, 1.0)
    figure, data = _label_panels("dirichlet_overlapping", "alpha", alphas, 1, (5.5, 3.6))
    for ax in figure.axes:
        ax.set(xticks=[0, 0.5, 1], ylabel="client" if ax is figure.axes[0] else "")
    return figure, data


def _label_panels(
    name: str,
    symbol: str,
    values: Sequence[float],
    rows: int,
    size: tuple[float, float],
    **options: Any,
) -> Drawing:
    """A panel of CIFAR-10's labels for each concentration, drawn with some options."""
    labels, frames = cifar_labels(10), []
    with style.panels(rows, len(values) // rows, size, sharey=True) as (figure, panels):
        for ax, value in zip(panels, values, strict=True):
            options |= {"title": f"$\\{symbol}$ = {value:g}", "legend": False, "ax": ax}
            _, data = client_labels(labels, SPLITS[name](labels, value, 0), **options)
            frames.append(data.assign(**{symbol: value}))
        label_legend(panels[0], 10)
    return figure, pd.concat(frames, ignore_index=True)


def fedopt_table_2(data_root: Path) -> tuple[None, pd.DataFrame]:
    """Sizes of the data sets as printed, beside those of the data sets prepared here.

    CIFAR has no clients of its own: those counted are the ones a partition into clients of 100
    examples gives.

    Returns:
        None, and dataset, quantity, printed, ours (missing where nothing is prepared), data (which
            data set is counted).
    """
    frame = papers.table("fedopt", "table2_datasets").rename(columns={"value": "printed"})
    ours, names = [], []
    for row in frame.itertuples():
        name, counts = _counts(str(row.dataset), data_root)
        names.append(name or "not prepared")
        ours.append(counts.get(str(row.quantity)))
    frame["ours"] = pd.array(ours, dtype="Int64")
    return None, frame.assign(data=names)


def _counts(dataset: str, data_root: Path) -> tuple[str, dict[str, int | None]]:
    """The first prepared data set of a row of Table 2, and its sizes; "" and none without one."""
    for name in PREPARED.get(dataset, ()):
        card = store.read_card(name, data_root)
        if card is None:
            continue
        counts = card.get("counts", {})
        sizes = {}
        for split in {"train", "test"} & set(counts):
            cut = counts[split] // PER_CLIENT if dataset.startswith("CIFAR") else None
            sizes[f"{split}_examples"] = counts[split]
            sizes[f"{split}_clients"] = counts.get(f"{split}_clients", cut)
        return name, sizes
    return "", {}


def heterogeneity(alphas: Sequence[float] = ALPHAS, seed: int = 0) -> pd.DataFrame:
    """How far clients' labels are from those of all, over the concentration, at the papers' sizes.

    Args:
        alphas: concentrations; for Pachinko at the root (beta is 10).
        seed: of the partitions.

    Returns:
        partition, alpha, mean (of the clients' total variation), low and high (quartiles).
    """
    rows = []
    for name, split in SPLITS.items():
        labels = cifar_labels(100 if name == "pachinko" else 10)
        for alpha in alphas:
            distance = partition.total_variation(labels, split(labels, alpha, seed))
            rows.append((name, alpha, distance.mean(), *np.quantile(distance, [0.25, 0.75])))
    columns = ["partition", "alpha", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=columns).sort_values(["partition", "alpha"])


def label_heterogeneity() -> Drawing:
    """Mean total variation between a client's labels and all labels, over the concentration."""
    data = heterogeneity()
    with style.panels(1, 1, (5.5, 3.4)) as (figure, (ax,)):
        for (name, size), marker in zip(SIZES.items(), "os^D", strict=True):
            part = data[data["partition"] == name]
            (line,) = ax.plot(part["alpha"], part["mean"], marker=marker, label=f"{name}: {size}")
            band = {"color": line.get_color(), "alpha": 0.15}
            ax.fill_between(part["alpha"], part["low"], part["high"], **band)
        ax.set(xscale="log", ylim=(0, 1), xlabel="concentration ($\\alpha$; silos: $\\beta$)")
        ax.set(ylabel="total variation to all labels")
        ax.legend(loc="upper right")
    return figure, data.reset_index(drop=True)
