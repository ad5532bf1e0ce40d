"""Softmax regression: for AdaFedAdam's Synthetic task and Mime's logistic regression."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fedlib.losses import short_cross_entropy
from fedlib.models.layers import Linear, start


class Softmax(nn.Module):
    """Logits ``[..., classes]`` from ``[..., features]``: one weight matrix and a bias.

    Args:
        features, classes: numbers in an input and in an output.
        init: where weights and biases start, ``"keras"`` or ``"torch"``; see
            :func:`fedlib.models.layers.start`.
    """

    carries_rows = True

    def __init__(self, features: int = 60, classes: int = 10, init: str = "keras") -> None:
        super().__init__()
        self.linear = Linear(features, classes)
        start(self.linear, init)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @staticmethod
    def cross_entropy_and_grad(
        leaves: Sequence[Tensor], x: Tensor, y: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Cross-entropies ``[R, B]``, and gradients of their weighted sums, in closed form.

        With p the softmax and e_y the target's unit vector, d = weight * (p - e_y) gives the bias
        gradient sum_b d_b and the weight gradient sum_b d_b x_b'. A model this small spends its
        time in autograd's bookkeeping: with it a round of synthetic took 1.6 times as long.

        Args:
            leaves: weight ``[R, K, D]`` and bias ``[R, K]``.
            x: ``[G, B, D]``, G dividing R; y: int64 ``[R, B]``; weights: ``[R, B]``.
        """
        weight, bias = leaves
        groups, rows = len(x), len(weight)
        # [(R // G) * K, D] @ [D, B] for each input row: configurations share their client's data.
        left = weight.reshape(groups, -1, weight.shape[-1])
        logits = torch.baddbmm(bias.reshape(groups, -1, 1), left, x.transpose(1, 2))
        losses, gradient = short_cross_entropy(logits.view(rows, -1, x.shape[1]).transpose(1, 2), y)
        d = gradient(weights).transpose(1, 2)
        grad = torch.bmm(d.reshape(groups, -1, x.shape[1]), x)
        return losses, [grad.view(weight.shape), d.sum(-1)]
