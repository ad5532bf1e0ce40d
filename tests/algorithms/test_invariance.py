"""The order of clients, and clients without examples, change nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import fedlib
from fedlib.models import MLP

CLIENTS = 8
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("fednova", {"momentum": 0.9}),
    ("qfedavg", {"L": 1.0}),
    ("adafedadam", {"client_optimizer": "sgdm"}),
    ("fedavg", {"client_optimizer": "delta_sgd"}),
    ("moon", {"client_lr": 0.01}),
]


def task(order: list[int], empty: int) -> fedlib.Task:
    """Synthetic with its clients in ``order`` and ``empty`` ones without examples behind them."""
    given = fedlib.load_task("synthetic", clients=CLIENTS)
    data = given.train
    parts = [data.index[data.starts[i] : data.starts[i] + data.sizes[i]].numpy() for i in order]
    parts += [np.array([], dtype=np.int64)] * empty
    return dataclasses.replace(
        given,
        model=lambda: MLP(60, (5,), 10),
        train=fedlib.ClientData(data.x, data.y, parts),
    )


@pytest.mark.parametrize(("algorithm", "settings"), METHODS)
def test_order_and_empty_clients(algorithm: str, settings: dict[str, Any]) -> None:
    """Full batches: no random order is involved, so only the order of sums differs."""

    def run(order: list[int], empty: int = 0) -> fedlib.History:
        return fedlib.run(
            task(order, empty),
            algorithm,
            rounds=3,
            dtype="float64",
            overrides={"batch_size": None, "local_steps": 2, **settings},
        )

    forward = list(range(CLIENTS))
    base = run(forward)
    for other in (run(forward[::-1]), run(forward, empty=3)):
        for name, value in base.params.items():
            assert float((value - other.params[name]).abs().max()) < 1e-11
        a, b = base.series("loss", "train"), other.series("loss", "train")
        assert a.tolist() == pytest.approx(b.tolist(), abs=1e-11)
