"""How a program is executed: which backend, how many rows at once, on how many threads.

The choice depends on the model's size, the rows and the device. Its limits were measured on a
two-core x86 machine; ``fedlib doctor --calibrate`` measures them on this one and keeps them in
``strategy.json`` under ``FEDLIB_CACHE`` (else ``~/.cache/fedlib``). A choice changes time and
memory, and results by rounding only.
"""

from __future__ import annotations

import functools
import json
import math
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import nn

from fedlib import files
from fedlib.engine.device import SHARE, free_bytes

# Vectors of a row that live at once: model, gradient, optimizer and server states, activations.
VECTORS = 10


@dataclass(frozen=True)
class Limits:
    """Where one way of executing becomes better than another.

    Attributes:
        chunk_numbers: parameter numbers (rows x P) that train as one program. On a CPU more do not
            stay in its cache, and convolutions run faster one client at a time; on a GPU it bounds
            memory.
        one_thread_numbers: below this many a step is too short for a second thread to pay; where
            another process is busy, waiting for that thread costs many times the step. CPU only.
        graph_numbers: below this many, launching a step's kernels one by one takes longer than
            running them, and CUDA graphs pay. 0: never (not measured here).
        convolution_clients: most clients whose convolutions run as groups of one. 0: as many as
            train as one program (not measured here).
    """

    chunk_numbers: int
    one_thread_numbers: int = 0
    graph_numbers: int = 0
    convolution_clients: int = 0


# The largest model, in parameters, whose rows are batched products on a CPU.
STACKED_SIZE = 2**19
DEFAULTS = {
    "cpu": Limits(chunk_numbers=2**20, one_thread_numbers=2**18),
    "cuda": Limits(chunk_numbers=2**29),
}


@dataclass(frozen=True)
class Strategy:
    """The way chosen for a program.

    Attributes:
        backend: name; chunk_clients: clients that train as one program; threads: of torch.
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
    threads: int | None = None,
    stacked: bool = False,
    convolving: bool = False,
) -> Strategy:
    """The strategy for ``configurations`` of a model of ``size`` parameters.

    Args:
        cohort: clients per round.
        backend, chunk_clients, threads: what the caller fixed.
        stacked, convolving: what :func:`stacks` and :func:`convolves` say of the model.
    """
    limit, many = limits(device), torch.get_num_threads()
    fitting = chunk_clients or max(1, chunk_numbers(device) // (size * configurations))
    if convolving and limit.convolution_clients and chunk_clients is None:
        fitting = min(fitting, limit.convolution_clients)
    numbers = configurations * min(fitting, cohort) * size
    small = device.type == "cpu" and numbers <= limit.one_thread_numbers
    if backend == "auto":
        alone = device.type != "cpu" or many == 1 or cohort == 1 or small or stacked
        backend = "vectorized" if alone else "parallel"
        if device.type == "cuda" and numbers <= limit.graph_numbers:
            backend = "graphed"
    if backend == "parallel" and chunk_clients is None:
        fitting = min(fitting, math.ceil(cohort / many))
        numbers = configurations * fitting * size
        small = device.type == "cpu" and numbers <= limit.one_thread_numbers
    return Strategy(backend, fitting, threads or (1 if small else many))


def stacks(model: nn.Module) -> bool:
    """Whether a CPU runs a model's rows best as batched products on all threads.

    So it is for small models without convolutions. Workers with a part of the clients each wait
    for Python's interpreter lock instead, as their operations are short.
    """
    size = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return size <= STACKED_SIZE and not convolves(model)


def convolves(model: nn.Module) -> bool:
    """Whether a model has convolutions."""
    return any(isinstance(module, nn.modules.conv._ConvNd) for module in model.modules())


def chunk_numbers(device: torch.device) -> int:
    """How many parameter numbers (rows x P) train at once: the usual number, or what fits."""
    usual, free = limits(device).chunk_numbers, free_bytes(device)
    return usual if free is None else max(1, min(usual, int(SHARE * free / VECTORS / 4)))


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch's CPU kernels in ``count`` threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------- what was measured here


def limits(device: torch.device) -> Limits:
    """The limits measured on this machine for this device, or the defaults."""
    return _measured(path()).get(machine(device), DEFAULTS[device.type])


def measured(device: torch.device) -> bool:
    """Whether the limits of this device were measured here."""
    return machine(device) in _measured(path())


def machine(device: torch.device) -> str:
    """What limits belong to: processor or GPU, threads, version of torch."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)}, torch {torch.__version__}"
    name = platform.processor() or platform.machine()
    return f"{name} x {os.cpu_count()}, torch {torch.__version__}"


def path() -> Path:
    """Where measured limits are kept."""
    cache = os.environ.get("FEDLIB_CACHE") or Path.home() / ".cache" / "fedlib"
    return Path(cache) / "strategy.json"


@functools.cache
def _measured(place: Path) -> dict[str, Limits]:
    """The file's limits by machine; a file that cannot be read counts as none."""
    try:
        plain = json.loads(place.read_text(encoding="utf-8"))
        return {name: Limits(**numbers) for name, numbers in plain.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return {}


def keep(device: torch.device, found: Limits) -> Path:
    """Write limits measured for a device; those of others stay."""
    place = path()
    every = {**_measured(place), machine(device): found}
    plain = {name: asdict(limit) for name, limit in every.items()}
    files.write(place, f"{json.dumps(plain, indent=2)}\n".encode())
    _measured.cache_clear()
    return place
