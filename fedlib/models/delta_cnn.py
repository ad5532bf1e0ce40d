"""The shallow convolutional network of Delta-SGD's MNIST and Fashion-MNIST tasks."""

import torch.nn.functional as F
from torch import Tensor

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Conv2d, Dropout, Dropout2d, Flatten, Linear, MaxPool2d, scaled


class DeltaCNN(Architecture):
    """Two 5x5 convolutions and two dense layers with dropout, 21,840 parameters.

    The paper says "two convolutional and two fully connected layers with dropout and ReLU". Sizes
    and order come from the authors' code: conv 10 - pool - ReLU, conv 20 - dropout of channels -
    pool - ReLU, dense 50 - ReLU - dropout, dense. The code ends with a log-softmax before a
    cross-entropy that applies another, which changes nothing, so this one ends with logits. Initial
    values are torch's default.

    Args:
        classes: number of outputs.
        width: multiplies the 10 and 20 channels and the 50 hidden units.

    Input ``[..., 1, 28, 28]``, output logits ``[..., classes]``.
    """

    def __init__(self, classes: int = 10, width: float = 1.0) -> None:
        super().__init__()
        first, second, hidden = (scaled(count, width) for count in (10, 20, 50))
        self.conv1 = Conv2d(1, first, 5)
        self.conv2 = Conv2d(first, second, 5)
        self.dropout1 = Dropout2d(0.5)
        self.pool = MaxPool2d(2)
        self.flatten = Flatten()
        self.dense1 = Linear(4 * 4 * second, hidden)
        self.dropout2 = Dropout(0.5)
        self.dense2 = Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        """The hidden layer's activations before their dropout, ``[..., 50]`` at full width."""
        x = F.relu(self.pool(self.conv1(x)))
        x = F.relu(self.pool(self.dropout1(self.conv2(x))))
        return F.relu(self.dense1(self.flatten(x)))

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., classes]`` from :meth:`features`."""
        return self.dense2(self.dropout2(features))
