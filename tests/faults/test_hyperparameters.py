"""Every algorithm with every hyperparameter at any value.

It is refused in one line that names the hyperparameter, or the run's numbers are finite, or the run
says that it diverged; and what is accepted is part of what the run is.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

import fedlib
from fedlib import algorithms
from fedlib.engine import configure
from fedlib.engine.config import TRAINING_KEYS
from tests.faults.campaign import Count, examples


class Model(nn.Module):
    """With features, which MOON needs."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(2, 3), nn.Linear(3, 2)

    def features(self, x: Tensor) -> Tensor:
        return torch.tanh(self.body(x))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(x))
        return logits


@cache
def task() -> fedlib.Task:
    x = torch.linspace(-1, 1, 16).reshape(8, 2)
    data = fedlib.ClientData(x, (x[:, 0] > 0).long(), [[0, 1, 4, 5], [2, 3, 6, 7]])
    return fedlib.Task("mine", Model, data, data, batch_size=2, clients_per_round=None)


def keys() -> list[tuple[str, str, str]]:
    """Algorithm, client optimizer, hyperparameter."""
    found = []
    for name in algorithms.METHODS:
        for optimizer in algorithms.CLIENT_OPTIMIZERS:
            try:
                known = algorithms.hyperparameters(name, optimizer)
                algorithms.build(name, client_optimizer=optimizer)
            except fedlib.Error:  # they do not go together
                continue
            if optimizer == "sgd":
                found += [(name, optimizer, key) for key in (*known, *TRAINING_KEYS)]
            else:  # that optimizer's own
                plain = algorithms.hyperparameters(name)
                found += [(name, optimizer, key) for key in known if key not in plain]
    return found


KEYS = keys()
EDGES = [0, -1, 1, 2, 1.9, -0.0, 0.5, 1.0, 1 - 1e-9, 1 + 1e-9, 1e-300, 1e300, 1e-9, -1e-9, 1e9]
NO_NUMBERS = [None, True, False, "x", "", "0.1", [], [0.1], {}, 1j, math.nan, math.inf, -math.inf]
VALUES = st.one_of(
    st.sampled_from(EDGES + NO_NUMBERS + [10**30, object()]),
    st.floats(),
    st.integers(-3, 10),
    st.text(max_size=3),
    st.lists(st.integers(-1, 3), max_size=3),
)


@given(st.sampled_from(KEYS), VALUES, st.sampled_from(sorted(fedlib.base.BASES)))
@examples(every=3000, few=150)
def test_any_value_of_any_hyperparameter(
    count: Count, where: tuple[str, str, str], value: Any, base: str
) -> None:
    name, optimizer, key = where
    given: dict[str, Any] = {key: value}
    if optimizer != "sgd":
        given["client_optimizer"] = optimizer
    if "base" in algorithms.hyperparameters(name, optimizer) and key != "base":
        given["base"] = base
    with count.case(f"{name} {given}"):
        try:
            history = fedlib.run(task(), name, rounds=2, overrides=given)
        except fedlib.Error as error:
            text = str(error)
            assert "\n" not in text and (key in text or key.split("_")[-1] in text), text
            return
        numbers = history.frame["value"].to_numpy()
        assert history.diverged is not None or np.isfinite(numbers).all()
        assert not (isinstance(value, float) and math.isnan(value)), "NaN was taken"
        described = {**history.config.method, **vars(history.config)}
        assert says(described, value) or default(name, optimizer, key, value), "it is not said"


def says(described: Any, value: Any) -> bool:
    """Whether a value occurs in a configuration."""
    if isinstance(described, dict):
        return any(says(part, value) for part in described.values())
    if isinstance(described, tuple) and isinstance(value, (list, tuple)):
        return described == tuple(value)
    if isinstance(described, float) and isinstance(value, int):
        return described == float(value)  # 10**30 is no float
    return bool(described == value) or str(described).lower() == str(value).lower()


def default(name: str, optimizer: str, key: str, value: Any) -> bool:
    """Whether it is what the algorithm does anyway, or a number that the chosen base leaves."""
    known = algorithms.hyperparameters(name, optimizer)
    if "base" in known and any(key in vars(kind()) for kind in fedlib.base.BASES.values()):
        return True
    return value is None or known.get(key, value) == value


@pytest.mark.parametrize("value", [math.nan, -1.0, 1.0, math.inf, "x", True])
@pytest.mark.parametrize("name", ["mime", "mimelite", "centralized"])
def test_a_number_that_the_base_leaves_is_looked_at_all_the_same(name: str, value: Any) -> None:
    with pytest.raises(fedlib.Error, match="momentum is"):
        configure(task(), name, overrides={"base": "sgd", "momentum": value})


@pytest.mark.parametrize(
    ("key", "value"),
    [("beta1", 1 - 1e-9), ("tau", 1e-60), ("client_lr", 1e60), ("server_lr", 1e39)],
)
def test_a_number_that_the_type_cannot_hold_is_refused(key: str, value: float) -> None:
    with pytest.raises(fedlib.Error, match=f"{key.replace('_lr', '.lr')} is .*float32"):
        configure(task(), "fedadam", overrides={key: value})
    assert configure(task(), "fedadam", overrides={key: value}, dtype="float64")
