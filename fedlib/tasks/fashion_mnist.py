"""Delta-SGD's FMNIST: Fashion-MNIST on 100 overlapping clients with label skew, a shallow CNN."""

from __future__ import annotations

import os

from fedlib.models import DeltaCNN
from fedlib.task import Task
from fedlib.tasks.auto_tuned import image_task
from fedlib.tasks.mnist import transform


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str = "fashion_mnist",
    clients: int | None = None,
    sizes: int | str | None = None,
    alpha: float = 0.1,
    author_split: bool = False,
    test_examples: int | None = None,
    width: float | None = None,
) -> Task:
    """As :func:`fedlib.tasks.mnist.load`, with Fashion-MNIST and 1000 rounds.

    The pixels are shifted and scaled with MNIST's mean and deviation, as in the authors' code.

    Args:
        data: the prepared data set; without it the offline stand-in of ``fashion_mnist``.
        seed, clients, sizes, alpha, author_split, test_examples, width: see mnist.
    """
    quick = preset == "quick"
    width = (0.5 if quick else 1.0) if width is None else width
    return image_task(
        "fashion_mnist",
        preset,
        seed,
        data_root,
        data=data,
        clients=clients,
        sizes=sizes,
        alpha=alpha,
        author_split=author_split,
        test_examples=test_examples,
        model=lambda classes: DeltaCNN(classes, width=width),
        transform=transform,
        rounds=20 if quick else 1000,
        options={"width": float(width)},
        label="FMNIST",
    )
