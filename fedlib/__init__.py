"""fedlib: federated optimization in PyTorch, and four papers reproduced with it.

>>> import fedlib
>>> task = fedlib.load_task("quadratic")
>>> history = fedlib.run(task, "fedavg", rounds=5, overrides={"local_steps": 2})
>>> list(history.frame.columns)
['round', 'split', 'metric', 'value']
"""

from fedlib import partitioners as partition
from fedlib.algorithms import METHODS as _METHODS
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
from fedlib.engine import History, RunConfig, grid, run
from fedlib.errors import Error
from fedlib.optimizers import client, server
from fedlib.optimizers import mime as base
from fedlib.optimizers import torch as torch_optim
from fedlib.optimizers.client import SGD, SGDM, SPS, DeltaSGD
from fedlib.tasks import TASKS as _TASKS
from fedlib.tasks import ClientData, Task, load_task, quadratic_task

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
    "list_algorithms",
    "list_tasks",
    "load_task",
    "partition",
    "quadratic_task",
    "run",
    "server",
    "torch_optim",
]


def list_tasks() -> list[str]:
    """The names of all tasks."""
    return list(_TASKS)


def list_algorithms() -> list[str]:
    """The names of all algorithms."""
    return list(_METHODS)
