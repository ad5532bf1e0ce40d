"""How evenly a model serves the clients: AdaFedAdam's and q-FedAvg's measures of fairness."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def fairness(accuracy: Tensor, examples: Tensor) -> dict[str, Tensor]:
    """Measures of the spread of local accuracies.

    Args:
        accuracy: ``[C, clients]``, of C models on each client's test examples, fractions.
        examples: ``[clients]``, each client's test examples; clients without any are left out.

    Returns:
        tensors ``[C]``: ``accuracy_unweighted``, the mean over clients; ``accuracy_std`` and
        ``accuracy_std_weighted``, the standard deviation (divisor: the number of clients, or
        weighted by examples around the weighted mean); ``accuracy_worst_30`` and
        ``accuracy_worst_10``, the mean over that percentage of clients (rounded up) with the lowest
        accuracy; ``error_rsd``, standard deviation over mean of the local errors 1 - accuracy (0
        where no client errs).
    """
    held = examples > 0
    values, weights = accuracy[:, held], examples[held].to(accuracy.dtype)
    weights = weights / weights.sum()
    mean, std = values.mean(1), values.std(1, correction=0)
    weighted = (values @ weights).unsqueeze(1)
    error = 1 - mean
    ordered = values.sort(1).values
    return {
        "accuracy_unweighted": mean,
        "accuracy_std": std,
        "accuracy_std_weighted": ((values - weighted).square() @ weights).sqrt(),
        "accuracy_worst_30": ordered[:, : math.ceil(0.3 * values.shape[1])].mean(1),
        "accuracy_worst_10": ordered[:, : math.ceil(0.1 * values.shape[1])].mean(1),
        "error_rsd": torch.where(error > 0, std / error, torch.zeros_like(error)),
    }
