"""Softmax regression: for AdaFedAdam's Synthetic task and Mime's logistic regression."""

from __future__ import annotations

from torch import Tensor, nn

from fedlib.models.layers import Linear, glorot_uniform_


class Softmax(nn.Module):
    """Logits ``[..., classes]`` from ``[..., features]``: one weight matrix and a bias.

    Weights start Glorot-uniform, biases at zero.
    """

    carries_rows = True

    def __init__(self, features: int = 60, classes: int = 10) -> None:
        super().__init__()
        self.linear = Linear(features, classes)
        glorot_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x)
        return logits
