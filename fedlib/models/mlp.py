"""Multilayer perceptrons: Mime's on EMNIST (Figure 1), AdaFedAdam's on Femnist, and those without a
hidden layer: AdaFedAdam's on Synthetic, Mime's logistic regression, FedOpt's Stack Overflow LR.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.losses import short_cross_entropy
from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, scaled, start


class MLP(Architecture):
    """Dense layers with ReLU between them.

    ``MLP(784, (300, 100), 62)`` has 271,862 parameters. It is Mime's "300u-100" network, read as
    LeNet 300-100 (which the paper cited there made popular). ``MLP(784, (128,), 62)`` has 108,478
    and is AdaFedAdam's "128 hidden nodes", read as one hidden layer. Neither paper states the
    initial values. AdaFedAdam's authors used torch.

    Args:
        features: number of inputs.
        hidden: units of each hidden layer.
        classes: number of outputs.
        width: multiplies the hidden units.
        init: initial weights and biases, ``"keras"`` or ``"torch"``. See
            :func:`fedlib.models.layers.start`.

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
            start(layer, init)

    def features(self, x: Tensor) -> Tensor:
        """The last hidden layer's activations, ``[..., F]``."""
        for layer in self.hidden:
            x = F.relu(layer(x))
        return x

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., classes]`` from :meth:`features`."""
        return self.output(features)

    @staticmethod
    def cross_entropy_and_grad(
        leaves: Sequence[Tensor], x: Tensor, y: Tensor, weights: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Cross-entropies ``[R, B]``, and gradients of their weighted sums, by backpropagation.

        Small networks spend their time in autograd's bookkeeping: it made a round of synthetic,
        without a hidden layer, 1.6 times as long. Activations and their gradients d are ``[R,
        units, B]``. Layers are processed from the last to the first. With p the softmax and e_y the
        target's unit vector, the last has d = weight * (p - e_y). In each layer dW = d h' and db =
        sum_b d, and the layer below has W' d where its h is positive.

        Args:
            leaves: each layer's weight ``[R, out, in]`` and bias ``[R, out]``.
            x, y, weights: ``[G, B, D]`` with G dividing R, int64 ``[R, B]``, and ``[R, B]``.
        """
        layers = list(zip(leaves[::2], leaves[1::2], strict=True))
        (weight, bias), (groups, size) = layers[0], x.shape[:2]
        # [(R // G) * out, D] @ [D, B] for each input row, as configurations share a client's data.
        left = weight.reshape(groups, -1, weight.shape[-1])
        h = torch.baddbmm(bias.reshape(groups, -1, 1), left, x.transpose(1, 2))
        h, hidden = h.view(weight.shape[0], -1, size), []
        for weight, bias in layers[1:]:
            hidden.append(h.relu_())
            h = torch.baddbmm(bias.unsqueeze(-1), weight, hidden[-1])
        losses, gradient = short_cross_entropy(h.transpose(1, 2), y)
        d = gradient(weights).transpose(1, 2)
        grads: list[Tensor] = []
        for (weight, _), below in zip(reversed(layers[1:]), reversed(hidden), strict=True):
            grads = [torch.bmm(d, below.transpose(1, 2)), d.sum(-1), *grads]
            d = torch.bmm(weight.transpose(1, 2), d).mul_(below > 0)
        first = torch.bmm(d.reshape(groups, -1, size), x)
        return losses, [first.view(layers[0][0].shape), d.sum(-1), *grads]


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


class TagModel(Softmax):
    """One weight vector and a bias for each tag: 5,000,500 parameters for 10,000 words.

    The sigmoid is part of the loss (:func:`fedlib.losses.binary_cross_entropy`). As in Keras,
    weights start Glorot-uniform and biases at zero. There are no hidden units to reduce.

    Input bags of words ``[..., words]``, output logits ``[..., tags]``.
    """

    def __init__(self, words: int = 10_000, tags: int = 500) -> None:
        super().__init__(words, tags)
