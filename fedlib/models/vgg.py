"""The VGG11 of AdaFedAdam's Cifar10 setup."""

import math

import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.errors import require
from fedlib.models.architecture import Architecture
from fedlib.models.layers import Conv2d, Dropout, Flatten, Linear, MaxPool2d, scaled

# Configuration A of Simonyan and Zisserman (2014): channels, and "M" for max-pooling.
CONFIGURATION = (64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M")


class VGG11(Architecture):
    """Eight 3x3 convolutions and three dense layers for 32x32 images: 9,750,922 parameters.

    AdaFedAdam's text says "VGG11 with slight modifications" and refers to its Figure 4, which our
    text copy of the paper lacks. The setup is otherwise FedNova's, so this is the network of
    FedNova's published code: no batch normalisation, and a head of dropout-512-ReLU twice before
    the last layer. Dense layers start as in torch.

    Args:
        classes: number of outputs.
        width: multiplies all channels and hidden units.
        init: initial convolutions. With ``"torch"`` weight and bias are from U(-a, a) with a^2 = 1
            / fan_in, as in torch. With ``"fednova"`` weights are from N(0, 2 / (9 * outputs)) and
            biases zero, as in that code.

    Input ``[..., 3, 32, 32]``, output logits ``[..., classes]``.
    """

    def __init__(self, classes: int = 10, width: float = 1.0, init: str = "fednova") -> None:
        super().__init__()
        require(init in ("fednova", "torch"), "init", init, "'fednova' or 'torch'")
        layers: list[nn.Module] = []
        channels = 3
        for entry in CONFIGURATION:
            if isinstance(entry, str):
                # Pooling before the ReLU gives the same numbers and gradients, with a quarter of
                # its work.
                layers.insert(-1, MaxPool2d(2))
                continue
            outputs = scaled(entry, width)
            convolution = Conv2d(channels, outputs, 3, padding=1)
            if init == "fednova":
                nn.init.normal_(convolution.weight, std=math.sqrt(2 / (9 * outputs)))
                assert convolution.bias is not None
                nn.init.zeros_(convolution.bias)
            layers += [convolution, nn.ReLU()]
            channels = outputs
        self.convolutions = nn.Sequential(*layers)
        self.flatten = Flatten()
        self.dropout1 = Dropout(0.5)
        self.dense1 = Linear(channels, channels)
        self.dropout2 = Dropout(0.5)
        self.dense2 = Linear(channels, channels)
        self.dense3 = Linear(channels, classes)

    def features(self, x: Tensor) -> Tensor:
        """The last hidden layer's activations, ``[..., 512]`` at full width."""
        x = self.flatten(self.convolutions(x))
        x = F.relu(self.dense1(self.dropout1(x)))
        return F.relu(self.dense2(self.dropout2(x)))

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., classes]`` from :meth:`features`."""
        return self.dense3(features)
