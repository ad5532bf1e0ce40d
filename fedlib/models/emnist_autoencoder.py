"""The dense autoencoder of FedOpt's EMNIST AE (its Table 3)."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, scaled, start


class EMNISTAutoencoder(Architecture):
    """784-1000-500-250-30-250-500-1000-784, with 2,837,314 parameters.

    All layers end with a sigmoid except the 30 code units, which are linear in the authors' code
    (the table's caption says sigmoid at all dense layers). As in Keras, weights start
    Glorot-uniform and biases at zero.
    as Keras does.

    Args:
        width: multiplies the hidden units, including the code's.
        pixels: number of pixels of an image.
        hidden: units of the encoder's layers. The last entry is the code.

    Input and output ``[..., pixels]``, in [0, 1].
    """

    def __init__(
        self,
        width: float = 1.0,
        pixels: int = 784,
        hidden: Sequence[int] = (1000, 500, 250, 30),
    ) -> None:
        super().__init__()
        half = [pixels, *(scaled(count, width) for count in hidden)]
        units = [*half, *half[-2::-1]]
        layers = [Linear(inputs, outputs) for inputs, outputs in pairwise(units)]
        for layer in layers:
            start(layer)
        self.encoder = nn.ModuleList(layers[: len(hidden)])
        self.decoder = nn.ModuleList(layers[len(hidden) :])

    def features(self, x: Tensor) -> Tensor:
        """The code, ``[..., 30]`` in the paper."""
        *hidden, last = self.encoder
        for layer in hidden:
            x = torch.sigmoid(layer(x))
        return last(x)

    def head(self, features: Tensor) -> Tensor:
        """Pixels ``[..., pixels]`` from the code."""
        for layer in self.decoder:
            features = torch.sigmoid(layer(features))
        return features
