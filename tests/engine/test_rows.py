"""Modules that torch.func.vmap cannot run train row after row, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedlib


class Recurrent(nn.Module):
    """A recurrent layer of torch's, whose kernels have no rule for vmap, with dropout behind it."""

    def __init__(self, layer: Callable[..., nn.Module], p: float) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 3)
        self.layer = layer(3, 4, batch_first=True)
        self.dropout, self.dense = nn.Dropout(p), nn.Linear(4, 2)

    def features(self, x: Tensor) -> Tensor:
        return self.layer(self.words(x))[0].mean(1)

    def head(self, features: Tensor) -> Tensor:
        return self.dense(self.dropout(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Deciding(nn.Linear):
    """A forward pass that looks at a value."""

    def forward(self, input: Tensor) -> Tensor:
        y = super().forward(input.to(self.weight.dtype))
        return y if float(y.detach().sum()) > 0 else 2 * y


def task(model: Callable[[], nn.Module]) -> fedlib.Task:
    draw = torch.Generator().manual_seed(0)
    x = torch.randint(7, (40, 5), generator=draw)
    parts = [np.arange(start, start + size) for start, size in ((0, 9), (9, 16), (25, 15))]
    data = fedlib.ClientData(x, (x[:, 0] > 3).long(), parts)
    return fedlib.Task("rows", model, data, data, batch_size=4)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: Recurrent(nn.GRU, 0.0),
    "LSTM": lambda: Recurrent(nn.LSTM, 0.0),
    "RNN": lambda: Recurrent(nn.RNN, 0.0),
    "GRU and dropout": lambda: Recurrent(nn.GRU, 0.4),
    "deciding": lambda: Deciding(5, 2),
}


@pytest.mark.parametrize("algorithm", ["fedadam", "scaffold", "moon"])
@pytest.mark.parametrize("name", MODELS)
def test_rows_are_those_of_one_client_after_the_other(name: str, algorithm: str) -> None:
    if name == "deciding" and algorithm == "moon":
        pytest.skip("MOON needs features")
    settings = {"rounds": 3, "dtype": "float64", "overrides": {"client_lr": 0.5}}
    by_rows, plain = (
        fedlib.run(task(MODELS[name]), algorithm, backend=backend, **settings)
        for backend in ("vectorized", "reference")
    )
    start = fedlib.run(task(MODELS[name]), algorithm, **{**settings, "rounds": 0})
    for key, value in plain.params.items():
        torch.testing.assert_close(by_rows.params[key], value, rtol=1e-10, atol=1e-10)
        assert not torch.equal(value, start.params[key]), f"{key} was not trained"


def test_a_models_own_mistake_is_still_its_own() -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Embedding(7, 3), nn.Flatten(), nn.Linear(4, 2))

    with pytest.raises(fedlib.Error, match="shapes cannot be multiplied"):
        fedlib.run(task(model), "fedavg", rounds=1)
