"""One run on several devices: one process per rank of torch.distributed, started by torchrun.

Every rank samples the same cohort and trains a share of its clients. Their sums are added in the
ranks' order on every rank, so that all have the same server. Rank 0 alone reads and writes files.
"""

import atexit
import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from fedlib.engine.device import resolve_device
from fedlib.engine.states import each_tensor
from fedlib.errors import Failure, first_line

T = TypeVar("T")
Piece = TypeVar("Piece")


def count() -> int:
    """The number of ranks that run together, 1 without torch.distributed."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def number() -> int:
    """The rank of this process, from 0."""
    return dist.get_rank() if count() > 1 else 0


def join(device: str = "auto") -> None:
    """Join the processes that torchrun has started. A single process continues alone.

    Args:
        device: see :func:`fedlib.run`. On CUDA each rank of a machine takes the GPU of its number.
    """
    if count() > 1 or int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return
    where = resolve_device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    dist.init_process_group("nccl" if where.type == "cuda" else "gloo")
    atexit.register(dist.destroy_process_group)


def gather(value: T) -> list[T]:
    """Every rank's value, in order. Tensors must be on the CPU.

    Raises:
        Failure: another rank has ended.
    """
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    try:
        dist.all_gather_object(values, value)
    except RuntimeError as problem:
        raise _lost(problem) from None
    return values


def first(value: T) -> T:
    """Rank 0's value, on every rank. Tensors must be on the CPU.

    Raises:
        Failure: another rank has ended.
    """
    if count() == 1:
        return value
    values: list[Any] = [value if number() == 0 else None]
    try:
        dist.broadcast_object_list(values, src=0)
    except RuntimeError as problem:
        raise _lost(problem) from None
    return values[0]  # type: ignore[no-any-return]


def shared(function: Callable[[Piece], T], pieces: Sequence[Piece]) -> list[T]:
    """``function`` of every piece, in order. Each rank calls it for a part of them."""
    ranks = count()
    if ranks == 1:
        return [function(piece) for piece in pieces]
    shares = gather([moved(function(piece), "cpu") for piece in pieces[number() :: ranks]])
    return [shares[place % ranks][place // ranks] for place in range(len(pieces))]


def moved(value: Any, device: torch.device | str) -> Any:
    """Dicts, lists and tuples with their tensors on a device."""
    return each_tensor(lambda t: t.to(device), value)


def _lost(problem: RuntimeError) -> Failure:
    return Failure(
        f"another rank has ended, so rank {number()} stops too ({first_line(problem)}). "
        "The same command resumes from the last checkpoint"
    )
