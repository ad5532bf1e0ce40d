"""Softmax regression: for AdaFedAdam's Synthetic task and Mime's logistic regression."""

from __future__ import annotations

from torch import Tensor, nn

from fedlib.models.layers import Linear, start
from fedlib.models.mlp import MLP


class Softmax(nn.Module):
    """Logits ``[..., classes]`` from ``[..., features]``: one weight matrix and a bias.

    Args:
        features, classes: number of inputs and of outputs.
        init: initial weights and biases, ``"keras"`` or ``"torch"``. See
            :func:`fedlib.models.layers.start`.
    """

    carries_rows = True
    cross_entropy_and_grad = staticmethod(MLP.cross_entropy_and_grad)  # without hidden layers

    def __init__(self, features: int = 60, classes: int = 10, init: str = "keras") -> None:
        super().__init__()
        self.linear = Linear(features, classes)
        start(self.linear, init)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)
