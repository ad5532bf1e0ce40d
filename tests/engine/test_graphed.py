"""Recorded steps equal direct ones: with CUDA graphs on a GPU, elsewhere with a stand-in."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch

import fedlib
from fedlib.engine.graphed import Graphed
from fedlib.engine.program import BACKENDS
from fedlib.engine.states import map_state
from tests.engine.test_backends import difference


class Replayed:
    """What a CUDA graph does, on a CPU: the same memory in, the same memory out."""

    def __init__(self, function: Any, pool: Any) -> None:
        self.function, self.outputs = function, map_state(torch.clone, function())
        self.replays = 0

    @staticmethod
    def pool(device: torch.device) -> None:
        """The graphs of a program share no memory here."""

    def replay(self) -> None:
        self.replays += 1
        map_state(torch.Tensor.copy_, self.outputs, self.function())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Replayed]:
    """The graphs that are recorded, all of them on a CPU."""
    graphs: list[Replayed] = []

    class Counted(Replayed):
        def __init__(self, function: Any, pool: Any) -> None:
            super().__init__(function, pool)
            graphs.append(self)

    monkeypatch.setitem(BACKENDS, "graphed", partial(Graphed, graph=Counted))
    return graphs


CASES = [
    ("synthetic", {"clients": 8}, "fedavg", {}),
    ("synthetic", {"clients": 8}, "fedadam", {"client_optimizer": "sgdm"}),
    ("synthetic", {"clients": 8}, "fedavg", {"client_optimizer": "delta_sgd"}),
    ("synthetic", {"clients": 8}, "scaffold", {}),
    ("synthetic", {"clients": 8}, "mime", {"base": "momentum"}),
    ("emnist_cr", {"network": "paper", "clients": 5, "width": 0.1}, "fedavg", {"local_epochs": 2}),
    (
        *("cifar10_resnet18", {"preset": "paper", "clients": 5, "sizes": 9, "width": 1 / 32}),
        *("fedavg", {"client_optimizer": "delta_sgd", "batch_size": 4}),
    ),
]


def check(device: str, most: float, name: str, options: Any, algorithm: str, own: Any) -> None:
    """A run on ``device`` with recorded steps against one with direct steps."""
    task = fedlib.load_task(name, **options)
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": 4}
    runs = [
        fedlib.run(task, algorithm, overrides=own, backend=backend, device=device, **common)
        for backend in ("vectorized", "graphed")
    ]
    assert difference(*runs) < most


@pytest.mark.parametrize("case", CASES)
def test_recorded_steps_equal_direct_ones(made: list[Replayed], case: Any, prepared: Any) -> None:
    prepared("cifar10")
    check("cpu", 1e-12, *case)
    assert made


def test_equal_shapes_are_recorded_once(made: list[Replayed]) -> None:
    task = fedlib.load_task("quadratic")
    fedlib.run(task, "fedavg", rounds=5, backend="graphed", overrides={"local_steps": 3})
    assert len(made) == 1 and made[0].replays == 14  # the first step ran directly


def test_without_cuda_it_is_one_clear_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(fedlib.Error, match="needs a CUDA device"):
        fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=1, backend="graphed")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA GPU")
@pytest.mark.parametrize("case", CASES)
def test_cuda_graphs_equal_direct_steps(case: Any) -> None:
    check("cuda", 1e-10, *case)
