"""What FedOpt trains on: its data sets, the federated CIFAR-100, and the layers of its networks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedlib import models, papers, partitioners
from fedlib.datasets import store
from fedlib.errors import unknown
from fedlib.figures import layers, style, unique_labels
from fedlib.figures.curves import Drawing

PARTITIONS = 10  # behind Figure 14
PER_CLIENT = 100  # examples of a CIFAR client
# Table 2: the paper's name -> our data sets, the papers' own first.
PREPARED = {
    "CIFAR-10": ("cifar10",),
    "CIFAR-100": ("fed_cifar100", "cifar100"),
    "EMNIST-62": ("emnist", "emnist_byclass", "femnist"),
    "Shakespeare": ("shakespeare",),
    "StackOverflow": ("stackoverflow", "stackexchange"),
}
# Tables 3 to 6: the paper's name -> the model, and an input of one example.
MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "EMNIST AE": (models.EMNISTAutoencoder, torch.zeros(1, 784)),
    "EMNIST CR": (models.EMNISTCNN, torch.zeros(1, 1, 28, 28)),
    "Shakespeare": (models.ShakespeareLSTM, torch.ones(1, 80, dtype=torch.int64)),
    "StackOverflow NWP": (models.NextWordLSTM, torch.ones(1, 20, dtype=torch.int64)),
}


def labels_of_cifar100_clients() -> Drawing:
    """Figure 14: unique labels per client of the federated CIFAR-100, over ten partitions.

    A partition looks at labels only, and CIFAR-100's are balanced: no images are needed.
    """
    fine = np.repeat(np.arange(100), 500)
    splits = [
        partitioners.pachinko(fine // 5, fine, 500, PER_CLIENT, 0.1, 10.0, seed)
        for seed in range(PARTITIONS)
    ]
    with style.axes() as ax:
        ax.axvspan(19.5, 30.5, color="0.93", zorder=0)
        figure, data = unique_labels(fine, splits, ax=ax)
        inside = data["unique_labels"].between(20, 30)
        share = data.loc[inside, "clients"].sum() / data["clients"].sum()
        ax.set(title=f"500 clients of 100 examples; {share:.0%} have 20 to 30 of the 100 labels")
    return figure, data


def data_sets(data_root: Path) -> tuple[None, pd.DataFrame]:
    """Table 2: sizes of the data sets as printed, beside those of the data sets prepared here.

    CIFAR has no clients of its own: those counted are the ones a partition into clients of 100
    examples gives.

    Returns:
        None, and a row a data set as printed, after it one of what is prepared for it: data set,
        sizes (``"printed"``, or the prepared data set's name), and the four numbers.
    """
    frame = papers.table("fedopt", "table2_datasets")
    quantities, rows = list(frame["quantity"].unique()), []
    for dataset, part in frame.groupby("dataset", sort=False):
        name, counts = _counts(str(dataset), data_root)
        printed = dict(zip(part["quantity"], part["value"], strict=True))
        for sizes, values in {"printed": printed, name: counts}.items():
            if sizes:  # else nothing is prepared
                rows.append([dataset, sizes, *map(values.get, quantities)])
    heads = [quantity.replace("_", " ") for quantity in quantities]
    data = pd.DataFrame(rows, columns=["data set", "sizes", *heads])
    return None, data.astype(dict.fromkeys(heads, "Int64"))


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


def network(label: str) -> tuple[None, pd.DataFrame]:
    """Tables 3 to 6: our layers of a model, beside the printed parameter counts.

    Args:
        label: ``"EMNIST AE"``, ``"EMNIST CR"``, ``"Shakespeare"`` or ``"StackOverflow NWP"``.

    Raises:
        Error: unknown model.
    """
    if label not in MODELS:
        raise unknown("model of FedOpt", label, MODELS)
    make, example = MODELS[label]
    with torch.random.fork_rng(devices=[]):  # random initial values are drawn in vain
        ours = layers(make(), example).drop(columns="frozen")
    total = {"layer": "TOTAL", "parameters": ours["parameters"].sum()}
    ours = pd.concat([ours, pd.DataFrame([total])], ignore_index=True).fillna("")
    printed = papers.table("fedopt", "table3_6_models").query("model == @label")
    ours.insert(3, "printed", printed["parameters"].to_numpy())
    return None, ours
