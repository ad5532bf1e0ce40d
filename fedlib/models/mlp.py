"""Multilayer perceptrons: Mime's on EMNIST (Figure 1) and AdaFedAdam's on Femnist."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, scaled, start_dense


class MLP(Architecture):
    """Dense layers with ReLU between them.

    ``MLP(784, (300, 100), 62)`` has 271,862 parameters: Mime's "300u-100" network, read as LeNet
    300-100 (the paper cites the work that made this one popular). ``MLP(784, (128,), 62)`` has
    108,478: AdaFedAdam's "128 hidden nodes", read as one hidden layer. Neither paper states the
    initial values; AdaFedAdam worked with torch.

    Args:
        features: numbers in an input.
        hidden: units of each hidden layer.
        classes: numbers in an output.
        width: multiplies the hidden units.
        init: where weights and biases start, ``"keras"`` or ``"torch"``; see
            :func:`fedlib.models.layers.start_dense`.

    Input ``[..., features]``, output logits ``[..., classes]``.
    """

    def __init__(
        self,
        features: int = 784,
        hidden: Sequence[int] = (300, 100),
        classes: int = 62,
        width: float = 1.0,
        init: str = "keras",
    ) -> None:
        super().__init__()
        units = [features, *(scaled(count, width) for count in hidden)]
        self.hidden = nn.ModuleList(Linear(inputs, outputs) for inputs, outputs in pairwise(units))
        self.output = Linear(units[-1], classes)
        for layer in (*self.hidden, self.output):
            start_dense(layer, init)

    def features(self, x: Tensor) -> Tensor:
        """The last hidden layer's activations, ``[..., F]``."""
        for layer in self.hidden:
            x = F.relu(layer(x))
        return x

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., classes]`` from :meth:`features`."""
        logits: Tensor = self.output(features)
        return logits
