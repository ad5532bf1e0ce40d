"""Measures of fairness of AdaFedAdam and q-FedAvg: how evenly a model serves the clients."""

import torch
from torch import Tensor


def fairness(accuracy: Tensor, examples: Tensor) -> dict[str, Tensor]:
    """Measures of the spread of local accuracies.

    Args:
        accuracy: accuracies ``[C, clients]`` of C models on each client's test examples, fractions.
        examples: ``[clients]``, each client's test examples. Clients without any, or without an
            accuracy (NaN: all of their labels are ignored), are left out.

    Returns:
        Tensors ``[C]``: ``accuracy_unweighted`` is the mean over clients. ``accuracy_std`` and
        ``accuracy_std_weighted`` are the standard deviation (divided by the number of clients, or
        weighted by examples around the weighted mean). ``accuracy_worst_30``, ``accuracy_worst_10``
        and ``accuracy_worst_30_weighted`` are the mean over the :func:`worst` clients, the last one
        weighted by examples. ``error_rsd`` is the standard deviation over the mean of the local
        errors 1 - accuracy (0 if no client errs).
    """
    held = (examples > 0) & ~accuracy.isnan().all(0)
    values, weights = accuracy[:, held], examples[held].to(accuracy.dtype)
    weights = weights / weights.sum()
    mean, std = values.mean(1), values.std(1, correction=0)
    weighted = (values @ weights).unsqueeze(1)
    error = 1 - mean
    worst_30, worst_30_weighted = worst(values, weights, 30)
    return {
        "accuracy_unweighted": mean,
        "accuracy_std": std,
        "accuracy_std_weighted": ((values - weighted).square() @ weights).sqrt(),
        "accuracy_worst_30": worst_30,
        "accuracy_worst_10": worst(values, weights, 10)[0],
        "accuracy_worst_30_weighted": worst_30_weighted,
        "error_rsd": torch.where(error > 0, std / error, torch.zeros_like(error)),
    }


def worst(accuracy: Tensor, weights: Tensor, percent: int) -> tuple[Tensor, Tensor]:
    """The mean accuracy of the clients with the lowest, with equal weights and weighted.

    The percentage is of the *number* of clients, rounded up: "the worst 30 %" are never fewer than
    30 %, and at least one. Among equal clients the first ones are taken. AdaFedAdam does not define
    its "worst 30 %". This choice of clients with the weighted mean comes closest to its Tables 5
    and 7.

    Args:
        accuracy: accuracies ``[C, clients]`` of C models, for clients that have examples.
        weights: ``[clients]``, in proportion to the clients' examples.
        percent: 1..100.

    Returns:
        Two tensors ``[C]``.
    """
    count = -(-accuracy.shape[1] * percent // 100)
    values, order = (part[:, :count] for part in accuracy.sort(dim=1, stable=True))
    chosen = weights[order]
    return values.mean(1), (values * chosen).sum(1) / chosen.sum(1)
