"""The papers' tasks by name."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from typing import Any

from fedlib.errors import Error, unknown
from fedlib.task import ClientData, Task
from fedlib.tasks.quadratic import quadratic_task

# name -> (module, papers that use it, what it is). A module that serves several tasks takes the
# name as its first argument.
TASKS: dict[str, tuple[str, str, str]] = {
    "quadratic": ("quadratic", "", "random strongly convex quadratics, exact gradients"),
    "cifar10": (
        "cifar10",
        "fedopt",
        "CIFAR-10, Dirichlet(0.1) over 500 clients, ResNet-18 GroupNorm",
    ),
    "cifar100": (
        "cifar100",
        "fedopt",
        "CIFAR-100, Pachinko allocation to 500 clients, ResNet-18 GroupNorm",
    ),
    "emnist_cr": ("emnist_cr", "fedopt, mime", "EMNIST character recognition by writer, CNN"),
    "emnist_ae": ("emnist_ae", "fedopt", "EMNIST autoencoder by writer"),
    "shakespeare": ("shakespeare", "fedopt, mime", "next character by role, 2-layer LSTM"),
    "stackoverflow_nwp": (
        "stackoverflow_nwp",
        "fedopt, mime",
        "Stack Overflow next-word prediction by user, LSTM",
    ),
    "stackoverflow_lr": (
        "stackoverflow_lr",
        "fedopt",
        "Stack Overflow tag prediction by user, logistic regression",
    ),
    "fair_femnist": ("fair_femnist", "adafedadam", "FEMNIST by writer, MLP-128"),
    "fair_cifar10": ("fair_cifar10", "adafedadam", "CIFAR-10 over 16 Dirichlet silos, VGG11"),
    "fair_sent140": ("fair_sent140", "adafedadam", "sentiment of tweets by user, LSTM on GloVe"),
    "synthetic": ("synthetic", "adafedadam", "softmax regression on LEAF's Synthetic, 100 clients"),
    "emnist_logistic": ("emnist_logistic", "mime", "EMNIST by writer, logistic regression"),
    "emnist_mlp": ("emnist_mlp", "mime", "EMNIST by writer, MLP 300-100"),
    "mnist": ("mnist", "delta_sgd", "MNIST, Dirichlet over 100 clients, small CNN"),
    "fashion_mnist": (
        "fashion_mnist",
        "delta_sgd",
        "Fashion-MNIST, Dirichlet over 100 clients, small CNN",
    ),
    "cifar10_resnet18": ("cifar_resnet", "delta_sgd", "CIFAR-10, Dirichlet, ResNet-18"),
    "cifar100_resnet18": ("cifar_resnet", "delta_sgd", "CIFAR-100, Dirichlet, ResNet-18"),
    "cifar100_resnet50": ("cifar_resnet", "delta_sgd", "CIFAR-100, Dirichlet, ResNet-50"),
    "ag_news": ("news", "delta_sgd", "AG News, Dirichlet over 50 clients, DistilBERT"),
    "dbpedia": ("news", "delta_sgd", "DBpedia, Dirichlet over 50 clients, DistilBERT"),
}
PRESETS = ("quick", "paper")

__all__ = ["PRESETS", "TASKS", "ClientData", "Task", "load_task", "quadratic_task"]


def load_task(
    name: str,
    preset: str = "quick",
    seed: int = 0,
    data_root: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Task:
    """A task of the papers.

    Args:
        name: from :func:`fedlib.list_tasks`.
        preset: ``"quick"`` (the same code with smaller numbers) or ``"paper"`` (the paper's
            settings).
        seed: of the partition, and of generated data.
        data_root: where prepared data lies; default ``FEDLIB_DATA``, else ``data/``.
        **options: the task's own, for instance ``width=0.25`` of cifar10; see its module.

    Raises:
        Error: unknown name, preset or option, or a value out of range.
    """
    if name not in TASKS:
        raise unknown("task", name, TASKS)
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise Error(f"seed is {seed!r}; allowed: a whole number >= 0")
    load = importlib.import_module(f"fedlib.tasks.{TASKS[name][0]}").load
    own = ("name", "preset", "seed", "data_root")
    known = [p for p in inspect.signature(load).parameters if p not in own]
    for option in options:
        if option not in known:
            raise unknown(f"option of task {name}", option, known)
    if "name" in inspect.signature(load).parameters:
        load = functools.partial(load, name)
    task: Task = load(preset=preset, seed=seed, data_root=data_root, **options)
    return task
