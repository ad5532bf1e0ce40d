"""Per-example losses and metrics: outputs and targets ``[R, B, ...]`` to ``[R, B]``.

A metric may be a pair (numerator, denominator), each ``[R, B]``; the two are summed apart.

A loss may declare the targets that it needs, as these do: :func:`needs`. They are then compared
with what the model gives before a run's first step; those of a loss that declares nothing are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fedlib.errors import unknown

# What targets a loss may need, for outputs [..., K]: whole numbers [...] in 0..K-1; finite numbers
# of the outputs' shape; the same between 0 and 1.
CLASSES, VALUES, SHARES = "classes", "values", "shares"
Loss = TypeVar("Loss", bound=Callable[[Tensor, Tensor], Tensor])


def needs(kind: str) -> Callable[[Loss], Loss]:
    """Declare that a loss needs targets of a kind: ``"classes"``, ``"values"`` or ``"shares"``.

    Example:
        >>> @needs(VALUES)
        ... def absolute_error(outputs: Tensor, targets: Tensor) -> Tensor:
        ...     return (outputs - targets).abs().mean(-1)
    """
    if kind not in (CLASSES, VALUES, SHARES):
        raise unknown("kind of targets", kind, (CLASSES, VALUES, SHARES))

    def declare(loss: Loss) -> Loss:
        loss.targets = kind  # type: ignore[attr-defined]
        return loss

    return declare


# On a CPU torch's log_softmax is slow along a short last axis. Forward and backward at 10 classes,
# one thread: torch took 3.3 times as long for 20,000 examples, 1.2 for 1000, 0.6 for 100.
SHORT = 32


def short_cross_entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
    """Cross-entropies ``[..., B]`` along a short last axis, and their gradient.

    log sum_j exp(z_j) - z_y, with z shifted by its maximum; the gradient by the logits of what
    ``weights [..., B]`` make of them is weight * (softmax - e_y), as a function of the weights.
    """
    index = targets.long().unsqueeze(-1)
    shifted = logits - logits.amax(-1, keepdim=True)
    at_target = shifted.gather(-1, index).squeeze(-1)
    # Below -80 a term is under 1e-34 of the sum. As zero it is exact enough for float64, while
    # the denormal numbers near exp(-90) would run a hundred times slower.
    terms = F.threshold(shifted, -80.0, -torch.inf, inplace=True).exp_()
    # A product with ones sums short rows several times faster than sum(-1).
    total = terms @ terms.new_ones(terms.shape[-1], 1)

    def gradient(weights: Tensor) -> Tensor:
        weights = weights.unsqueeze(-1)
        return (terms * (weights / total)).scatter_add_(-1, index, -weights)

    return total.squeeze(-1).log() - at_target, gradient


class _ShortCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        losses, ctx.gradient = short_cross_entropy(logits, targets)
        return losses

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.gradient(grads[0]), None


@needs(CLASSES)
def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropies ``[R, B]`` of ``outputs [R, B, classes]`` at whole ``targets [R, B]``."""
    if outputs.device.type == "cpu" and outputs.shape[-1] < SHORT:
        losses: Tensor = _ShortCrossEntropy.apply(outputs, targets)
        return losses
    flat = F.cross_entropy(outputs.flatten(0, 1), targets.long().flatten(), reduction="none")
    return flat.view(targets.shape)


def correct(outputs: Tensor, targets: Tensor) -> Tensor:
    """1 where the largest output is at the target, else 0: ``[R, B]``."""
    return (outputs.contiguous().argmax(-1) == targets).to(outputs.dtype)


@needs(CLASSES)
def sequence_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy ``[R, B]`` over all T steps, padded ones too.

    The language models' published runs averaged over padding: Keras did not pass masks to a loss
    of its own until 2022. ``outputs [R, B, T, V]``, ``targets [R, B, T]`` of any integer type.
    """
    flat = F.cross_entropy(outputs.flatten(0, 2), targets.long().flatten(), reduction="none")
    return flat.view(targets.shape).mean(-1)


def masked_accuracy(ignore: Sequence[int]) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A metric: of the target tokens that are not in ``ignore``, the share predicted right.

    The maximum is taken over the whole vocabulary, special tokens included.
    """

    def accuracy(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        y = targets.long()
        counted = torch.ones_like(y, dtype=torch.bool)
        for token in ignore:
            counted &= y != token
        hits = (outputs.argmax(-1) == y) & counted
        return hits.sum(-1).to(outputs.dtype), counted.sum(-1).to(outputs.dtype)

    return accuracy


@needs(VALUES)
def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error ``[R, B]`` over the features of ``outputs, targets [R, B, F]``."""
    return (outputs - targets).square().mean(-1)


@needs(VALUES)
def mse_x1000(outputs: Tensor, targets: Tensor) -> Tensor:
    """1000 times :func:`squared_error`, the unit of FedOpt's EMNIST autoencoder results."""
    return 1000 * squared_error(outputs, targets)


@needs(SHARES)
def binary_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean binary cross-entropy ``[R, B]`` over the tags of logits ``outputs [R, B, K]``.

    ``targets [R, B, K]`` of 0 and 1.
    """
    each = F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype), reduction="none")
    return each.mean(-1)


def recall_at_5(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """A metric: of all true tags of all examples, the share among the example's five largest.

    ``outputs, targets [R, B, K]``. Sums over examples come first ("micro"), as in Keras.
    """
    top = outputs.topk(min(5, outputs.shape[-1]), dim=-1).indices
    positives = targets.to(outputs.dtype)
    return positives.gather(-1, top).sum(-1), positives.sum(-1)
