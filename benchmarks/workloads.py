"""The workloads of the benchmark: five tasks like the papers', and pfl-research's setting."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib import models
from fedlib.losses import cross_entropy, sequence_cross_entropy, squared_error
from fedlib.task import PerExample

# The epsilon of the ResNet's norms, as in FedOpt's code.
EPS = 1e-3
# The learning rate of the clients' SGD.
RATE = 0.03


@dataclass(frozen=True)
class Workload:
    """One setting to be timed.

    Attributes:
        model: makes the network of fedlib's layers, from a factor on its width.
        plain: makes the same network of torch's own layers, for the other ways.
        inputs: makes ``(x, y)`` of n random examples.
        loss: per-example loss.
        examples: examples per client.
        batch: examples per local step.
        cohort: clients per round.
    """

    model: Callable[[float], nn.Module]
    plain: Callable[[float], nn.Module]
    inputs: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
    loss: PerExample
    examples: int
    batch: int
    cohort: int = 10


class PlainShakespeare(nn.Module):
    """FedOpt's Shakespeare network of torch's own layers."""

    def __init__(self, width: float) -> None:
        super().__init__()
        hidden = round(256 * width)
        self.embedding = nn.Embedding(90, 8)
        self.lstm = nn.LSTM(8, hidden, num_layers=2, batch_first=True)
        self.dense = nn.Linear(hidden, 90)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.dense(self.lstm(self.embedding(x))[0])
        return logits


class Rows(nn.Sequential):
    """fedlib's layers one after the other."""

    carries_rows = True


def cnn(layers: Any, channels: int, points: int, classes: int, width: float) -> list[nn.Module]:
    """The layers of two convolutions and two dense layers.

    FedOpt's EMNIST network is ``cnn(layers, 1, 144, 62, width)``, pfl-research's for CIFAR-10
    ``cnn(layers, 3, 196, 10, width)``.

    Args:
        layers: ``torch.nn`` or :mod:`fedlib.models.layers`.
        points: number of an image's points after the pooling.
    """
    a, b, c = (round(n * width) for n in (32, 64, 128))
    return [
        layers.Conv2d(channels, a, 3),
        nn.ReLU(),
        layers.Conv2d(a, b, 3),
        layers.MaxPool2d(2),  # before the ReLU, which then has a quarter of the work
        nn.ReLU(),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Linear(points * b, c),
        nn.ReLU(),
        layers.Dropout(0.5),
        layers.Linear(c, classes),
    ]


def plain_autoencoder(width: float) -> nn.Module:
    """FedOpt's EMNIST autoencoder of torch's own layers."""
    a, b, c, code = (round(n * width) for n in (1000, 500, 250, 30))
    layers: list[nn.Module] = []
    sizes = (784, a, b, c, code, c, b, a, 784)
    for inputs, outputs in itertools.pairwise(sizes):
        layers.append(nn.Linear(inputs, outputs))
        layers += [] if outputs == code else [nn.Sigmoid()]
    return nn.Sequential(*layers)


class PlainBlock(nn.Module):
    """A block of :class:`PlainResNet`: norm - ReLU - conv3x3, twice, added to the input."""

    def __init__(self, inputs: int, outputs: int, first: bool) -> None:
        super().__init__()
        self.norm1 = nn.Identity() if first else nn.GroupNorm(2, inputs, EPS)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.GroupNorm(2, outputs, EPS)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.shortcut = nn.Sequential()
        if inputs != outputs:
            conv = nn.Conv2d(inputs, outputs, 1, bias=False)
            self.shortcut = nn.Sequential(conv, nn.GroupNorm(2, outputs, EPS))

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv1(F.relu(self.norm1(x)))
        total: Tensor = self.conv2(F.relu(self.norm2(y))) + self.shortcut(x)
        return total


def plain_resnet(width: float) -> nn.Module:
    """FedOpt's ResNet-18 of torch's own layers, for images whose sides are divisible by 4."""
    channels = [max(2, round(n * width / 2) * 2) for n in (64, 128, 256, 512)]
    pairs = itertools.pairwise([channels[0], *(n for n in channels for _ in range(2))])
    stem = nn.Conv2d(3, channels[0], 7, stride=2, bias=False)
    return nn.Sequential(
        nn.ZeroPad2d((2, 3, 2, 3)),
        stem,
        nn.GroupNorm(2, channels[0], EPS),
        nn.ReLU(),
        nn.ZeroPad2d((0, 1, 0, 1)),
        nn.MaxPool2d(3, stride=2),
        *(PlainBlock(a, b, first=not count) for count, (a, b) in enumerate(pairs)),
        nn.GroupNorm(2, channels[-1], EPS),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels[-1], 10),
    )


def _images(*shape: int, classes: int) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    def make(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, *shape, generator=generator)
        return x, torch.randint(classes, (n,), generator=generator)

    return make


def _characters(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    text = torch.randint(1, 90, (n, 81), generator=generator)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def _pixels(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.rand(n, 784, generator=generator)
    return x, x


WORKLOADS: dict[str, Workload] = {
    "W1": Workload(
        # Logistic regression 60 to 10, 100 examples a client, batch 10.
        lambda width: models.Softmax(60, 10),
        lambda width: nn.Linear(60, 10),
        _images(60, classes=10),
        cross_entropy,
        examples=100,
        batch=10,
    ),
    "W2": Workload(
        # EMNIST CNN, 100 examples a client, batch 20.
        lambda width: models.EMNISTCNN(62, width=width),
        lambda width: nn.Sequential(*cnn(nn, 1, 144, 62, width)),
        _images(1, 28, 28, classes=62),
        cross_entropy,
        examples=100,
        batch=20,
    ),
    "W3": Workload(
        # ResNet-18 with GroupNorm on 24x24 images, 100 examples a client, batch 20.
        lambda width: models.ResNet18GN(10, width=width),
        plain_resnet,
        _images(3, 24, 24, classes=10),
        cross_entropy,
        examples=100,
        batch=20,
    ),
    "W4": Workload(
        # Shakespeare LSTM, 20 sequences of 80 characters a client, batch 4.
        lambda width: models.ShakespeareLSTM(90, width=width),
        PlainShakespeare,
        _characters,
        sequence_cross_entropy,
        examples=20,
        batch=4,
    ),
    "W5": Workload(
        # EMNIST autoencoder, 100 examples a client, batch 20.
        lambda width: models.EMNISTAutoencoder(width=width),
        plain_autoencoder,
        _pixels,
        squared_error,
        examples=100,
        batch=20,
    ),
    "P": Workload(
        # Pfl-research's CIFAR-10 setting, 1,626,442 parameters: 50 clients a round, 50 images each,
        # batch 10.
        lambda width: Rows(*cnn(models.layers, 3, 196, 10, width)),
        lambda width: nn.Sequential(*cnn(nn, 3, 196, 10, width)),
        _images(3, 32, 32, classes=10),
        cross_entropy,
        examples=50,
        batch=10,
        cohort=50,
    ),
}
