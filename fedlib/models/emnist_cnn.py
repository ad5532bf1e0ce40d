"""The convolutional network of FedOpt's EMNIST character recognition (its Table 4)."""

import torch.nn.functional as F
from torch import Tensor

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Conv2d, Dropout, Flatten, Linear, MaxPool2d, scaled, start


class EMNISTCNN(Architecture):
    """Two 3x3 convolutions, max-pooling and two dense layers: 1,206,590 parameters for 62 classes.

    The table does not show the activations. The authors' code has a ReLU after both convolutions
    and after the first dense layer. As in Keras, weights start Glorot-uniform and biases at zero.
    Images are flattened channel first (Keras: channel last), which only renames the dense layer's
    inputs.

    Args:
        classes: 62 for all characters, 10 for digits.
        width: multiplies the 32 and 64 channels and the 128 hidden units.

    Input ``[..., 1, 28, 28]``, output logits ``[..., classes]``.
    """

    def __init__(self, classes: int = 62, width: float = 1.0) -> None:
        super().__init__()
        first, second, hidden = (scaled(count, width) for count in (32, 64, 128))
        self.conv1 = Conv2d(1, first, 3)
        self.conv2 = Conv2d(first, second, 3)
        self.pool = MaxPool2d(2)
        self.dropout1 = Dropout(0.25)
        self.flatten = Flatten()
        self.dense1 = Linear(12 * 12 * second, hidden)
        self.dropout2 = Dropout(0.5)
        self.dense2 = Linear(hidden, classes)
        for layer in (self.conv1, self.conv2, self.dense1, self.dense2):
            start(layer)

    def features(self, x: Tensor) -> Tensor:
        """The hidden layer's activations before their dropout, ``[..., 128]`` at full width."""
        x = F.relu(self.conv1(x))
        # Pooling first gives the same numbers and gradients with a quarter of the ReLU's work.
        x = F.relu(self.pool(self.conv2(x)))
        x = self.flatten(self.dropout1(x))
        return F.relu(self.dense1(x))

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., classes]`` from :meth:`features`."""
        return self.dense2(self.dropout2(features))
