"""Recorded steps equal direct ones: with CUDA graphs on a GPU, elsewhere with a stand-in."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fedlib
from fedlib.engine import graphed
from fedlib.engine.states import map_state


def difference(a: fedlib.History, b: fedlib.History) -> float:
    params = max(float((a.params[name] - b.params[name]).abs().max()) for name in a.params)
    return max(params, float((a.frame["value"] - b.frame["value"]).abs().max()))


class Replayed:
    """What a CUDA graph does, on a CPU: the same memory in, the same memory out."""

    def __init__(self, function: Any, pool: Any) -> None:
        self.function, self.outputs = function, map_state(torch.clone, function())
        self.replays = 0

    def replay(self) -> None:
        self.replays += 1
        map_state(torch.Tensor.copy_, self.outputs, self.function())


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphed.Recording, "graph", Replayed)


CASES = [
    ("synthetic", {"clients": 8}, "fedavg", {}),
    ("synthetic", {"clients": 8}, "fedadam", {"client_optimizer": "sgdm"}),
    ("synthetic", {"clients": 8}, "fedavg", {"client_optimizer": "delta_sgd"}),
    ("synthetic", {"clients": 8}, "scaffold", {}),
    ("synthetic", {"clients": 8}, "mime", {"base": "momentum"}),
    ("emnist_cr", {"clients": 5, "width": 0.1}, "fedavg", {"local_epochs": 2}),
]


@pytest.mark.parametrize(("name", "options", "algorithm", "overrides"), CASES)
def test_recorded_steps_equal_direct_ones(
    on_cpu: None, name: str, options: dict[str, Any], algorithm: str, overrides: dict[str, Any]
) -> None:
    task = fedlib.load_task(name, **options)
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": 4}
    runs = [
        fedlib.run(task, algorithm, overrides=overrides, backend=backend, device="cpu", **common)
        for backend in ("vectorized", "graphed")
    ]
    assert difference(*runs) < 1e-12


def test_equal_shapes_are_recorded_once(on_cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Replayed] = []

    class Counted(Replayed):
        def __init__(self, function: Any, pool: Any) -> None:
            super().__init__(function, pool)
            made.append(self)

    monkeypatch.setattr(graphed.Recording, "graph", Counted)
    task = fedlib.load_task("quadratic")
    fedlib.run(task, "fedavg", rounds=5, backend="graphed", overrides={"local_steps": 3})
    assert len(made) == 1 and made[0].replays == 14  # the first step ran directly


def test_without_cuda_it_is_one_clear_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(fedlib.Error, match="needs a CUDA device"):
        fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=1, backend="graphed")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")
@pytest.mark.parametrize(("name", "options", "algorithm", "overrides"), CASES)
def test_cuda_graphs_equal_direct_steps(
    name: str, options: dict[str, Any], algorithm: str, overrides: dict[str, Any]
) -> None:
    task = fedlib.load_task(name, **options)
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": 4}
    runs = [
        fedlib.run(task, algorithm, overrides=overrides, backend=backend, device="cuda", **common)
        for backend in ("vectorized", "graphed")
    ]
    assert difference(*runs) < 1e-10
