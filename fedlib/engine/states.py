"""States are nested dicts of tensors; these operations work on all of their leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

State = dict[str, Any]


def map_state(function: Callable[..., Tensor], *states: State) -> State:
    """``function`` applied to corresponding tensors of states of the same shape."""
    first = states[0]
    return {
        name: map_state(function, *(state[name] for state in states))
        if isinstance(first[name], dict)
        else function(*(state[name] for state in states))
        for name in first
    }


def spread(state: State, clients: int) -> State:
    """Give every tensor the client axis ``[M, C, .]``; what clients share is not copied."""
    return map_state(lambda t: t if t.dim() == 3 else t.expand(clients, *t.shape), state)


def narrow(state: State, start: int, stop: int) -> State:
    """The clients ``start..stop-1`` of a state with the client axis."""
    return map_state(lambda t: t[start:stop], state)


def join(pieces: Sequence[State]) -> State:
    """The inverse of cutting a state into pieces along the client axis."""
    if len(pieces) == 1:
        return pieces[0]

    def cat(*parts: Tensor) -> Tensor:
        first = parts[0]
        if all(part.stride(0) == 0 and part.data_ptr() == first.data_ptr() for part in parts):
            return first[:1].expand(sum(len(part) for part in parts), *first.shape[1:])
        return torch.cat(parts)

    return map_state(cat, *pieces)


def choose(condition: Tensor, new: State, old: State) -> State:
    """``new`` where ``condition [C, 1]`` holds, else ``old``, for server states ``[C, .]``."""
    return map_state(lambda a, b: torch.where(condition, a, b), new, old)
