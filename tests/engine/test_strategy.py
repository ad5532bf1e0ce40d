"""How programs are executed: the choice and its limits."""

import torch

import fedlib
from fedlib.engine import configure, execute, programs, strategy
from fedlib.engine.device import free_bytes

CPU = torch.device("cpu")


def test_a_grid_is_cut_into_programs_that_fit_and_keeps_its_results(monkeypatch):
    task = fedlib.load_task("synthetic", clients=6)
    configured = [
        configure(task, "fedavg", rounds=2, dtype="float64", overrides={"client_lr": rate})
        for rate in (0.01, 0.02, 0.03, 0.04, 0.05)
    ]
    monkeypatch.setitem(strategy.CHUNK_NUMBERS, "cpu", 2 * 610)
    for free, numbers in ((0, 1), (50_000, 1000), (10**9, 2 * 610), (None, 2 * 610)):
        monkeypatch.setattr(strategy, "free_bytes", lambda device, free=free: free)
        assert strategy.chunk_numbers(CPU) == numbers
    before = torch.get_rng_state()
    assert [len(part) for part in programs(configured, "cpu")] == [2, 2, 1]
    assert torch.equal(before, torch.get_rng_state())  # asking draws nothing
    other = configure(fedlib.load_task("synthetic", clients=6), "fedavg", rounds=2, dtype="float64")
    assert programs([other, *configured]) == [[0], [1, 2, 3, 4, 5]]  # of two tasks
    apart = execute(configured, device="cpu")
    monkeypatch.undo()
    together = execute(configured, device="cpu")
    assert {history.meta["configurations"] for history in together} == {5}
    assert [history.meta["configurations"] for history in apart] == [2, 2, 2, 2, 1]
    for a, b in zip(together, apart, strict=True):
        assert all(torch.allclose(a.params[n], b.params[n], atol=1e-12) for n in a.params)


def test_programs_that_share_a_gpu_take_a_part_of_its_memory_each(monkeypatch):
    """Of 100 bytes 90 are free, and 5 are this process's own."""
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda _: (90, 100))
    monkeypatch.setattr("torch.cuda.memory_reserved", lambda _: 5)
    for share, free in ((None, 90), ("0.5", 45), ("0.01", 0)):
        if share is not None:
            monkeypatch.setenv("FEDLIB_GPU_SHARE", share)
        assert free_bytes(torch.device("cuda")) == free
