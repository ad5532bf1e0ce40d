"""The forecast of a program's memory against what its tensors really take."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fedlib
from fedlib.engine import allocator
from fedlib.engine.config import configure
from fedlib.engine.device import LiveBytes, peak_of
from fedlib.engine.forecast import MemoryForecast, forecast
from fedlib.engine.program import Program

CPU = torch.device("cpu")


def test_live_bytes_follow_tensors_and_their_end() -> None:
    with LiveBytes() as counter:
        a = torch.zeros(1000)
        b = a + 1
        assert counter.live == 8000
        view = b[:10]
        assert counter.live == 8000
        del b
        assert counter.live == 8000  # the view keeps it
        del view
        assert counter.live == 4000
        (a * 2).sum()
    assert counter.peak == 8004 or counter.peak == 8000


def test_what_autograd_saves_counts() -> None:
    x = torch.ones(1000, requires_grad=True)
    plain = peak_of(lambda: x.detach().exp().exp().exp())
    saving = peak_of(lambda: x.exp().exp().exp())
    assert plain == 8000 and saving == 12000


def program(name: str, count: int, **options: Any) -> Program:
    task = fedlib.load_task(name, **options)
    configured = [
        configure(task, "fedadam", rounds=2, eval_every=2, overrides={"client_lr": 0.01 + i / 1000})
        for i in range(count)
    ]
    return Program(configured, CPU, "vectorized")


@pytest.mark.parametrize(
    ("name", "count", "options"),
    [
        ("synthetic", 72, {}),
        ("emnist_ae", 72, {"network": "paper", "clients": 4, "width": 0.05}),
        ("emnist_cr", 12, {"network": "paper", "clients": 4, "width": 0.1}),
    ],
)
def test_the_forecast_of_a_grid_is_within_20_percent(
    name: str, count: int, options: dict[str, Any]
) -> None:
    made = program(name, count, **options)
    expected = forecast(made)
    new = program(name, count, **options)
    data = sum(t.nbytes for t in (new.task.train.x, new.task.train.y))
    data += sum(t.nbytes for t in (new.task.test.x, new.task.test.y))
    measured = data + peak_of(lambda: new.run())
    assert abs(expected.peak / measured - 1) < 0.2, (expected, measured)


def test_a_forecast_says_what_it_is_about() -> None:
    text = str(MemoryForecast(72, 10, 2**20, 3 * 2**30, 2**10))
    assert text == (
        "72 configurations, 10 clients at once: about 3.0 GiB at most (training 3.0 GiB, "
        "evaluation 1 KiB, data and models 1 MiB)"
    )


def test_keeping_freed_memory_can_be_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDLIB_KEEP_MEMORY", "0")
    assert allocator.keep_freed_memory.__wrapped__() is False
    monkeypatch.delenv("FEDLIB_KEEP_MEMORY")
    monkeypatch.setattr(allocator.platform, "libc_ver", lambda: ("musl", "1.2"))
    assert allocator.keep_freed_memory.__wrapped__() is False
