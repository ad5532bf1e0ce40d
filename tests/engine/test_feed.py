"""Inputs: what a task's transform makes of examples, at once or batch by batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedlib
from fedlib.engine import batches as feed
from fedlib.task import Fixed


def task(transform: fedlib.task.Transform) -> fedlib.Task:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(0, 256, (60, 4, 4), generator=generator, dtype=torch.uint8)
    y = torch.randint(0, 3, (60,), generator=generator)
    data = fedlib.ClientData(x, y, np.array_split(np.arange(50), 5))
    return fedlib.Task(
        "pictures",
        lambda: nn.Linear(16, 3),
        data,
        data,
        transform=transform,
        batch_size=4,
        clients_per_round=3,
    )


def flat(x: Tensor, keys: Tensor | None) -> Tensor:
    return (x.float() / 255).flatten(-2)


@pytest.mark.parametrize(("kept_bytes", "each_round"), [(0, True), (2**20, False)])
def test_a_fixed_transform_of_small_data_is_applied_before_the_first_round_and_never_with_keys(
    kept_bytes: int, each_round: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "KEPT_BYTES", kept_bytes)
    calls: list[Tensor | None] = []

    def counted(x: Tensor, keys: Tensor | None) -> Tensor:
        calls.append(keys)
        return flat(x, keys)

    counts = []
    for rounds in (1, 4):
        calls.clear()
        fixed = fedlib.run(task(Fixed(counted)), "fedavg", rounds=rounds, eval_every=100)
        assert all(keys is None for keys in calls)
        counts.append(len(calls))
    assert (counts[1] > counts[0]) == each_round
    plain = fedlib.run(task(flat), "fedavg", rounds=4).params
    assert all(torch.equal(values, fixed.params[name]) for name, values in plain.items())
