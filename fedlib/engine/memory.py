"""How much memory a program will take, found by running its smallest pieces.

The peak of a round is close to ``a + s C + d M + c M C`` for C configurations of which M clients
train at once: constants, the server's states and updates, the clients' batches, and their models,
gradients and activations. Four rounds of a few clients and configurations give a, s, d and c.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from fedlib.engine.program import Program

# (configurations, clients) of the rounds that are tried. One row alone would take other kernels.
PROBES = ((2, 1), (3, 1), (2, 2), (3, 2))
# Share of the free memory that a program may fill.
SHARE = 0.8


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
            if storage._cdata not in given and storage._cdata not in self._known:
                self._note(storage)
        return result

    def _note(self, storage: torch.UntypedStorage) -> None:
        place = storage._cdata
        size = storage.nbytes()
        self._known.add(place)
        self.live += size
        self.peak = max(self.peak, self.live)
        weakref.finalize(storage, self._forget, place, size)

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


@dataclass(frozen=True)
class MemoryPlan:
    """What a program of C configurations will take.

    Attributes:
        configurations: C; clients: that train at once, in all workers together.
        start: bytes of the data, the model and the server's first states.
        training: bytes at the peak of a round; evaluation: at the peak of an evaluation.
        parts: a, s, d and c in bytes.
    """

    configurations: int
    clients: int
    start: int
    training: int
    evaluation: int
    parts: tuple[float, float, float, float]

    @property
    def peak(self) -> int:
        """Bytes at most."""
        return self.start + max(self.training, self.evaluation)

    def __str__(self) -> str:
        return (
            f"{self.configurations} configurations, {self.clients} clients at once: about "
            f"{_readable(self.peak)} at most (training {_readable(self.training)}, evaluation "
            f"{_readable(self.evaluation)}, data and models {_readable(self.start)})"
        )


def _readable(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def fitted(peaks: dict[tuple[int, int], int]) -> tuple[float, float, float, float]:
    """a, s, d and c from the peaks of :data:`PROBES`."""
    both = max(0, peaks[3, 2] - peaks[3, 1] - peaks[2, 2] + peaks[2, 1])
    client = max(0, peaks[2, 2] - peaks[2, 1] - 2 * both)
    configuration = max(0, peaks[3, 1] - peaks[2, 1] - both)
    constant = peaks[2, 1] - 2 * configuration - client - 2 * both
    return float(constant), float(configuration), float(client), float(both)


def plan(program: Program) -> MemoryPlan:
    """What a program will take, from rounds of a few clients and configurations.

    Tensors count, and not what kernels use inside: dense models came out within a few percent of
    the process's memory, many rows of convolutions on a CPU at half of it.
    """
    task, own = program.task, program.strategy
    cohort = program.cohort(0)
    sizes = task.train.sizes[cohort]
    order = np.argsort(-sizes, kind="stable")
    workers = torch.get_num_threads() if own.backend == "parallel" else 1
    clients = min(len(cohort), own.chunk_clients * workers)
    # The largest client sets the number of steps, a mean one what each other client adds.
    together = sizes[order][:clients]
    other = 1 + int(np.argmin(np.abs(together[1:] - together.mean()))) if clients > 1 else 0
    chosen = cohort[order][[0, other or min(1, len(cohort) - 1)]]
    peaks: dict[tuple[int, int], int] = {}
    for count, number in PROBES:
        requests = [(program.config, program.methods[0])] * count
        small = type(program)(task, requests, program.device, "vectorized", number)
        peaks[count, number] = peak_of(partial(small.rehearse, np.unique(chosen[:number])))
    parts = fitted(peaks)
    count = len(program.configs)
    constant, configuration, client, both = parts
    training = constant + configuration * count + client * clients + both * count * clients
    vector = program.model.size * program.dtype.itemsize
    data = [task.train.x, task.train.y, task.test.x, task.test.y]
    return MemoryPlan(
        configurations=count,
        clients=clients,
        start=sum(t.numel() * t.element_size() for t in data) + (count + 1) * vector,
        training=int(training),
        evaluation=program.evaluate.memory(program.model.initial(), count),
        parts=parts,
    )
