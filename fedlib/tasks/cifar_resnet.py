"""Delta-SGD's CIFAR tasks: 100 overlapping clients with label skew, ResNet-18 and ResNet-50."""

from __future__ import annotations

import os
from functools import partial

from fedlib.models import ResNet
from fedlib.task import Task
from fedlib.tasks import images
from fedlib.tasks.auto_tuned import image_task

# name -> (data, depth, the paper's label)
TASKS = {
    "cifar10_resnet18": ("cifar10", 18, "CIFAR-10 ResNet-18"),
    "cifar100_resnet18": ("cifar100", 18, "CIFAR-100 ResNet-18"),
    "cifar100_resnet50": ("cifar100", 50, "CIFAR-100 ResNet-50"),
}
QUICK_WIDTHS = {18: 1 / 16, 50: 1 / 32}
CONSTANTS = {"cifar10": images.CIFAR10, "cifar100": images.CIFAR100}


def load(
    name: str,
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str | None = None,
    clients: int | None = None,
    sizes: int | str | None = None,
    alpha: float = 0.1,
    author_split: bool = False,
    test_examples: int | None = None,
    width: float | None = None,
    norm: str = "batch",
) -> Task:
    """100 clients of 500 examples with labels from Dirichlet(alpha), 10 a round, 2000 rounds.

    Sources: Delta-SGD section 4 and appendix B; its authors' code for what is illegible or left
    out: random crops after padding by 4, flips, pixels shifted and scaled by channel. ``quick``: 20
    clients of 100 examples, a 16th (ResNet-50: a 32nd) of the width, 500 test images, 10 rounds.

    Args:
        name: ``cifar10_resnet18``, ``cifar100_resnet18`` or ``cifar100_resnet50``.
        seed: of the partition.
        data: the prepared data set; default ``cifar10`` or ``cifar100``, else its offline stand-in.
        clients: how many.
        sizes: examples of each client; ``"100-500"`` draws each client's from this range (Table 3).
        alpha: concentration of the Dirichlet distribution; 1, 0.1 and 0.01 in the paper.
        author_split: train as the authors' code does, on the first 90 % of each client's examples
            in the order of their labels; see :func:`fedlib.partition.dirichlet_overlapping`.
        test_examples: how many test images, drawn at random; default 500 (``quick``) or all.
        width: factor on all channel counts.
        norm: ``"batch"``, as in the code behind the printed numbers but without its running
            statistics, or ``"group"``; see :class:`fedlib.models.ResNet`.
    """
    own_data, depth, label = TASKS[name]
    quick = preset == "quick"
    width = (QUICK_WIDTHS[depth] if quick else 1.0) if width is None else width
    return image_task(
        name,
        preset,
        seed,
        data_root,
        data=own_data if data is None else data,
        clients=clients,
        sizes=sizes,
        alpha=alpha,
        author_split=author_split,
        test_examples=test_examples,
        model=lambda classes: ResNet(depth, classes, width=width, norm=norm),
        transform=partial(images.cifar_transform, constants=CONSTANTS[own_data], pad=4),
        rounds=10 if quick else 2000,
        options={"width": float(width), "norm": norm},
        label=label,
    )
