"""Each task of the papers at its quick preset: it loads offline and trains, on every backend."""

from __future__ import annotations

import math
from typing import Any

import pytest

import fedlib
from fedlib.engine.strategy import threads
from fedlib.models.layers import Dropout


@pytest.mark.parametrize("name", fedlib.list_tasks())
def test_two_rounds_agree_on_all_backends(name: str) -> None:
    task = fedlib.load_task(name)
    common: dict[str, Any] = {
        "rounds": 2,
        "dtype": "float64",
        "clients_per_round": min(3, len(task.train)),
        "eval_every": 2,
        "overrides": {"local_steps": 2},
    }
    with threads(2):
        histories = [
            fedlib.run(task, "fedavg", backend=backend, **common)
            for backend in ("vectorized", "reference", "parallel")
        ]
    rows = histories[0]
    assert rows.diverged is None and all(map(math.isfinite, rows.frame["value"]))
    assert rows.series("loss", "train").iloc[-1] != rows.series("loss", "train").iloc[0]
    for other in histories[1:]:
        for parameter, value in rows.params.items():
            assert float((value - other.params[parameter]).abs().max()) < 1e-10
        assert float((rows.frame["value"] - other.frame["value"]).abs().max()) < 1e-8


def test_some_task_has_dropout() -> None:
    """Otherwise the agreement above would say nothing about masks."""
    models = [fedlib.load_task(name).model() for name in ("emnist_cr", "mnist", "fair_cifar10")]
    assert all(any(isinstance(m, Dropout) for m in model.modules()) for model in models)
