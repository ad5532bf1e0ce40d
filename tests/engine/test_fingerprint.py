"""A stored run never answers for a task of the same name with another part."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedlib
from fedlib.engine.config import configure
from fedlib.results import Store

X = torch.linspace(-1, 1, 12).reshape(6, 2)
Y = torch.tensor([0, 1, 0, 1, 1, 0])
PARTS = [np.array([0, 1, 2]), np.array([3, 4, 5])]
FACTOR = 1.0


def linear() -> nn.Module:
    return nn.Linear(2, 2)


def half_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return fedlib.task.cross_entropy(outputs, targets) / 2


def scaled_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return FACTOR * fedlib.task.cross_entropy(outputs, targets)


def doubled(x: Tensor, keys: Tensor | None) -> Tensor:
    return 2 * x


class Shifted(nn.Linear):
    """The same parameters as nn.Linear, another forward."""

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + 1


def zeros() -> nn.Module:
    model = nn.Linear(2, 2)
    nn.init.zeros_(model.weight)
    return model


def task(
    x: Tensor = X, y: Tensor = Y, parts: Any = PARTS, weights: Any = None, **parts_of_task: Any
) -> fedlib.Task:
    """A task that is made by hand, new at every call."""
    data = fedlib.ClientData(x.clone(), y.clone(), parts, weights=weights)
    model = parts_of_task.pop("model", linear)
    return fedlib.Task("mine", model, data, data, rounds=1, clients_per_round=2, **parts_of_task)


def digest(made: fedlib.Task) -> str:
    return configure(made, "fedavg").config.digest


OTHERS: dict[str, Callable[[], fedlib.Task]] = {
    "inputs": lambda: task(x=X + 1e-6),
    "labels": lambda: task(y=1 - Y),
    "partition": lambda: task(parts=PARTS[::-1]),
    "weights": lambda: task(weights=np.array([1.0, 2.0])),
    "architecture": lambda: task(model=lambda: nn.Linear(2, 2, bias=False)),
    "initial parameters": lambda: task(model=zeros),
    "forward": lambda: task(model=lambda: Shifted(2, 2)),
    "loss": lambda: task(loss=half_loss),
    "metrics": lambda: task(metrics={"half": half_loss}),
    "transform": lambda: task(transform=doubled),
    "reduction": lambda: task(reduction="sum"),
}


@pytest.mark.parametrize("part", OTHERS)
def test_another_part_under_the_same_name_is_another_run(part: str) -> None:
    assert digest(OTHERS[part]()) == digest(OTHERS[part]()) != digest(task())


def test_closures_globals_and_writes_in_place_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(factor: float) -> fedlib.Task:
        return task(loss=lambda outputs, targets: factor * half_loss(outputs, targets))

    assert digest(made(1.0)) == digest(made(1.0)) != digest(made(2.0))
    held = task(loss=scaled_loss)
    before = digest(held)
    monkeypatch.setattr(sys.modules[__name__], "FACTOR", 3.0)
    assert digest(held) != before
    monkeypatch.undo()
    assert digest(held) == before
    held.train.x.add_(1)
    assert digest(held) != before


def test_the_store_trains_again_and_answers_for_its_own(tmp_path: Any) -> None:
    store = Store(tmp_path)
    first, second = (store.run(made, "fedavg") for made in (task(), task(y=1 - Y)))
    assert not torch.equal(first.params["weight"], second.params["weight"])
    again = store.run(task(), "fedavg")
    assert torch.equal(again.params["weight"], first.params["weight"])
    assert len(store.stored()) == 2


def test_a_copy_of_a_catalogue_task_with_another_part_is_no_longer_the_catalogues() -> None:
    known = fedlib.load_task("synthetic", clients=4)
    assert configure(known, "fedavg").config.task["data"] == known.fingerprint
    assert configure(known, "centralized").config.task["data"] == known.fingerprint
    other = dataclasses.replace(known, loss=half_loss)
    assert digest(other) != digest(known)


def test_a_catalogue_task_that_is_given_another_part_is_no_longer_the_catalogues() -> None:
    task = fedlib.load_task("synthetic", clients=3)
    before = configure(task, "fedavg").config.digest
    task.rounds = 7  # the configuration says it
    assert task.described
    task.train = fedlib.ClientData(task.train.x + 1, task.train.y, [[0], [1], [2]])
    assert not task.described
    assert configure(task, "fedavg", rounds=100).config.digest != before


def test_another_process_comes_to_the_same_hash(tmp_path: Any) -> None:
    code = tmp_path / "made.py"
    code.write_text(
        "import torch, fedlib\n"
        "from fedlib.engine.fingerprint import fingerprint\n"
        "data = fedlib.ClientData(torch.eye(2), torch.arange(2), [[0], [1]])\n"
        "model = lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())\n"
        "metrics = {'one': lambda outputs, targets: targets.float(), 'two': set}\n"
        "print(fingerprint(fedlib.Task('mine', model, data, data, metrics=metrics)))\n"
    )
    runs = [
        subprocess.run([sys.executable, str(code)], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout and len(runs[0].stdout.strip()) == 64
