"""Speed: seconds per round of fedlib against the loops that most repositories use.

Every way trains the same clients on the same data by FedAvg: 10 clients a round (50 in ``P``) and
one local epoch of SGD.

- ``module`` is fedlib with a network of torch's own layers, as a user would write it. The other
  ways have this network, too.
- ``plain`` deep-copies the network for each client and feeds it with a DataLoader.
- ``tight`` keeps one model, resident tensors and fused updates.
- ``floor`` is ``tight`` on the cohort's batches together. This is not federated learning, and shows
  the cost of the arithmetic alone.
- ``pfl`` and ``fedjax`` are pfl-research and FedJAX, if they are installed.

The ways take turns of a tenth of a second, or of one round if that is longer, so that a busy moment
affects all of them.
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.workloads import RATE, WORKLOADS, Workload
from fedlib import process
from fedlib.arguments import whole
from fedlib.clients import ClientData
from fedlib.engine.config import configure
from fedlib.engine.device import resolve_device
from fedlib.engine.program import Program
from fedlib.errors import require_known
from fedlib.task import Task

# Rounds are timed in blocks of about this length, as training is many rounds in a row, too.
BLOCK_SECONDS = 0.1
# The largest count.
MOST = 10**6
# Packages of other frameworks. A file with_NAME.py says how each does a round.
FRAMEWORKS = ("pfl", "fedjax")


def bench(
    name: str,
    *,
    repeats: int = 5,
    device: str = "auto",
    clients: int | None = None,
    population: int | None = None,
    configurations: int = 1,
    width: float = 1.0,
    rivals: bool = True,
) -> dict[str, Any]:
    """Time one workload.

    Args:
        name: a key of :data:`WORKLOADS`.
        repeats: timed rounds of each way, after two that warm up.
        device: the device of all ways.
        clients: number of clients per round. Default: the workload's.
        population: number of clients that a round of fedlib draws from. Together they have as many
            examples as one cohort. Default: all take part.
        configurations: number of client learning rates that train at once (fedlib only).
        width: factor on the network's hidden sizes.
        rivals: whether to time the other ways too.

    Returns:
        The setting and fedlib's backend, and for each way the median seconds of a round, such as
        ``"plain s"``, and the median ratio to fedlib's seconds, such as ``"plain / fedlib"``.

    Raises:
        Error: an unknown workload or a number out of range.
    """
    require_known("workload", name, WORKLOADS)
    load = WORKLOADS[name]
    cohort = load.cohort if clients is None else clients
    everyone = cohort if population is None else population
    counts = {"repeats": repeats, "configurations": configurations, "clients": cohort}
    for what, value in counts.items():
        whole(what, value, 1, MOST)
    whole("population", everyone, cohort, MOST)
    where = resolve_device(device)

    task = _task(load, lambda: load.model(width), cohort, everyone)
    program = _program(task, configurations, where)
    ways: dict[str, Callable[[], object]] = {"fedlib": stepper(program)}
    if rivals:
        theirs = _task(load, lambda: load.plain(width), cohort, everyone)
        ways["module"] = stepper(_program(theirs, configurations, where))
        torch.manual_seed(0)
        model = load.plain(width).to(where)
        ways["plain"] = _plain(load, copy.deepcopy(model), task, where)
        ways["tight"] = _tight(load, copy.deepcopy(model), task, where)
        ways["floor"] = _tight(load, copy.deepcopy(model), task, where, together=True)
        for framework in installed():
            round_of = importlib.import_module(f"benchmarks.with_{framework}").round_of
            step = round_of(load, copy.deepcopy(model), _clients(task), where)
            if step is not None:  # it is None on a device on which the framework is not timed
                ways[framework] = step
    with process.alone():  # so that its settings are not timed
        times = _paired(ways, repeats, where)
    ours = times["fedlib"]
    return {
        "workload": name,
        "clients": cohort,
        "population": everyone,
        "configurations": configurations,
        "device": str(where),
        "backend": program.strategy.backend,
        **{f"{way} s": statistics.median(own) for way, own in times.items()},
        **{
            f"{way} / fedlib": statistics.median(b / a for a, b in zip(ours, own, strict=True))
            for way, own in times.items()
            if way != "fedlib"
        },
    }


def installed() -> list[str]:
    """The other frameworks that are installed."""
    return [name for name in FRAMEWORKS if importlib.util.find_spec(name) is not None]


def _program(task: Task, configurations: int, where: torch.device) -> Program:
    rates = [RATE * 0.9**place for place in range(configurations)]
    settings: dict[str, Any] = {"rounds": 10**6, "eval_every": 10**6}
    runs = [configure(task, "fedavg", overrides={"client_lr": rate}, **settings) for rate in rates]
    return Program(runs, where)


def stepper(program: Program) -> Callable[[], None]:
    """A function that runs a program's next round at each call."""
    now = program._start()

    def step() -> None:
        with program._settings(others=False):
            program._advance(now, now.done)

    return step


def _task(load: Workload, model: Callable[[], nn.Module], cohort: int, population: int) -> Task:
    x, y = load.inputs(cohort * load.examples, torch.Generator().manual_seed(0))
    parts = np.array_split(np.arange(len(x)), cohort)
    data = ClientData(x, y, [parts[client % cohort] for client in range(population)])
    return Task(
        name="bench",
        model=model,
        train=data,
        test=ClientData(x[:1], y[:1], [np.array([0])]),
        loss=load.loss,
        metrics={},
        clients_per_round=cohort if population > cohort else None,
        batch_size=load.batch,
    )


def _cohort(task: Task) -> int:
    """How many clients take part in a round."""
    return len(task.train) if task.clients_per_round is None else task.clients_per_round


def _clients(task: Task) -> list[tuple[Tensor, Tensor]]:
    """The examples of a round's clients."""
    x, y = task.train.x, task.train.y
    parts = np.array_split(np.arange(len(x)), _cohort(task))
    return [(x[part], y[part]) for part in parts]


def _paired(
    ways: dict[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds per round of each way, ``repeats`` times. Short rounds are timed in blocks."""
    rounds = {way: _rounds(step, device) for way, step in ways.items()}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, step in ways.items():
            times[way].append(_seconds(step, rounds[way], device) / rounds[way])
    return times


def _rounds(step: Callable[[], object], device: torch.device) -> int:
    """How many rounds take about :data:`BLOCK_SECONDS`, after two that warm up."""
    _seconds(step, 1, device)
    return max(1, round(BLOCK_SECONDS / _seconds(step, 1, device)))


def _seconds(step: Callable[[], object], rounds: int, device: torch.device) -> float:
    _wait(device)
    before = time.perf_counter()
    for _ in range(rounds):
        step()
    _wait(device)
    return time.perf_counter() - before


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _mean(load: Workload, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return load.loss(model(x).unsqueeze(0), y.unsqueeze(0)).mean()


def _average(server: nn.Module, clients: list[list[Tensor]]) -> None:
    with torch.no_grad():
        for own, others in zip(server.parameters(), zip(*clients, strict=True), strict=True):
            own.copy_(torch.stack(others).mean(0))


def _plain(
    load: Workload, server: nn.Module, task: Task, device: torch.device
) -> Callable[[], None]:
    """The loop of most repositories."""
    sets = [TensorDataset(x, y) for x, y in _clients(task)]

    def step() -> None:
        ends = []
        for own in sets:
            model = copy.deepcopy(server)
            optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
            for x, y in DataLoader(own, batch_size=load.batch, shuffle=True):
                optimizer.zero_grad()
                _mean(load, model, x.to(device), y.to(device)).backward()
                optimizer.step()
            ends.append([p.detach() for p in model.parameters()])
        _average(server, ends)

    return step


def _tight(
    load: Workload, server: nn.Module, task: Task, device: torch.device, together: bool = False
) -> Callable[[], None]:
    """The loop of a careful programmer, without stacked models.

    Args:
        together: whether one model trains on all clients' batches at once, in as many steps.
    """
    x, y = task.train.x.to(device), task.train.y.to(device)
    clients, at_once = (1, _cohort(task)) if together else (_cohort(task), 1)
    parts = torch.arange(len(x), device=device).chunk(clients)
    parameters: list[Tensor] = list(server.parameters())

    def step() -> None:
        start = [p.detach().clone() for p in parameters]
        ends = []
        for part in parts:
            with torch.no_grad():
                torch._foreach_copy_(parameters, start)
            order = part[torch.randperm(len(part), device=device)]
            for index in order.split(load.batch * at_once):
                grads = torch.autograd.grad(_mean(load, server, x[index], y[index]), parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, grads, alpha=-RATE)
            ends.append([p.detach().clone() for p in parameters])
        _average(server, ends)

    return step
