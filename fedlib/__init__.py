"""fedlib: federated optimization in PyTorch, and four papers reproduced with it.

>>> import fedlib
>>> task = fedlib.load_task("quadratic")
>>> history = fedlib.run(task, "fedavg", rounds=5, overrides={"local_steps": 2})
>>> list(history.frame.columns)
['round', 'split', 'metric', 'value']
"""

# ruff: noqa: F401, F403 (type checkers read the imports)

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedlib import partitioners as partition
    from fedlib.algorithms import *
    from fedlib.engine import History, RunConfig, evaluate, grid, predict, run  # type: ignore[no-redef]
    from fedlib.errors import Error
    from fedlib.figures import plot
    from fedlib.optimizers import client, server
    from fedlib.optimizers import mime as base
    from fedlib.optimizers.client import SGD, SGDM, SPS, ClippedSGD, DeltaSGD
    from fedlib.tasks import (
        ClientData,
        Task,
        from_datasets,
        image_task,
        load_task,
        quadratic_task,
        table_task,
        text_task,
    )

__version__ = "0.1.0"

# The modules of the public names. They are imported on first use, so that the command line can
# answer, and be interrupted, before PyTorch is loaded.
_NAMES = {
    "algorithms": "AdaAlter AdaFedAdam Algorithm Centralized FedNova FedOpt LocMime Lookahead Mime "
    "MimeLite MimeLiteMVR MimeMVR Moon NAccAdam Objective Proximal QFedAvg Scaffold "
    "clients_for_budget",
    "engine": "History RunConfig evaluate grid predict run",
    "errors": "Error",
    "figures": "plot",
    "optimizers.client": "ClippedSGD DeltaSGD SGD SGDM SPS",
    "tasks": "ClientData Task from_datasets image_task load_task quadratic_task table_task "
    "text_task",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = {
    "base": "optimizers.mime",
    "client": "optimizers.client",
    "partition": "partitioners",
    "server": "optimizers.server",
}
__all__ = sorted([*_PLACES, *_MODULES, "list_algorithms", "list_tasks"])


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place = f"{__name__}.{_PLACES.get(name) or _MODULES.get(name, name)}"
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as problem:
        if problem.name != place:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(module, name) if name in _PLACES else module
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def list_tasks() -> list[str]:
    """The names of fedlib's tasks.

    Example:
        >>> import fedlib
        >>> "synthetic" in fedlib.list_tasks()
        True
    """
    from fedlib.tasks import TASKS

    return list(TASKS)


def list_algorithms() -> list[str]:
    """The names of fedlib's algorithms.

    Example:
        >>> import fedlib
        >>> fedlib.list_algorithms()[:4]
        ['fedavg', 'fedavgm', 'fedadagrad', 'fedadam']
    """
    from fedlib.algorithms import METHODS

    return list(METHODS)
