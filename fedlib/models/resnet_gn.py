"""The ResNet-18 with group normalisation of FedOpt's CIFAR-10 and CIFAR-100."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.models.architecture import Architecture
from fedlib.models.layers import (
    Conv2d,
    GlobalAvgPool2d,
    GroupNorm,
    Linear,
    MaxPool2d,
    he_normal_,
    same_padding,
    scaled,
)

EPS = 1e-3  # Keras' default. Torch's is 1e-5


class BasicBlock(nn.Module):
    """norm - ReLU - conv3x3 - norm - ReLU - conv3x3, added to the raw input (pre-activation).

    Args:
        first: leave out the norm and the ReLU before the first convolution, because the stem ends
            with them.

    If the channels change, the raw input passes a 1x1 convolution and a norm of its own.
    """

    def __init__(self, inputs: int, outputs: int, groups: int, first: bool = False) -> None:
        super().__init__()
        self.norm1 = None if first else GroupNorm(groups, inputs, EPS)
        self.conv1 = Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm2 = GroupNorm(groups, outputs, EPS)
        self.conv2 = Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut: nn.Sequential | None = None
        if inputs != outputs:
            self.shortcut = nn.Sequential(
                Conv2d(inputs, outputs, 1, bias=False), GroupNorm(groups, outputs, EPS)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.norm1 is None else F.relu(self.norm1(x))
        y = self.conv2(F.relu(self.norm2(self.conv1(y))))
        return y + (x if self.shortcut is None else self.shortcut(x))


class ResNet18GN(Architecture):
    """ResNet-18 v2 with group normalisation, as FedOpt's published code builds it for 24x24 crops.

    The stem is conv7x7 with stride 2 and no bias - norm - ReLU - maxpool3x3 with stride 2, both
    with TensorFlow's "same" padding (24 -> 12 -> 6). Then come 4 stages of 64, 128, 256 and 512
    channels with 2 basic blocks each. All have stride 1: unlike in the usual ResNet-18, every stage
    works on 6x6 points. Blocks are pre-activated except the first convolution of the very first
    one. The end is norm - ReLU - global average - dense. There are 11,181,642 parameters for 10
    classes and 11,227,812 for 100: 20 convolutions (11,166,912 weights), 20 norms (4,800 channels)
    and the dense layer.

    Convolutions start as Keras' he_normal, the dense weights from N(0, 0.01), norms at 1 and biases
    at 0.

    Args:
        classes: 10 or 100.
        width: multiplies all channel counts (rounded to multiples of ``groups``).
        groups: groups of every norm. The paper's numbers used 2. The public code now has 32.

    Input ``[..., 3, H, W]`` (24x24 in the paper), output logits ``[..., classes]``.
    """

    def __init__(self, classes: int = 10, width: float = 1.0, groups: int = 2) -> None:
        super().__init__()
        channels = [scaled(count, width, groups) for count in (64, 128, 256, 512)]
        self.conv = Conv2d(3, channels[0], 7, stride=2, bias=False)
        self.norm1 = GroupNorm(groups, channels[0], EPS)
        self.pool = MaxPool2d(3, stride=2)
        blocks: list[BasicBlock] = []
        inputs = channels[0]
        for outputs in channels:
            blocks.append(BasicBlock(inputs, outputs, groups, first=not blocks))
            blocks.append(BasicBlock(outputs, outputs, groups))
            inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.norm2 = GroupNorm(groups, inputs, EPS)
        self.average = GlobalAvgPool2d()
        self.dense = Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, Conv2d):
                he_normal_(module.weight)
        nn.init.normal_(self.dense.weight, std=0.01)
        nn.init.zeros_(self.dense.bias)

    def features(self, x: Tensor) -> Tensor:
        """The pooled features, ``[..., 512]`` at full width."""
        x = F.relu(self.norm1(self.conv(same_padding(x, 7, 2))))
        x = self.pool(same_padding(x, 3, 2, value=-math.inf))
        return self.average(F.relu(self.norm2(self.blocks(x))))
