"""States are nested dicts of tensors. These operations work on all of their leaves."""

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlib.arguments import shown
from fedlib.component import State
from fedlib.engine.device import SHARE, free_bytes
from fedlib.errors import Error, Failure

# Types besides tensors in a server's state, with one value for all configurations.
SIMPLE = (int, float, str, list, tuple, type(None), np.generic)
# Memories of up to this many bytes are assumed to fit.
FREE_BYTES = 2**28


def each_tensor(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Dicts, lists and tuples with ``function`` applied to their tensors."""
    if isinstance(value, dict):
        return {name: each_tensor(function, part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(each_tensor(function, part) for part in value)
    return function(value) if isinstance(value, Tensor) else value


def flat(state: State, path: str = "") -> dict[str, Tensor]:
    """A state's tensors by name, with dots in the names of nested ones."""
    tensors: dict[str, Tensor] = {}
    for name, part in state.items():
        if isinstance(part, dict):
            tensors |= flat(part, f"{path}{name}.")
        elif isinstance(part, Tensor):
            tensors[path + name] = part
    return tensors


def chosen(whose: Tensor, left: Any, right: Any) -> Any:
    """``left`` for the configurations in ``whose [C]``, ``right`` for the others. ``left`` alone if
    ``right`` lacks it, or it has no axis of configurations.
    """
    if isinstance(left, dict):
        known = right if isinstance(right, dict) else {}
        return {name: chosen(whose, part, known.get(name)) for name, part in left.items()}
    if not (_by_configuration(left, len(whose)) and isinstance(right, Tensor)):
        return left
    return torch.where(whose.reshape(-1, *[1] * (left.dim() - 1)), left, right)


def kept(places: Tensor | list[int], state: Any, count: int) -> Any:
    """A copy of the configurations at ``places`` of a state, or a tensor, with ``count`` of them.
    Shared values stay.
    """
    return each_tensor(lambda t: t[places] if _by_configuration(t, count) else t, state)


def _by_configuration(value: Any, count: int) -> bool:
    """Whether a value has an axis of ``count`` configurations. Otherwise all share it."""
    return isinstance(value, Tensor) and value.dim() > 0 and len(value) == count


def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """``function`` applied to corresponding tensors of states of the same shape."""
    first = states[0]
    return {
        name: map_state(function, *(state[name] for state in states))
        if isinstance(first[name], dict)
        else function(*(state[name] for state in states))
        for name in first
    }


def require_field(method: object, deed: str, state: Any, field: str = "") -> State:
    """Check the result of a method's function, which the user may have written.

    Raises:
        Error: it is no dict, lacks a tensor, or has a client's number that is no tensor.
    """
    what = f"{deed} of {type(method).__name__} gives"
    if not isinstance(state, dict):
        raise Error(f"{what} {shown(state)}, but must give a dict of tensors")
    _require_values(what, state, deed.startswith("client"))
    if field and not isinstance(state.get(field), Tensor):
        raise Error(f"{what} no {field!r}, but must give that tensor, see fedlib.Algorithm")
    return state


def _require_values(what: str, state: State, client: bool) -> None:
    """Require tensors. In a server's state a number or word is one for all configurations."""
    for name, value in state.items():
        if isinstance(value, dict):
            _require_values(f"{what} in {name!r}", value, client)
        elif not isinstance(value, (Tensor,) if client else (Tensor, *SIMPLE)):
            raise Error(f"{what} {name}={shown(value)}, but must give a tensor: use torch.tensor")


def spread(state: State, clients: int) -> State:
    """Give every tensor the client axis ``[M, C, .]``. Values that clients share are not copied."""
    return map_state(lambda t: t if t.dim() == 3 else t.expand(clients, *t.shape), state)


def narrow(state: State, start: int, stop: int) -> State:
    """The clients ``start..stop-1`` of a state with the client axis."""
    return map_state(lambda t: t[start:stop], state)


def join(pieces: Sequence[State]) -> State:
    """The inverse of splitting a state into pieces along the client axis."""
    if len(pieces) == 1:
        return pieces[0]
    for piece in pieces[1:]:
        more, fewer = sorted(flat(pieces[0])), sorted(flat(piece))
        if fewer != more:
            raise Error(
                f"clients have {more} after more steps and {fewer} after fewer: make all fields in "
                "client_init, for an optimizer in init"
            )

    def cat(*parts: Tensor) -> Tensor:
        first = parts[0]
        if all(part.stride(0) == 0 and part.data_ptr() == first.data_ptr() for part in parts):
            return first[:1].expand(sum(len(part) for part in parts), *first.shape[1:])
        return torch.cat(parts)

    return map_state(cat, *pieces)


def carry_statistics(source: State, target: State) -> State:
    """``target`` with the running statistics of ``source``, if there are any.

    They are separate from an algorithm's own fields, as it may make its states anew.
    """
    return target | {"statistics": source["statistics"]} if "statistics" in source else target


@dataclass
class Progress:
    """The state between two rounds.

    Attributes:
        done: rounds finished.
        alive: positions of the configurations that have not diverged.
        server: their server states, ``[C, .]``.
        final: the last finite parameters of every configuration, ``[all, P]``.
        seconds: seconds spent in rounds.
        spent: seconds in all, including those before the run was stopped and resumed.
    """

    done: int
    alive: list[int]
    server: State
    final: Tensor
    seconds: float = 0.0
    spent: float = 0.0


class ClientStates:
    """A state per client, kept for the clients seen so far.

    Every tensor is ``[seen, C, .]``. Memory grows with the clients seen, not with the population.

    Args:
        device: the device that uses the states.
        home: the device that keeps them. Default: the same. On the host beside a GPU they are
            pinned, and those of a round's clients are transferred.
    """

    def __init__(
        self, population: int, device: torch.device, home: torch.device | None = None
    ) -> None:
        self.slots = np.full(population, -1)
        self.device, self.home = device, home or device
        self.count = 0
        self.tensors: State = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget all states."""
        self.slots.fill(-1)
        self.count, self.tensors = 0, {}

    def unseen(self, clients: np.ndarray) -> np.ndarray:
        """The ``clients`` that have no state yet."""
        return clients[self.slots[clients] < 0]

    def places(self, clients: np.ndarray) -> Tensor:
        """The places of the states of ``clients [M]``, int64 ``[M]`` on the host."""
        return torch.from_numpy(self.slots[clients])

    def reserve(self, clients: np.ndarray) -> Tensor:
        """The places of ``clients [M]``. New clients get a place, to be filled by :meth:`put`."""
        with self._lock:
            new = self.unseen(clients)
            self.slots[new] = np.arange(self.count, self.count + len(new))
            self.count += len(new)
            return self.places(clients)

    def put(self, places: Tensor, state: State) -> None:
        """Store ``state``, tensors ``[M, C, .]``, at ``places [M]``.

        Raises:
            Error: it has other fields than the stored ones.
        """
        places, pinned = places.to(self.home), self.home != self.device
        state = map_state(lambda t: t.to(self.home), state)

        def write(old: Tensor, value: Tensor) -> Tensor:
            if len(old) < self.count:
                room = torch.zeros(
                    self._room(old),
                    *old.shape[1:],
                    dtype=old.dtype,
                    device=old.device,
                    pin_memory=pinned,
                )
                room[: len(old)] = old
                old = room
            old[places] = value
            return old

        with self._lock:
            if not self.tensors:
                self.tensors = map_state(lambda t: t.new_zeros(0, *t.shape[1:]), state)
            before, now = sorted(flat(self.tensors)), sorted(flat(state))
            if now != before:
                raise Error(
                    f"clients remember {before} and then {now}: client_enroll and client_remember, "
                    "or init and step of an optimizer, must give the same fields"
                )
            self.tensors = map_state(write, self.tensors, state)

    def _room(self, old: Tensor) -> int:
        """The number of clients to make space for: twice as many as before, if memory allows.

        Raises:
            Failure: there is not even memory for the clients seen so far.
        """
        size = math.prod(old.shape[1:]) * old.element_size()
        most = min(max(self.count, 2 * len(old)), len(self.slots))
        free = free_bytes(self.home) if most * size > FREE_BYTES else None
        if free is None or most * size <= free:
            return most
        if self.count * size > free:
            raise Failure(
                f"the memories of the {self.count} clients seen so far take "
                f"{self.count * size / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are free: take "
                "fewer clients, a smaller model, or a method whose clients remember nothing"
            )
        return self.count

    def get(self, places: Tensor) -> State:
        """The states at ``places [M]``, 0 or more, as tensors ``[M, C, .]``."""
        with self._lock:
            places = places.to(self.home)
            return map_state(lambda t: t.index_select(0, places).to(self.device), self.tensors)

    def keep(self, configurations: Tensor) -> None:
        """Keep only these configurations (positions along the second axis)."""
        configurations = configurations.to(self.home)
        self.tensors = map_state(
            lambda t: t if t.shape[1] == 1 else t[:, configurations], self.tensors
        )

    def widen(self, configurations: int) -> None:
        """Give each configuration its own copy of shared values."""
        self.tensors = map_state(
            lambda t: t.expand(-1, configurations, -1).clone() if t.shape[1] == 1 else t,
            self.tensors,
        )

    def state_dict(self) -> State:
        """All states in tensors and numbers, not copied."""
        slots = torch.from_numpy(self.slots)
        return {"slots": slots, "count": self.count, "tensors": self.tensors}

    def load_state_dict(self, state: State) -> None:
        """Restore the result of :meth:`state_dict`."""
        self.slots, self.count = state["slots"].cpu().numpy(), state["count"]
        self.tensors = map_state(lambda t: t.to(self.home), state["tensors"])


def remembered(population: int, cohort: int, rounds: int, size: int) -> int:
    """The number of values that a method's clients will remember for one configuration, with the
    model's ``size`` for each client that uniform cohorts are expected to have seen in the end.

    Example:
        >>> remembered(500, 10, 4000, 100), remembered(342_477, 50, 1500, 1)
        (50000, 67361)
    """
    unseen = (1 - min(1.0, cohort / population)) ** rounds
    return math.ceil(population * (1 - unseen)) * size


def home(device: torch.device, numbers: int, itemsize: int) -> torch.device:
    """The device with space for the clients' memories: the device itself, or else the host.

    Raises:
        Failure: neither has space.
    """
    needed, host = numbers * itemsize, torch.device("cpu")
    if needed <= FREE_BYTES:
        return device
    free = free_bytes(device)
    if free is None or needed <= SHARE * free:
        return device
    free = free_bytes(host)
    if device != host and (free is None or needed <= SHARE * free):
        return host
    raise Failure(
        f"the clients' memories would take {needed / 2**30:,.1f} GiB by the last round, but "
        f"{(free or 0) / 2**30:,.1f} GiB are free: take fewer clients or rounds, a smaller model, "
        "or a method whose clients remember nothing"
    )
