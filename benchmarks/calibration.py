"""Measure on this machine where one way of executing becomes better than another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from tqdm.auto import tqdm

from fedlib import models
from fedlib.engine import strategy
from fedlib.engine.config import Configured, configure
from fedlib.engine.program import Program
from fedlib.losses import cross_entropy
from fedlib.task import ClientData, Task

# Networks with one hidden layer, features and classes fixed: 2^12 to 2^21 parameters.
HIDDEN = (16, 64, 256, 1024, 8192)
FEATURES, CLASSES, EXAMPLES, BATCH, COHORT = 246, 10, 60, 20, 8
CHUNKS = (2**18, 2**20, 2**22)
# Images' sides and channels, and the clients whose convolutions are tried as one.
SIDE, CHANNELS, TOGETHER = 24, 3, (1, 2, 4, COHORT)
# A way must be this much faster to be preferred to the simpler one.
CLEARLY = 0.9


def calibrate(
    device: torch.device, *, repeats: int = 5, progress: bool = False
) -> tuple[strategy.Limits, list[dict[str, float | str]]]:
    """Measure the limits of ``device``; takes about a minute.

    Args:
        repeats: timed rounds of each way; they take turns, and the median counts.

    Returns:
        the limits, and what was measured: parameters, way, seconds per round.
    """
    default = strategy.DEFAULTS[device.type]
    seconds: list[dict[str, float | str]] = []
    one_thread = graphs = convolving = 0
    for hidden in tqdm(HIDDEN, desc=f"calibrating {device}", unit="size", disable=not progress):
        task = _task(hidden)
        ways = _ways(task, device)
        size = Program([_configured(task)], device, "vectorized").model.size
        times = _time(ways, repeats, device)
        seconds += [{"parameters": size, "way": way, "seconds": s} for way, s in times.items()]
        if device.type == "cpu":
            best_parallel = min(times.get("parallel", np.inf), times.get("threads", np.inf))
            if times["rows"] * CLEARLY <= best_parallel:
                one_thread = COHORT * size
        elif times["graphs"] < CLEARLY * times["rows"]:
            graphs = COHORT * size
    chunk = default.chunk_numbers
    if device.type == "cpu":
        middle = _task(HIDDEN[2])
        sized = {str(n): _way(middle, device, "vectorized", n) for n in CHUNKS}
        times = _time(sized, repeats, device)
        seconds += [{"parameters": n, "way": "chunk", "seconds": s} for n, s in times.items()]
        best = min(times, key=lambda name: times[name])
        if times[best] < CLEARLY * times[str(chunk)]:
            chunk = int(best)
    else:
        by = convolutions(device, repeats)
        seconds += [{"parameters": n, "way": "clients", "seconds": s} for n, s in by.items()]
        number = min(by, key=lambda clients: by[clients])
        if by[number] < CLEARLY * by[COHORT]:
            convolving = number
    return strategy.Limits(chunk, one_thread, graphs, convolving), seconds


def convolutions(device: torch.device, repeats: int) -> dict[int, float]:
    """Seconds of a convolutional network's round by how many clients train as one."""
    task = _task(0)
    size = sum(p.numel() for p in task.model().parameters())
    ways = {str(n): _way(task, device, "vectorized", n * size) for n in TOGETHER}
    return {int(number): each for number, each in _time(ways, repeats, device).items()}


def _task(hidden: int) -> Task:
    """Data for a network with so many hidden units, or with 0 for a convolutional one."""
    generator = torch.Generator().manual_seed(0)
    shape = (FEATURES,) if hidden else (CHANNELS, SIDE, SIDE)
    x = torch.randn(COHORT * EXAMPLES, *shape, generator=generator)
    y = torch.randint(CLASSES, (len(x),), generator=generator)
    parts = np.array_split(np.arange(len(x)), COHORT)
    return Task(
        name="calibration",
        model=lambda: (
            models.MLP(FEATURES, (hidden,), CLASSES)
            if hidden
            else models.SmallCNN(CHANNELS, (SIDE, SIDE), CLASSES)
        ),
        train=ClientData(x, y, parts),
        test=ClientData(x[:1], y[:1], [np.array([0])]),
        loss=cross_entropy,
        metrics={},
        clients_per_round=None,
        batch_size=BATCH,
    )


def _configured(task: Task) -> Configured:
    return configure(task, "fedavg", rounds=10**6, eval_every=10**6)


def _way(
    task: Task, device: torch.device, backend: str, numbers: int = 2**60, count: int = 1
) -> Callable[[], None]:
    """A function that does a round: ``numbers`` parameter numbers at once, on ``count`` threads."""
    size = sum(p.numel() for p in task.model().parameters())
    chunk = max(1, numbers // size)
    return Program([_configured(task)], device, backend, chunk, threads=count).stepper()


def _ways(task: Task, device: torch.device) -> dict[str, Callable[[], None]]:
    if device.type == "cuda":
        return {name: _way(task, device, backend) for name, backend in _CUDA.items()}
    many, numbers = torch.get_num_threads(), strategy.DEFAULTS["cpu"].chunk_numbers
    ways = {"rows": _way(task, device, "vectorized", numbers, 1)}
    if many > 1:
        share = numbers // 2
        ways["threads"] = _way(task, device, "vectorized", numbers, many)
        ways["parallel"] = _way(task, device, "parallel", share, many)
    return ways


_CUDA = {"rows": "vectorized", "graphs": "graphed"}


def _time(
    ways: dict[str, Callable[[], None]], repeats: int, device: torch.device
) -> dict[str, float]:
    """Median seconds of each way; they take turns."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    for repeat in range(repeats + 2):
        for way, step in ways.items():
            started = time.perf_counter()
            step()
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            if repeat >= 2:
                times[way].append(time.perf_counter() - started)
    return {way: statistics.median(each) for way, each in times.items()}
