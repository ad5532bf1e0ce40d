"""How programs are executed: the choice and its limits."""

from __future__ import annotations

import pytest
import torch

import fedlib
from fedlib.engine import strategy
from fedlib.engine.config import configure
from fedlib.engine.run import execute, programs


def test_a_grid_is_cut_into_programs_that_fit_and_keeps_its_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = fedlib.load_task("synthetic", clients=6)
    configured = [
        configure(task, "fedavg", rounds=2, dtype="float64", overrides={"client_lr": rate})
        for rate in (0.01, 0.02, 0.03, 0.04, 0.05)
    ]
    monkeypatch.setitem(strategy.LIMITS, "cpu", strategy.Limits(chunk_numbers=2 * 610))
    before = torch.get_rng_state()
    assert [len(part) for part in programs(configured, "cpu")] == [2, 2, 1]
    assert torch.equal(before, torch.get_rng_state())  # asking draws nothing
    assert [len(part) for part in programs(configured)] == [5]
    together = execute(configured, device="cpu", together=True)
    apart = execute(configured, device="cpu")
    assert {history.meta["configurations"] for history in together} == {5}
    assert [history.meta["configurations"] for history in apart] == [2, 2, 2, 2, 1]
    for a, b in zip(together, apart, strict=True):
        assert all(torch.allclose(a.params[n], b.params[n], atol=1e-12) for n in a.params)
