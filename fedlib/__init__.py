"""fedlib: federated optimization in PyTorch, and four papers reproduced with it.

>>> import fedlib
>>> task = fedlib.load_task("quadratic")
>>> history = fedlib.run(task, "fedavg", rounds=5, overrides={"local_steps": 2})
>>> list(history.frame.columns)
['round', 'split', 'metric', 'value']
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedlib import partitioners as partition
    from fedlib.algorithms import (
        AdaAlter,
        AdaFedAdam,
        Algorithm,
        Centralized,
        FedNova,
        FedOpt,
        LocMime,
        Lookahead,
        Mime,
        MimeLite,
        MimeLiteMVR,
        MimeMVR,
        Moon,
        NAccAdam,
        Objective,
        Proximal,
        QFedAvg,
        Scaffold,
        ServerOnly,
        clients_for_budget,
    )
    from fedlib.engine import History, RunConfig, grid, run  # type: ignore[no-redef]
    from fedlib.errors import Error
    from fedlib.figures import plot
    from fedlib.optimizers import client, server
    from fedlib.optimizers import mime as base
    from fedlib.optimizers import torch as torch_optim
    from fedlib.optimizers.client import SGD, SGDM, SPS, DeltaSGD
    from fedlib.tasks import (
        ClientData,
        Task,
        image_task,
        load_task,
        quadratic_task,
        text_task,
    )

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "SGDM",
    "SPS",
    "AdaAlter",
    "AdaFedAdam",
    "Algorithm",
    "Centralized",
    "ClientData",
    "DeltaSGD",
    "Error",
    "FedNova",
    "FedOpt",
    "History",
    "LocMime",
    "Lookahead",
    "Mime",
    "MimeLite",
    "MimeLiteMVR",
    "MimeMVR",
    "Moon",
    "NAccAdam",
    "Objective",
    "Proximal",
    "QFedAvg",
    "RunConfig",
    "Scaffold",
    "ServerOnly",
    "Task",
    "base",
    "client",
    "clients_for_budget",
    "grid",
    "image_task",
    "list_algorithms",
    "list_tasks",
    "load_task",
    "partition",
    "plot",
    "quadratic_task",
    "run",
    "server",
    "text_task",
    "torch_optim",
]


# Where the public names are, ``module:attribute``. They are imported when they are asked for, so
# that the command line can answer, and be interrupted, before PyTorch is there.
_PLACES = {
    "AdaAlter": "fedlib.algorithms:AdaAlter",
    "AdaFedAdam": "fedlib.algorithms:AdaFedAdam",
    "Algorithm": "fedlib.algorithms:Algorithm",
    "Centralized": "fedlib.algorithms:Centralized",
    "ClientData": "fedlib.tasks:ClientData",
    "DeltaSGD": "fedlib.optimizers.client:DeltaSGD",
    "Error": "fedlib.errors:Error",
    "FedNova": "fedlib.algorithms:FedNova",
    "FedOpt": "fedlib.algorithms:FedOpt",
    "History": "fedlib.engine:History",
    "LocMime": "fedlib.algorithms:LocMime",
    "Lookahead": "fedlib.algorithms:Lookahead",
    "Mime": "fedlib.algorithms:Mime",
    "MimeLite": "fedlib.algorithms:MimeLite",
    "MimeLiteMVR": "fedlib.algorithms:MimeLiteMVR",
    "MimeMVR": "fedlib.algorithms:MimeMVR",
    "Moon": "fedlib.algorithms:Moon",
    "NAccAdam": "fedlib.algorithms:NAccAdam",
    "Objective": "fedlib.algorithms:Objective",
    "Proximal": "fedlib.algorithms:Proximal",
    "QFedAvg": "fedlib.algorithms:QFedAvg",
    "RunConfig": "fedlib.engine:RunConfig",
    "SGD": "fedlib.optimizers.client:SGD",
    "SGDM": "fedlib.optimizers.client:SGDM",
    "SPS": "fedlib.optimizers.client:SPS",
    "Scaffold": "fedlib.algorithms:Scaffold",
    "ServerOnly": "fedlib.algorithms:ServerOnly",
    "Task": "fedlib.tasks:Task",
    "base": "fedlib.optimizers.mime:",
    "client": "fedlib.optimizers.client:",
    "clients_for_budget": "fedlib.algorithms:clients_for_budget",
    "grid": "fedlib.engine:grid",
    "image_task": "fedlib.tasks:image_task",
    "load_task": "fedlib.tasks:load_task",
    "partition": "fedlib.partitioners:",
    "plot": "fedlib.figures:plot",
    "quadratic_task": "fedlib.tasks:quadratic_task",
    "run": "fedlib.engine:run",
    "server": "fedlib.optimizers.server:",
    "text_task": "fedlib.tasks:text_task",
    "torch_optim": "fedlib.optimizers.torch:",
}


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    place, _, attribute = _PLACES.get(name, f"{__name__}.{name}:").partition(":")
    try:
        module = importlib.import_module(place)
    except ModuleNotFoundError as problem:
        if problem.name != place:
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = globals()[name] = getattr(module, attribute) if attribute else module
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
