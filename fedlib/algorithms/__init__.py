"""Federated algorithms by name.

``build("fedadam", client_lr=0.03)`` makes a method from the papers' words for its hyperparameters;
composed methods are made from the classes directly, for instance ``FedOpt(client=...,
server=...)``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

from fedlib.algorithms.adaalter import AdaAlter
from fedlib.algorithms.adafedadam import AdaFedAdam, adafedadam
from fedlib.algorithms.base import Algorithm, Client
from fedlib.algorithms.budget import clients_for_budget
from fedlib.algorithms.centralized import Centralized, centralized
from fedlib.algorithms.fedadagrad import fedadagrad
from fedlib.algorithms.fedadam import fedadam
from fedlib.algorithms.fedavg import fedavg
from fedlib.algorithms.fedavgm import fedavgm
from fedlib.algorithms.fednova import FedNova
from fedlib.algorithms.fedopt import FedOpt
from fedlib.algorithms.fedprox import fedprox
from fedlib.algorithms.fedyogi import fedyogi
from fedlib.algorithms.loc_mime import LocMime, loc_mime
from fedlib.algorithms.lookahead import Lookahead, lookahead
from fedlib.algorithms.mime import Mime, mime
from fedlib.algorithms.mime_mvr import MimeMVR
from fedlib.algorithms.mimelite import MimeLite, mimelite
from fedlib.algorithms.mimelite_mvr import MimeLiteMVR
from fedlib.algorithms.moon import moon
from fedlib.algorithms.n_accadam import NAccAdam
from fedlib.algorithms.objectives import Moon, Objective, Proximal
from fedlib.algorithms.qfedavg import QFedAvg, qfedavg
from fedlib.algorithms.scaffold import Scaffold
from fedlib.algorithms.server_only import ServerOnly
from fedlib.errors import Error, unknown
from fedlib.optimizers import client as clients

METHODS: dict[str, Callable[..., Algorithm]] = {
    "fedavg": fedavg,
    "fedavgm": fedavgm,
    "fedadagrad": fedadagrad,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedprox": fedprox,
    "fednova": FedNova,
    "qfedavg": qfedavg,
    "adafedadam": adafedadam,
    "moon": moon,
    "n_accadam": NAccAdam,
    "scaffold": Scaffold,
    "lookahead": lookahead,
    "adaalter": AdaAlter,
    "centralized": centralized,
    "mime": mime,
    "mimelite": mimelite,
    "loc_mime": loc_mime,
    "mime_mvr": MimeMVR,
    "mimelite_mvr": MimeLiteMVR,
}
CLIENT_OPTIMIZERS: dict[str, type[clients.ClientOptimizer]] = {
    "sgd": clients.SGD,
    "sgdm": clients.SGDM,
    "adam": clients.Adam,
    "adagrad": clients.Adagrad,
    "sps": clients.SPS,
    "delta_sgd": clients.DeltaSGD,
}

__all__ = [
    "CLIENT_OPTIMIZERS",
    "METHODS",
    "AdaAlter",
    "AdaFedAdam",
    "Algorithm",
    "Centralized",
    "Client",
    "FedNova",
    "FedOpt",
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
    "Scaffold",
    "ServerOnly",
    "build",
    "clients_for_budget",
    "hyperparameters",
]


def hyperparameters(name: str, client_optimizer: str = "sgd") -> dict[str, Any]:
    """The hyperparameters of a named algorithm and their defaults.

    Args:
        name: the algorithm, for instance ``"fedadam"``.
        client_optimizer: adds that optimizer's own, for instance ``client_momentum`` of ``"sgdm"``.

    Raises:
        Error: unknown algorithm or client optimizer, or one that has no meaning in the algorithm.
    """
    if name not in METHODS:
        raise unknown("algorithm", name, METHODS)
    if client_optimizer not in CLIENT_OPTIMIZERS:
        raise unknown("client_optimizer", client_optimizer, CLIENT_OPTIMIZERS)
    own = {p.name: p.default for p in inspect.signature(METHODS[name]).parameters.values()}
    method = METHODS[name]()
    if hasattr(method, "client"):
        optimizer = CLIENT_OPTIMIZERS[client_optimizer]
        if not optimizer.takes_lr:
            own.pop("client_lr", None)
        elif not optimizer.rate_of_sgd:
            own["client_lr"] = optimizer().lr
        for field in dataclasses.fields(optimizer):
            if field.name != "lr":
                own[_client_key(field.name, own)] = field.default
        own["client_optimizer"] = client_optimizer
    elif client_optimizer != "sgd":
        raise Error(
            f"client_optimizer is {client_optimizer!r}, but {name} defines the clients' steps "
            "itself; leave client_optimizer out"
        )
    if hasattr(method, "client_schedule"):
        own["client_schedule"] = "constant"
    return own


def _client_key(field: str, own: dict[str, Any]) -> str:
    """A client optimizer's field goes by its own name unless the server has one of that name."""
    return f"client_{field}" if field in own else field


def build(name: str, **values: Any) -> Algorithm:
    """A named algorithm with hyperparameters in the papers' words.

    Args:
        name: one of :data:`METHODS`.
        **values: hyperparameters; see :func:`hyperparameters` for the names and defaults.

    Raises:
        Error: unknown name, unknown key, a value of the wrong type or out of its range.
    """
    optimizer = values.pop("client_optimizer", "sgd")
    schedule = values.pop("client_schedule", None)
    known = hyperparameters(name, optimizer)
    for key, value in values.items():
        if key not in known:
            raise unknown(f"override for {name}", key, known)
        _check_type(key, value, known[key])
    own = inspect.signature(METHODS[name]).parameters
    method = METHODS[name](**{key: value for key, value in values.items() if key in own})
    parts: dict[str, Any] = {}
    if optimizer != "sgd":
        optimizer_class = CLIENT_OPTIMIZERS[optimizer]
        settings: dict[str, Any] = {}
        if optimizer_class.takes_lr:
            settings["lr"] = values.get("client_lr", known["client_lr"])
        for field in dataclasses.fields(optimizer_class):
            key = _client_key(field.name, dict(own))
            if field.name != "lr" and key in values:
                settings[field.name] = values[key]
        parts["client"] = optimizer_class(**settings)
    if schedule is not None:
        if "client_schedule" not in known:
            raise unknown(f"override for {name}", "client_schedule", known)
        parts["client_schedule"] = schedule
    return dataclasses.replace(method, **parts) if parts else method


_WORDS = {"base", "form", "first_step"}
_SWITCHES = {
    "split",
    "lean",
    "reset",
    "bias_correction",
    "nesterov",
    "reuse_gradient",
    "shared_masks",
    "relative_loss",
}


def _check_type(key: str, value: Any, default: Any) -> None:
    if value is None and default is None:
        return
    if key in _SWITCHES:
        good, allowed = isinstance(value, bool), "true or false"
    elif key in _WORDS:
        good, allowed = isinstance(value, str), "a word"
    else:
        good = isinstance(value, (int, float)) and not isinstance(value, bool)
        allowed = "a number"
    if not good:
        raise Error(f"override {key} is {value!r}; allowed: {allowed}")
