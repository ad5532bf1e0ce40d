"""Delta-SGD's MNIST: 100 overlapping clients with label skew, a shallow CNN."""

from __future__ import annotations

import os

from torch import Tensor

from fedlib.models import DeltaCNN
from fedlib.task import Task
from fedlib.tasks.auto_tuned import image_task

MEAN, STD = 0.1307, 0.3081


def transform(x: Tensor, keys: Tensor | None) -> Tensor:
    """uint8 ``[..., 28, 28]`` -> float32 ``[..., 1, 28, 28]``, MNIST's mean 0 and deviation 1."""
    return ((x.float() / 255 - MEAN) / STD).unsqueeze(-3)


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str = "mnist",
    clients: int | None = None,
    sizes: int | str | None = None,
    alpha: float = 0.1,
    author_split: bool = False,
    test_examples: int | None = None,
    width: float | None = None,
) -> Task:
    """100 clients of 500 examples with labels from Dirichlet(alpha), 10 a round, 500 rounds.

    Sources: Delta-SGD section 4 and appendix B; its authors' code for what is illegible. ``quick``:
    20 clients of 100 examples, half of the width, 500 test images, 20 rounds.

    Args:
        seed: of the partition.
        data: the prepared data set; without it the offline stand-in of ``mnist``.
        clients: how many.
        sizes: examples of each client; ``"100-500"`` draws each client's from this range (Table 3).
        alpha: concentration of the Dirichlet distribution; 1, 0.1 and 0.01 in the paper.
        author_split: train as the authors' code does, on the first 90 % of each client's examples
            in the order of their labels; see :func:`fedlib.partition.dirichlet_overlapping`.
        test_examples: how many test images, drawn at random; default 500 (``quick``) or all.
        width: factor on all layer widths.
    """
    quick = preset == "quick"
    width = (0.5 if quick else 1.0) if width is None else width
    return image_task(
        "mnist",
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
        rounds=20 if quick else 500,
        options={"width": float(width)},
        label="MNIST",
    )
