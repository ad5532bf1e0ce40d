"""Federated algorithms by name.

``build("fedadam", client_lr=0.03)`` makes a method from the papers' words for its hyperparameters.
Composed methods are made from the classes directly, for instance ``FedOpt(client=...,
server=...)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from fedlib.algorithms.adaalter import AdaAlter
from fedlib.algorithms.adafedadam import AdaFedAdam
from fedlib.algorithms.base import Algorithm, Client, clients_for_budget
from fedlib.algorithms.centralized import Centralized
from fedlib.algorithms.fedadagrad import fedadagrad
from fedlib.algorithms.fedadam import fedadam
from fedlib.algorithms.fedavg import fedavg
from fedlib.algorithms.fedavgm import fedavgm
from fedlib.algorithms.fednova import FedNova
from fedlib.algorithms.fedopt import FedOpt
from fedlib.algorithms.fedprox import fedprox
from fedlib.algorithms.fedyogi import fedyogi
from fedlib.algorithms.loc_mime import LocMime
from fedlib.algorithms.lookahead import Lookahead, lookahead
from fedlib.algorithms.mime import Mime
from fedlib.algorithms.mime_mvr import MimeMVR
from fedlib.algorithms.mimelite import MimeLite
from fedlib.algorithms.mimelite_mvr import MimeLiteMVR
from fedlib.algorithms.moon import moon
from fedlib.algorithms.n_accadam import NAccAdam
from fedlib.algorithms.objectives import Moon, Objective, Proximal
from fedlib.algorithms.qfedavg import QFedAvg
from fedlib.algorithms.scaffold import Scaffold
from fedlib.arguments import brought, called, check, checked, shown
from fedlib.component import Component
from fedlib.errors import Error, require_known, unknown
from fedlib.optimizers import client as clients
from fedlib.optimizers import mime as bases

# name -> what makes the method with its defaults: its class, or a function that composes it.
METHODS: dict[str, Callable[[], Algorithm]] = {
    "fedavg": fedavg,
    "fedavgm": fedavgm,
    "fedadagrad": fedadagrad,
    "fedadam": fedadam,
    "fedyogi": fedyogi,
    "fedprox": fedprox,
    "fednova": FedNova,
    "qfedavg": QFedAvg,
    "adafedadam": AdaFedAdam,
    "moon": moon,
    "n_accadam": NAccAdam,
    "scaffold": Scaffold,
    "lookahead": lookahead,
    "adaalter": AdaAlter,
    "centralized": Centralized,
    "mime": Mime,
    "mimelite": MimeLite,
    "loc_mime": LocMime,
    "mime_mvr": MimeMVR,
    "mimelite_mvr": MimeLiteMVR,
}
CLIENT_OPTIMIZERS: dict[str, type[clients.ClientOptimizer]] = {
    "sgd": clients.SGD,
    "sgdm": clients.SGDM,
    "clipped_sgd": clients.ClippedSGD,
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
    "build",
    "clients_for_budget",
    "hyperparameters",
]


@cache
def _default(name: str) -> Algorithm:
    """One of :data:`METHODS` with its defaults, made once: nobody can change it."""
    return METHODS[name]()


def _made(algorithm: str | Algorithm | type[Algorithm]) -> tuple[Algorithm, str]:
    """A method from a name or a class (with its defaults), and its name in error messages."""
    method: Any = algorithm
    if isinstance(algorithm, str):
        name = algorithm
        method = _default(name) if name in METHODS else brought("algorithm", name, METHODS)
    else:
        name = (algorithm if isinstance(algorithm, type) else type(algorithm)).__name__
    if not isinstance(method, Algorithm) and callable(method):
        method = called(f"algorithm {name!r}", method)
    if not isinstance(method, Algorithm):
        raise Error(
            f"algorithm {name!r} gives {shown(method)}, but must be a class derived from "
            "fedlib.Algorithm, a function that makes a method, or a method"
        )
    return method, name


@checked
def hyperparameters(
    algorithm: str | Algorithm | type[Algorithm], client_optimizer: str | None = None
) -> dict[str, Any]:
    """The hyperparameters of an algorithm and their defaults.

    They are the fields of the method and of its parts, by their names. Only the ``lr`` of client
    and server are ``client_lr`` and ``server_lr``, and a field of the client optimizer that the
    server has too is ``client_momentum`` and so on. If the method has a base optimizer, ``base`` is
    its name, and the fields of all bases are known.

    Args:
        algorithm: for instance ``"fedadam"``, a method, or a class of methods.
        client_optimizer: adds the fields of this optimizer, for instance ``momentum`` of
            ``"sgdm"``. Default: the method's client optimizer.

    Raises:
        Error: unknown algorithm or client optimizer, or one that has no meaning in the algorithm.
    """
    places = _places(*_made(algorithm), client_optimizer)
    return {key: place.default for key, place in places.items()}


@checked
def build(algorithm: str | Algorithm | type[Algorithm], **values: Any) -> Algorithm:
    """An algorithm with hyperparameters in the papers' words.

    Args:
        algorithm: one of :data:`METHODS`, ``"MODULE:NAME"`` of your own (a method, or a class or
            function that makes one without arguments), a method, or a class of methods.
        **values: hyperparameters. :func:`hyperparameters` lists their names and defaults.

    Raises:
        Error: unknown name, unknown key, a value of the wrong type or out of its range.
    """
    method, name = _made(algorithm)
    optimizer = values.pop("client_optimizer", None)
    if values.get("client_schedule", "") is None:
        del values["client_schedule"]
    places = _places(method, name, optimizer)
    changes: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        require_override(name, key, places)
        value = value.item() if isinstance(value, np.generic) else value
        check(places[key].owner, places[key].field, value, f"override {key}")
        changes.setdefault(places[key].part, {})[places[key].field] = value
    direct = changes.pop("", {})
    if optimizer is not None and hasattr(method, "client"):
        chosen = _client(method, optimizer)
        direct["client"] = dataclasses.replace(chosen, **changes.pop("client", {}))
    if "base" in changes:
        numbers = changes.pop("base")
        kind = str(numbers.pop("type", places["base"].default))
        known = getattr(method, "BASES", bases.BASES)
        require_known("base", kind, known)
        if kind == places["base"].default:
            numbers = vars(getattr(method, "base", None)) | numbers
        base_class = known[kind]
        names = {field.name for field in dataclasses.fields(base_class)} & numbers.keys()
        direct["base"] = base_class(**{name: numbers[name] for name in names})
    for part, fields in changes.items():
        direct[part] = dataclasses.replace(getattr(method, part), **fields)
    return dataclasses.replace(method, **direct) if direct else method


def require_override(name: str, key: str, known: Iterable[str]) -> None:
    """Require a hyperparameter that a method has.

    Raises:
        Error: the method has no such hyperparameter. The message names keywords that may be meant.
    """
    if key not in (known := list(known)):
        owners = [
            repr(owner)
            for owner, kind in CLIENT_OPTIMIZERS.items()
            if "client_optimizer" in known
            and key in {field.name for field in dataclasses.fields(kind)} - {"lr"}
        ]
        if owners:
            where = f"it is of client_optimizer={' or '.join(owners)}"
            raise Error(f"unknown override for {name} {key!r}: {where}")
        raise Error(f"{unknown(f'override for {name}', key, known)} (keywords or overrides={{}})")


@dataclasses.dataclass(frozen=True)
class _Place:
    """The place of an override: a field of the method (part ``""``) or of one of its parts."""

    part: str
    field: str
    owner: type[Component]
    default: Any


def _client(method: Any, name: str | None) -> clients.ClientOptimizer:
    """The client optimizer of this name. The method's own numbers stay if it has the same class."""
    own: clients.ClientOptimizer = method.client
    kind = type(own) if name is None else CLIENT_OPTIMIZERS[name]
    return own if type(own) is kind else kind()


def _places(method: Algorithm, name: str, client_optimizer: str | None) -> dict[str, _Place]:
    """The places of a method's hyperparameters, by override key.

    Args:
        name: the method's name in errors.
        client_optimizer: replaces the method's client optimizer.
    """
    if client_optimizer is not None:
        require_known("client_optimizer", client_optimizer, CLIENT_OPTIMIZERS)
    places: dict[str, _Place] = {}

    def add(part: str, owner: Component) -> None:
        for field in (field.name for field in dataclasses.fields(owner)):
            default = getattr(owner, field)
            if isinstance(default, Component) or field in getattr(owner, "unused", ()):
                continue
            key = field
            if field == "lr":
                key = "client_lr" if part == "client" else "server_lr"
            elif part == "client" and field in places:
                key = f"client_{field}"
            places.setdefault(key, _Place(part, field, type(owner), default))

    add("", method)
    for part in ("server", "objective"):
        if hasattr(method, part):
            add(part, getattr(method, part))
    if hasattr(method, "base"):
        kinds = {kind: base for base, kind in getattr(method, "BASES", bases.BASES).items()}
        base = kinds.get(type(method.base), type(method.base).__name__)
        places["base"] = _Place("base", "type", Component, base)
        for each in (method.base, *(kind() for kind in kinds)):
            add("base", each)
    if hasattr(method, "client"):
        optimizer = _client(method, client_optimizer)
        add("client", optimizer)
        names = {kind: known for known, kind in CLIENT_OPTIMIZERS.items()}
        usual = names.get(type(optimizer), type(optimizer).__name__)
        places["client_optimizer"] = _Place("", "client", Component, usual)
    elif client_optimizer not in (None, "sgd"):
        raise Error(
            f"client_optimizer is {client_optimizer!r}, but {name} defines the clients' steps "
            "itself: leave client_optimizer out"
        )
    return places
