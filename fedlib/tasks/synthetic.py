"""AdaFedAdam's Synthetic setup: softmax regression on LEAF's synthetic data."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import torch

from fedlib.datasets.synthetic import leaf_synthetic
from fedlib.errors import require
from fedlib.models import Softmax
from fedlib.randomness import numpy_generator
from fedlib.task import ClientData, Task
from fedlib.tasks import settings

FEATURES, CLASSES = 60, 10


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    clients: int = 100,
    data_seed: int = 931231,
) -> Task:
    """100 clients with power-law sizes; 80 % of each one's examples train, 20 % test.

    Settings of AdaFedAdam, appendix C: all clients every round, one local epoch, batches of 10,
    client learning rate 0.01, 1000 rounds (``quick``: 100). Methods that the paper does not run
    here have values of ours. The data is exact, not a stand-in, in both presets.

    Args:
        seed: of the split into training and test examples.
        data_root: unused; the data is generated.
        clients: how many clients LEAF's generator makes.
        data_seed: of the generator; LEAF's own by default.
    """
    require(isinstance(clients, int) and clients >= 1, "clients", clients, "a whole number >= 1")
    xs, ys = leaf_synthetic(clients, CLASSES, FEATURES, data_seed)
    train_parts, test_parts = [], []
    start = 0
    for client, labels in enumerate(ys):
        order = numpy_generator(seed, "local split", client).permutation(len(labels)) + start
        cut = int(0.8 * len(labels))
        train_parts.append(np.sort(order[:cut]))
        test_parts.append(np.sort(order[cut:]))
        start += len(labels)
    x, y = np.concatenate(xs), np.concatenate(ys)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    paper = settings.adafedadam("Synthetic")
    adam = paper["fedadam"]
    return Task(
        name="synthetic",
        model=lambda: Softmax(FEATURES, CLASSES),
        train=ClientData(inputs, targets, train_parts),
        test=ClientData(inputs, targets, test_parts),
        rounds=1000 if preset == "paper" else 100,
        clients_per_round=None,
        batch_size=10,
        hyperparameters={
            "fedavgm": paper["fedavg"],
            "fedadagrad": {**paper["fedavg"], "server_lr": 0.01},
            "fedyogi": adam,
            "scaffold": paper["fedavg"],
            "n_accadam": {key: adam[key] for key in ("client_lr", "server_lr", "beta1", "beta2")},
            **paper,
        },
        preset=preset,
        seed=seed,
        options={"clients": clients, "data_seed": data_seed},
        source="LEAF's generator",
        fingerprint=hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest(),
        label="Synthetic",
    )
