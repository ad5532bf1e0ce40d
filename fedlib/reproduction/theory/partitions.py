"""The papers' partitions: the labels that clients get. No runs, and no images, are needed.

CIFAR-10's and CIFAR-100's training labels are balanced (10 classes of 5,000, 100 of 500, five fine
labels to a coarse one), and a partition depends on the labels only, so the papers' partitions can
be drawn exactly as they are distributed without either data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedlib import papers
from fedlib import partitioners as partition
from fedlib.datasets import store
from fedlib.figures import style
from fedlib.figures.curves import Drawing
from fedlib.figures.partitions import client_labels, label_legend, unique_labels

ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
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


def cifar_labels(classes: int) -> np.ndarray:
    """Labels like those of CIFAR's training images: int64 ``[50000]``, every class equally often.

    With 100 classes ``labels // 5`` are the coarse ones.
    """
    return np.repeat(np.arange(classes), 50_000 // classes)


def fedopt_figure_14() -> Drawing:
    """Unique labels per client of the federated CIFAR-100, over ten partitions."""
    fine = cifar_labels(100)
    partitions = [
        partition.pachinko(fine // 5, fine, 500, 100, alpha=0.1, beta=10.0, seed=seed)
        for seed in range(SEEDS)
    ]
    with style.context():
        ax = Figure(figsize=(5.5, 3.0)).subplots()
        ax.axvspan(19.5, 30.5, color="0.93", zorder=0)
        figure, data = unique_labels(fine, partitions, ax=ax)
        inside = data["unique_labels"].between(20, 30)
        share = data.loc[inside, "clients"].sum() / data["clients"].sum()
        ax.set(title=f"500 clients of 100 examples; {share:.0%} have 20 to 30 of the 100 labels")
    return figure, data


def adafedadam_figure_6() -> Drawing:
    """Label distributions of the 16 CIFAR-10 clients for four values of beta."""
    labels = cifar_labels(10)
    frames = []
    with style.context():
        figure = Figure(figsize=(5.5, 4.6))
        panels = figure.subplots(2, 2, sharey=True).ravel()
        betas = papers.settings("adafedadam")["experiments"]["noniid"]["dirichlet_beta"]
        for ax, beta in zip(panels, betas, strict=True):
            parts = partition.silos(labels, 16, beta, seed=0)
            title = f"$\\beta$ = {beta:g}"
            _, data = client_labels(labels, parts, shares=False, title=title, legend=False, ax=ax)
            ax.set(yticks=range(0, 16, 5))
            frames.append(data.assign(beta=beta))
        label_legend(panels[0], 10)
    return figure, pd.concat(frames, ignore_index=True)


def delta_sgd_figure_8() -> Drawing:
    """Class distributions of 100 clients of 500 examples for three values of alpha."""
    labels = cifar_labels(10)
    frames = []
    with style.context():
        figure = Figure(figsize=(5.5, 3.6))
        panels = figure.subplots(1, 3, sharey=True)
        for ax, alpha in zip(panels, (0.01, 0.1, 1.0), strict=True):
            parts = partition.dirichlet_overlapping(labels, 100, alpha, 500, seed=0)
            title = f"$\\alpha$ = {alpha:g}"
            _, data = client_labels(labels, parts, title=title, legend=False, ax=ax)
            frames.append(data.assign(alpha=alpha))
            ax.set(xticks=[0, 0.5, 1], ylabel="client" if ax is panels[0] else "")
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


def _counts(dataset: str, data_root: Path) -> tuple[str, dict[str, int]]:
    """The first prepared data set of a row of Table 2, and its sizes; "" and none without one."""
    for name in PREPARED.get(dataset, ()):
        card = store.read_card(name, data_root)
        if card is None:
            continue
        counts = card.get("counts", {})
        sizes = {}
        for split in ("train", "test"):
            if split not in counts:
                continue
            sizes[f"{split}_examples"] = counts[split]
            clients = counts.get(f"{split}_clients")
            if clients is None and dataset.startswith("CIFAR"):
                clients = counts[split] // PER_CLIENT
            if clients is not None:
                sizes[f"{split}_clients"] = clients
        return name, sizes
    return "", {}


# ---------------------------------------------------------------- heterogeneity against alpha


def heterogeneity(alphas: Sequence[float] = ALPHAS, seed: int = 0) -> pd.DataFrame:
    """How far clients' labels are from those of all, over the concentration, at the papers' sizes.

    Args:
        alphas: concentrations; for Pachinko at the root (beta is 10).
        seed: of the partitions.

    Returns:
        partition, alpha, mean (of the clients' total variation), low and high (quartiles).
    """
    ten, hundred = cifar_labels(10), cifar_labels(100)
    rows = []
    for alpha in alphas:
        made = {
            "dirichlet": (ten, partition.dirichlet(ten, 500, alpha, 100, seed)),
            "dirichlet_overlapping": (
                ten,
                partition.dirichlet_overlapping(ten, 100, alpha, 500, seed),
            ),
            "silos": (ten, partition.silos(ten, 16, alpha, seed)),
            "pachinko": (
                hundred,
                partition.pachinko(hundred // 5, hundred, 500, 100, alpha, 10.0, seed),
            ),
        }
        for name, (labels, parts) in made.items():
            distance = partition.total_variation(labels, parts)
            low, high = np.quantile(distance, [0.25, 0.75])
            rows.append((name, alpha, distance.mean(), low, high))
    columns = ["partition", "alpha", "mean", "low", "high"]
    return pd.DataFrame(rows, columns=columns).sort_values(["partition", "alpha"])


CURVES = {
    "dirichlet": "dirichlet: 500 x 100, 10 labels",
    "dirichlet_overlapping": "dirichlet_overlapping: 100 x 500, 10 labels",
    "silos": "silos: 16 clients, 10 labels",
    "pachinko": "pachinko: 500 x 100, 100 labels",
}


def label_heterogeneity() -> Drawing:
    """Mean total variation between a client's labels and all labels, over the concentration."""
    data = heterogeneity()
    with style.context():
        figure = Figure(figsize=(5.5, 3.4))
        ax = figure.subplots()
        for (name, text), marker in zip(CURVES.items(), "os^D", strict=True):
            part = data[data["partition"] == name]
            (line,) = ax.plot(part["alpha"], part["mean"], marker=marker, label=text)
            ax.fill_between(
                part["alpha"], part["low"], part["high"], color=line.get_color(), alpha=0.15
            )
        ax.set(xscale="log", ylim=(0, 1), xlabel="concentration ($\\alpha$; silos: $\\beta$)")
        ax.set(ylabel="total variation to all labels")
        ax.legend(loc="upper right")
    return figure, data.reset_index(drop=True)
