"""Data, model, loss and metrics that do not fit are refused before the first step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedlib
from fedlib import losses
from fedlib.engine import program
from fedlib.engine.fairness import fairness

X = torch.linspace(-1, 1, 18).reshape(6, 3)
Y = torch.tensor([0, 1, 2, 0, 1, 2])
PARTS = [[0, 1], [5, 4, 3]]  # example 2 is nobody's


class Counts(nn.Linear):
    """A module whose buffer is another one after each batch."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__(3, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, input: Tensor) -> Tensor:
        self.seen += len(input)
        return super().forward(input) / self.seen


class Caches(nn.Linear):
    """A module that makes a constant buffer when it is first called."""

    def forward(self, input: Tensor) -> Tensor:
        if "ones" not in self._buffers:
            self.register_buffer("ones", torch.ones(3))
        return super().forward(input) * self.ones


class Pair(nn.Linear):
    def forward(self, input: Tensor) -> Any:
        return super().forward(input), input


class Detached(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).detach()


def linear() -> nn.Module:
    return nn.Linear(3, 3)


def words() -> nn.Module:
    return nn.Sequential(nn.Embedding(10, 3), nn.Flatten(), nn.Linear(6, 3))


def task(
    model: Callable[[], nn.Module] = linear,
    x: Tensor = X,
    y: Tensor = Y,
    test_x: Tensor | None = None,
    test_y: Tensor | None = None,
    **others: Any,
) -> fedlib.Task:
    train = fedlib.ClientData(x, y, PARTS)
    tested = x if test_x is None else test_x, y if test_y is None else test_y
    return fedlib.Task("mine", model, train, fedlib.ClientData(*tested, PARTS), **others)


def changed(values: Tensor, example: int, value: float) -> Tensor:
    values = values.clone()
    values[example] = value
    return values


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "float labels": ({"y": Y.float()}, r"client 0's example 0 has the label 0.0 \(float32\)"),
    "a negative label": ({"y": changed(Y, 1, -1)}, "client 0's example 1 has the label -1 .*0..2"),
    "a label too large": ({"y": changed(Y, 4, 3)}, "train client 1's example 4 has the label 3"),
    "two labels": ({"y": torch.stack([Y, Y], 1)}, r"has the label \[0, 0\].*one for each example"),
    "a wrong test label": ({"test_y": changed(Y, 5, 7)}, "test client 1's example 5 has"),
    "wide inputs": ({"x": torch.ones(6, 4)}, r"client 0's example 0, float32 of shape \(4,\)"),
    "wide test inputs": ({"test_x": torch.ones(6, 4)}, "does not take test client 0's example 0"),
    "whole inputs": ({"x": torch.ones(6, 3, dtype=torch.int64)}, "example 0, int64 of shape"),
    "complex inputs": ({"x": X.to(torch.complex64)}, "example 0, complex64 of shape"),
    "a word too many": (
        {"model": words, "x": changed(torch.ones(6, 2, dtype=torch.int64), 3, 12)},
        r"train client 1's example 3, int64 of shape \(2,\) from 12 to 12",
    ),
    "values in another shape": (
        {"model": lambda: nn.Linear(3, 1), "y": Y.float(), "loss": losses.squared_error},
        r"the label 0.0 \(float32\); squared_error needs finite numbers of shape \(1,\)",
    ),
    "a value that is no number": (
        {"y": changed(X, 4, float("nan")), "loss": losses.squared_error},
        "client 1's example 4 has the label .nan, nan, nan.",
    ),
    "a share above 1": (
        {"y": changed(X.abs(), 1, 2.0), "loss": losses.binary_cross_entropy},
        "client 0's example 1 .* needs numbers between 0 and 1",
    ),
    "a counter": ({"model": Counts}, "its forward pass changes the buffer 'seen'"),
    "a spectral norm": (
        {"model": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))},
        "changes the buffer 'parametrizations.weight.0._u'",
    ),
    "two outputs": ({"model": lambda: Pair(3, 3)}, "model Pair gives a tuple"),
    "detached outputs": ({"model": lambda: Detached(3, 3)}, "loss does not depend on the param"),
    "no model": ({"model": lambda: None}, r"model\(\) gives a NoneType"),
    "a model that fails": ({"model": lambda: nn.Linear(-1, 3)}, r"model\(\) fails: "),
    "a complex model": (
        {"model": lambda: nn.Linear(3, 3, dtype=torch.complex64)},
        "the model's weight is complex",
    ),
    "a mean loss": ({"loss": lambda outputs, y: outputs.mean()}, r"of shape \(\) for 1 row of 2"),
    "a metric by class": ({"metrics": {"hits": lambda outputs, y: outputs}}, r"hits \(a metric\)"),
    "a metric that fails": ({"metrics": {"hits": lambda outputs, y: 1 / 0}}, "division by zero"),
    "a transform that fails": ({"transform": lambda x, keys: x @ x}, "the transform does not take"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("trained")

    monkeypatch.setattr(program.Training, "round", refuse)
    wrong, message = WRONG[name]
    with pytest.raises(fedlib.Error, match=message) as raised:
        fedlib.run(task(**wrong), "fedavg", rounds=1)
    assert "\n" not in str(raised.value)


def test_a_cache_that_the_first_call_makes_is_no_state() -> None:
    cached = fedlib.run(task(lambda: Caches(3, 3)), "fedavg", rounds=2)
    plain = fedlib.run(task(), "fedavg", rounds=2)
    np.testing.assert_allclose(cached.frame["value"], plain.frame["value"], rtol=1e-5)


def test_labels_that_nobody_has_are_not_looked_at() -> None:
    assert fedlib.run(task(y=changed(Y, 2, -100)), "fedavg", rounds=1).diverged is None


def test_labels_of_a_loss_that_declares_nothing_are_its_own_affair() -> None:
    def first(outputs: Tensor, targets: Tensor) -> Tensor:
        return fedlib.task.cross_entropy(outputs, targets[..., 0].long())

    mine = task(y=torch.stack([Y, -Y], 1).double(), loss=first, metrics={})
    assert fedlib.run(mine, "fedavg", rounds=1).diverged is None


RESERVED = ["loss", "mine_unweighted", *fairness(torch.ones(1, 2), torch.ones(2))]


@pytest.mark.parametrize("name", RESERVED)
def test_a_metric_may_not_take_the_name_of_another_number(name: str) -> None:
    with pytest.raises(fedlib.Error, match=f"metric '{name}'"):
        task(metrics={name: losses.correct})
