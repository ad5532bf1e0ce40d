"""Session 7: two means and two measures of spread, against fedlib's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from fedlib.engine import fairness

from .compare import results, same


def _clients(seed: int, clients: int, empty: bool) -> tuple[np.ndarray, np.ndarray]:
    """Accuracies and examples; without examples the accuracy is NaN."""
    draw = np.random.default_rng(seed)
    examples = draw.integers(1, 100, clients)
    accuracy = draw.integers(0, examples + 1) / examples
    if empty:
        examples[::5] = 0
        accuracy[::5] = np.nan
    return accuracy, examples


def _right(accuracy: np.ndarray, examples: np.ndarray) -> dict[str, float]:
    filled = torch.tensor(np.nan_to_num(accuracy))[None]
    measures = fairness.fairness(filled, torch.tensor(examples))
    return {name: float(value) for name, value in measures.items()}


def means(
    function: Callable[..., Any], seed: int = 0, *, clients: int = 7, empty: bool = False
) -> None:
    """``means(accuracy, examples)``: over examples and over clients."""
    accuracy, examples = _clients(seed, clients, empty)
    given = results("means", function(accuracy.copy(), examples.copy()), "examples, clients")
    right = (np.nan_to_num(accuracy) * examples).sum() / examples.sum()
    same("the mean over examples", given[0], right, "a client counts as often as it has examples")
    wanted = _right(accuracy, examples)["accuracy_unweighted"]
    same("the mean over clients", given[1], wanted, "clients without examples are left out")


def spread(
    function: Callable[..., Any], seed: int = 0, *, clients: int = 7, empty: bool = False
) -> None:
    """``spread(accuracy, examples)``: the worst 30 % and the errors' RSD."""
    accuracy, examples = _clients(seed, clients, empty)
    given = results("spread", function(accuracy.copy(), examples.copy()), "worst, rsd")
    wanted = _right(accuracy, examples)
    hint = "the mean of the lowest 30 % of the clients, their number rounded up"
    same("the worst 30 %", given[0], wanted["accuracy_worst_30"], hint)
    hint = "standard deviation over mean of the errors 1 - accuracy, divisor: the clients"
    same("the RSD", given[1], wanted["error_rsd"], hint)


def no_errors(function: Callable[..., Any]) -> None:
    """``spread`` where every client is right: both are defined."""
    same("(worst, rsd) of clients without errors", function(np.ones(3), np.full(3, 5)), (1.0, 0.0))
