"""A small convolutional network for images of any size, the default of users' own images."""

import torch.nn.functional as F
from torch import Tensor

from fedlib.errors import require
from fedlib.models.architecture import Architecture
from fedlib.models.layers import Conv2d, Flatten, Linear, MaxPool2d, scaled


class SmallCNN(Architecture):
    """Two 3x3 convolutions of 16 and 32 channels with max-pooling, and two dense layers.

    ``SmallCNN(1, (8, 8), 10)`` has 13,706 parameters. Initial values are torch's default.

    Args:
        channels: channels of an image.
        size: height and width of an image, 4 or more.
        classes: number of outputs.
        width: multiplies the 16 and 32 channels and the 64 hidden units.

    Input ``[..., channels, height, width]``, output logits ``[..., classes]``.
    """

    def __init__(
        self, channels: int, size: tuple[int, int], classes: int, width: float = 1.0
    ) -> None:
        super().__init__()
        require(min(size) >= 4, "size of an image", size, "4 points or more a side")
        first, second, hidden = (scaled(count, width) for count in (16, 32, 64))
        self.conv1 = Conv2d(channels, first, 3, padding=1)
        self.conv2 = Conv2d(first, second, 3, padding=1)
        self.pool = MaxPool2d(2)
        self.flatten = Flatten()
        self.dense1 = Linear(size[0] // 4 * (size[1] // 4) * second, hidden)
        self.dense = Linear(hidden, classes)

    def features(self, x: Tensor) -> Tensor:
        """The hidden layer's activations, ``[..., 64]`` at full width."""
        x = F.relu(self.pool(self.conv1(x)))
        x = F.relu(self.pool(self.conv2(x)))
        return F.relu(self.dense1(self.flatten(x)))
