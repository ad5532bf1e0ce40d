"""How runs are executed: the backend, the number of rows at once, and the number of threads.

The choice depends on the model's size, the rows and the device. Its limits were measured on a
two-core x86 machine. A choice changes time and memory, and results by rounding only.
"""

import ctypes
import functools
import math
import os
import platform
from dataclasses import dataclass

import torch
from torch import nn

from fedlib import process
from fedlib.engine import ranks
from fedlib.engine.device import SHARE, free_bytes

# mallopt's parameters (malloc.h) and their values.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8
SETTINGS = {
    _MMAP_MAX: 0,  # large blocks from the heap, too
    _TRIM_THRESHOLD: 2**31 - 1,  # the heap keeps its free end
    _TOP_PAD: 64 * 2**20,  # the heap grows in steps of this many bytes
    _ARENA_MAX: 1,  # one heap for all threads: other heaps are too small for such blocks
}


@functools.cache
def keep_freed_memory() -> bool:
    """Have glibc keep freed memory for the next step, once per process. Returns whether it does.

    glibc serves blocks of more than a few hundred kilobytes with fresh pages and returns them when
    they are freed. A model's parameter vector is such a block, and a local step makes several, so
    getting zeroed pages again costs more than the arithmetic on them. Measured on two cores, one
    thread, 2.8 million parameters: x - lr * g took 4.6 ms with the default and 1.8 ms with this.

    It does nothing with another C library, or if ``FEDLIB_KEEP_MEMORY=0``, which is for processes
    that need their memory back between runs.
    """
    if os.environ.get("FEDLIB_KEEP_MEMORY", "1") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(parameter, value) == 1 for parameter, value in SETTINGS.items())


# Vectors of a row that exist at once: model, gradient, optimizer and server states, activations.
VECTORS = 10


# Parameter numbers (rows x P) that train at once. On a CPU more do not stay in its cache, and
# convolutions run faster one client at a time. On a GPU it bounds memory.
CHUNK_NUMBERS = {"cpu": 2**20, "cuda": 2**29}
# On a CPU, a step below this size is too short for a second thread to pay. If another process is
# busy, waiting for that thread costs many times the step.
ONE_THREAD_NUMBERS = 2**18
# The largest model, in parameters, whose rows are batched products on a CPU.
STACKED_SIZE = 2**19


@dataclass(frozen=True)
class Strategy:
    """The chosen way to execute runs.

    Attributes:
        backend: its name.
        chunk_clients: clients that train at once.
        threads: torch's number of threads.
    """

    backend: str
    chunk_clients: int
    threads: int


def pick(
    size: int,
    configurations: int,
    cohort: int,
    device: torch.device,
    backend: str = "auto",
    chunk_clients: int | None = None,
    stacked: bool = False,
) -> Strategy:
    """The strategy for ``configurations`` of a model of ``size`` parameters.

    Args:
        cohort: clients per round.
        backend, chunk_clients: values set by the caller.
        stacked: result of :func:`stacks` for the model.
    """
    many = process.usual_threads()
    fitting = chunk_clients or max(1, chunk_numbers(device) // (size * configurations))

    def small() -> bool:
        numbers = configurations * min(fitting, cohort) * size
        return device.type == "cpu" and numbers <= ONE_THREAD_NUMBERS

    if backend == "auto" and ranks.count() > 1:
        backend = "distributed"
    if backend == "distributed" and chunk_clients is None:
        fitting = min(fitting, math.ceil(cohort / ranks.count()))
    if backend == "auto":
        alone = device.type != "cpu" or many == 1 or cohort == 1 or small() or stacked
        backend = "vectorized" if alone else "parallel"
    if backend == "parallel" and chunk_clients is None:
        fitting = min(fitting, math.ceil(cohort / many))
    return Strategy(backend, fitting, 1 if small() else many)


def stacks(model: nn.Module) -> bool:
    """Whether a CPU runs a model's rows best as batched products on all threads.

    This holds for small models without convolutions. Workers with a part of the clients each would
    wait for Python's interpreter lock, as their operations are short.
    """
    size = sum(p.numel() for p in model.parameters() if p.requires_grad)
    convolves = any(isinstance(module, nn.modules.conv._ConvNd) for module in model.modules())
    return size <= STACKED_SIZE and not convolves


def chunk_numbers(device: torch.device) -> int:
    """The parameter numbers (rows x P) that train at once: the usual number, or as many as fit."""
    usual, free = CHUNK_NUMBERS[device.type], free_bytes(device)
    return usual if free is None else max(1, min(usual, int(SHARE * free / VECTORS / 4)))
