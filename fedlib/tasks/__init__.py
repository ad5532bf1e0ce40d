"""The papers' tasks by name."""

from __future__ import annotations

import importlib
import inspect
import os
from typing import Any

from fedlib.errors import Error, unknown
from fedlib.tasks.base import ClientData, Task
from fedlib.tasks.quadratic import quadratic_task

# name -> (module, papers that use it, what it is)
TASKS: dict[str, tuple[str, str, str]] = {
    "quadratic": ("quadratic", "", "random strongly convex quadratics, exact gradients"),
    "synthetic": ("synthetic", "adafedadam", "softmax regression on LEAF's Synthetic, 100 clients"),
    "emnist_cr": ("emnist_cr", "fedopt, mime", "EMNIST character recognition by writer, CNN"),
    "cifar10": (
        "cifar10",
        "fedopt",
        "CIFAR-10, Dirichlet(0.1) over 500 clients, ResNet-18 GroupNorm",
    ),
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
    known = [
        p for p in inspect.signature(load).parameters if p not in ("preset", "seed", "data_root")
    ]
    for option in options:
        if option not in known:
            raise unknown(f"option of task {name}", option, known)
    task: Task = load(preset=preset, seed=seed, data_root=data_root, **options)
    return task
