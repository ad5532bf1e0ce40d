"""The device and its memory: which one a name means, what is free, what tensors take."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedlib.errors import Error, unknown

TYPES = ("cpu", "cuda")
# Share of the free memory that a program may fill.
SHARE = 0.8


def resolve_device(device: str) -> torch.device:
    """The torch device for a name; ``"auto"`` takes CUDA if there is one.

    Raises:
        Error: CUDA asked for on a machine without it, or a name that torch does not know.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise unknown("device", device, ("auto", *TYPES)) from None
    if resolved.type not in TYPES:
        raise unknown("device", device, ("auto", *TYPES))
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise Error(f"device {device!r}: torch sees no CUDA GPU here; use device='cpu' or 'auto'")
    return resolved


def free_bytes(device: torch.device) -> int | None:
    """Memory that a program can still take on a device, or None where nothing says so."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pages = getattr(os, "sysconf_names", {}).get("SC_AVPHYS_PAGES")
        return None if pages is None else os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of tensors that are made inside and still alive.

    Attributes:
        live: now; peak: at most.
    """

    def __init__(self) -> None:
        super().__init__()
        self.live = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        given = {one.untyped_storage()._cdata for one in tree_leaves(args) if _is_tensor(one)}
        result = func(*args, **(kwargs or {}))
        for one in filter(_is_tensor, tree_leaves(result)):
            storage = one.untyped_storage()
            place, size = storage._cdata, storage.nbytes()
            if place not in given and place not in self._known:
                self._known.add(place)
                self.live += size
                self.peak = max(self.peak, self.live)
                weakref.finalize(storage, self._forget, place, size)
        return result

    def _forget(self, place: int, size: int) -> None:
        self._known.discard(place)
        self.live -= size


def _is_tensor(one: Any) -> bool:
    return isinstance(one, Tensor)


def peak_of(work: Callable[[], object]) -> int:
    """The bytes of tensors that ``work()`` holds at most, besides those that exist before it."""
    with LiveBytes() as counter:
        work()
    return counter.peak
