"""Speed: seconds per round of fedlib against the loops that most repositories use.

Every way trains the same clients on the same data: 10 clients a round (50 in ``P``), one local
epoch of SGD, FedAvg. ``plain`` deep-copies a torch model for each client and feeds it with a
DataLoader; ``tight`` keeps one model, resident tensors and fused updates; ``floor`` trains one
model on the cohort's batches together, which is no federated learning and shows what the
arithmetic alone costs. Ways take turns, a tenth of a second each, or a round where that is longer,
so that a busy moment hits all of them.
"""

from __future__ import annotations

import copy
import itertools
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from fedlib import models
from fedlib.engine.config import configure
from fedlib.engine.device import peak_of, resolve_device
from fedlib.engine.forecast import forecast
from fedlib.engine.program import BACKENDS, Program
from fedlib.errors import require, unknown
from fedlib.losses import cross_entropy, sequence_cross_entropy, squared_error
from fedlib.task import ClientData, PerExample, Task

# Rounds are timed in blocks of about this length: training is many rounds in a row, too.
BLOCK_SECONDS = 0.1


@dataclass(frozen=True)
class Workload:
    """One setting to be timed.

    Attributes:
        about: one line.
        model: fedlib's; plain: the same network of torch's own layers, for the other ways.
        inputs: makes ``(x, y)`` of n random examples.
        loss: per-example loss.
        examples: per client; batch: examples per local step; cohort: clients per round.
    """

    about: str
    model: Callable[[float], nn.Module]
    plain: Callable[[float], nn.Module]
    inputs: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
    loss: PerExample
    examples: int
    batch: int
    cohort: int = 10


class PlainShakespeare(nn.Module):
    """FedOpt's Shakespeare network of torch's own layers."""

    def __init__(self, width: float) -> None:
        super().__init__()
        hidden = round(256 * width)
        self.embedding = nn.Embedding(90, 8)
        self.lstm = nn.LSTM(8, hidden, num_layers=2, batch_first=True)
        self.dense = nn.Linear(hidden, 90)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.dense(self.lstm(self.embedding(x))[0])
        return logits


def plain_emnist_cnn(width: float) -> nn.Module:
    """FedOpt's EMNIST network of torch's own layers."""
    a, b, c = (round(n * width) for n in (32, 64, 128))
    return nn.Sequential(
        *(nn.Conv2d(1, a, 3), nn.ReLU(), nn.Conv2d(a, b, 3), nn.ReLU()),
        *(nn.MaxPool2d(2), nn.Dropout(0.25), nn.Flatten(), nn.Linear(144 * b, c), nn.ReLU()),
        *(nn.Dropout(0.5), nn.Linear(c, 62)),
    )


def plain_autoencoder(width: float) -> nn.Module:
    """FedOpt's EMNIST autoencoder of torch's own layers."""
    a, b, c, code = (round(n * width) for n in (1000, 500, 250, 30))
    layers: list[nn.Module] = []
    sizes = (784, a, b, c, code, c, b, a, 784)
    for inputs, outputs in itertools.pairwise(sizes):
        layers.append(nn.Linear(inputs, outputs))
        layers += [] if outputs == code else [nn.Sigmoid()]
    return nn.Sequential(*layers)


class PflCNN(nn.Module):
    """The CIFAR-10 network of pfl-research's benchmark, 1,626,442 parameters."""

    carries_rows = True

    def __init__(self, width: float) -> None:
        super().__init__()
        a, b, c = (round(n * width) for n in (32, 64, 128))
        conv, linear, drop = models.layers.Conv2d, models.layers.Linear, models.layers.Dropout
        self.body = nn.Sequential(
            *(conv(3, a, 3), nn.ReLU(), conv(a, b, 3), models.layers.MaxPool2d(2), nn.ReLU()),
            *(drop(0.25), models.layers.Flatten(), linear(196 * b, c), nn.ReLU(), drop(0.5)),
            linear(c, 10),
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.body(x)
        return logits


def plain_pfl_cnn(width: float) -> nn.Module:
    """The same of torch's own layers."""
    a, b, c = (round(n * width) for n in (32, 64, 128))
    return nn.Sequential(
        *(nn.Conv2d(3, a, 3), nn.ReLU(), nn.Conv2d(a, b, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Dropout(0.25), nn.Flatten(), nn.Linear(196 * b, c), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(c, 10),
    )


def _images(*shape: int, classes: int) -> Callable[[int, torch.Generator], tuple[Tensor, Tensor]]:
    def make(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.randn(n, *shape, generator=generator)
        return x, torch.randint(classes, (n,), generator=generator)

    return make


def _characters(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    text = torch.randint(1, 90, (n, 81), generator=generator)
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def _pixels(n: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    x = torch.rand(n, 784, generator=generator)
    return x, x


# The largest count.
MOST = 10**6
WORKLOADS: dict[str, Workload] = {
    "W1": Workload(
        "logistic regression 60 to 10, 100 examples a client, batch 10",
        lambda width: models.Softmax(60, 10),
        lambda width: nn.Linear(60, 10),
        _images(60, classes=10),
        cross_entropy,
        examples=100,
        batch=10,
    ),
    "W2": Workload(
        "EMNIST CNN, 100 examples a client, batch 20",
        lambda width: models.EMNISTCNN(62, width=width),
        plain_emnist_cnn,
        _images(1, 28, 28, classes=62),
        cross_entropy,
        examples=100,
        batch=20,
    ),
    "W3": Workload(
        "ResNet-18 with GroupNorm on 24x24 images, 100 examples a client, batch 20",
        lambda width: models.ResNet18GN(10, width=width),
        lambda width: models.ResNet18GN(10, width=width),
        _images(3, 24, 24, classes=10),
        cross_entropy,
        examples=100,
        batch=20,
    ),
    "W4": Workload(
        "Shakespeare LSTM, 20 sequences of 80 characters a client, batch 4",
        lambda width: models.ShakespeareLSTM(90, width=width),
        PlainShakespeare,
        _characters,
        sequence_cross_entropy,
        examples=20,
        batch=4,
    ),
    "W5": Workload(
        "EMNIST autoencoder, 100 examples a client, batch 20",
        lambda width: models.EMNISTAutoencoder(width=width),
        plain_autoencoder,
        _pixels,
        squared_error,
        examples=100,
        batch=20,
    ),
    "P": Workload(
        "pfl-research's CIFAR-10 setting: 50 clients a round, 50 images each, batch 10",
        PflCNN,
        plain_pfl_cnn,
        _images(3, 32, 32, classes=10),
        cross_entropy,
        examples=50,
        batch=10,
        cohort=50,
    ),
}


def bench(
    name: str,
    *,
    repeats: int = 5,
    device: str = "auto",
    backend: str = "auto",
    clients: int | None = None,
    configurations: int = 1,
    width: float = 1.0,
    rivals: bool = True,
    memory: bool = False,
) -> dict[str, Any]:
    """Time one workload.

    Args:
        name: of :data:`WORKLOADS`.
        repeats: rounds of each way that count, after two that do not.
        device, backend: of fedlib; the other ways run on the same device.
        clients: per round; default the workload's.
        configurations: how many client learning rates train at once (fedlib only).
        width: factor on the network's hidden sizes.
        rivals: whether to time the other ways too.
        memory: whether to find what tensors take in a round of each way, too.

    Returns:
        ``seconds``: for each way the median over the rounds; ``ratios``: the other ways' seconds
        over fedlib's, the median of the pairs; ``padding``: the share of examples computed on that
        is padding; ``bytes``: the most that tensors take (fedlib: as forecast); the setting, and
        what fedlib chose.

    Raises:
        Error: an unknown workload or a number out of range.
    """
    if name not in WORKLOADS:
        raise unknown("workload", name, WORKLOADS)
    load = WORKLOADS[name]
    cohort = load.cohort if clients is None else clients
    counts = {"repeats": repeats, "configurations": configurations, "clients": cohort}
    for what, value in counts.items():
        require(1 <= value <= MOST, what, value, f"a whole number from 1 to {MOST:,}")
    require(0 < width <= MOST, "width", width, f"a number > 0, at most {MOST:,}")
    if backend != "auto" and backend not in BACKENDS:
        raise unknown("backend", backend, ("auto", *BACKENDS))
    task, where = _task(load, name, cohort, width), resolve_device(device)
    rates = [0.03 * 0.9**one for one in range(configurations)]
    configured = [
        configure(task, "fedavg", rounds=10**6, eval_every=10**6, overrides={"client_lr": rate})
        for rate in rates
    ]
    program = Program(configured, where, backend)
    ways: dict[str, Callable[[], object]] = {"fedlib": program.stepper()}
    if rivals:
        torch.manual_seed(0)
        model = load.plain(width).to(where)
        ways["plain"] = _plain(load, copy.deepcopy(model), task, where)
        ways["tight"] = _tight(load, copy.deepcopy(model), task, where)
        ways["floor"] = _floor(load, copy.deepcopy(model), task, where)
    times = _paired(ways, repeats, where)
    ours = times["fedlib"]
    return {
        "workload": name,
        "about": load.about,
        "clients": cohort,
        "configurations": configurations,
        "width": width,
        "device": str(where),
        "backend": program.strategy.backend,
        "chunk_clients": program.strategy.chunk_clients,
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "parameters": program.model.size,
        "padding": program.padding,
        "bytes": _bytes(program, ways, where) if memory else {},
        "seconds": {way: statistics.median(own) for way, own in times.items()},
        "ratios": {
            way: statistics.median(b / a for a, b in zip(ours, own, strict=True))
            for way, own in times.items()
            if way != "fedlib"
        },
    }


def _bytes(
    program: Program, ways: dict[str, Callable[[], object]], device: torch.device
) -> dict[str, int]:
    """The most that tensors take in a round of each way, besides data and first models."""
    found = {way: peak_of(step) for way, step in ways.items() if way != "fedlib"}
    expected = forecast(program)
    return {"fedlib": max(expected.training, expected.evaluation), **found}


def _task(load: Workload, name: str, cohort: int, width: float) -> Task:
    x, y = load.inputs(cohort * load.examples, torch.Generator().manual_seed(0))
    parts = np.array_split(np.arange(len(x)), cohort)
    data = ClientData(x, y, parts)
    return Task(
        name=f"bench_{name}",
        model=lambda: load.model(width),
        train=data,
        test=ClientData(x[:1], y[:1], [np.array([0])]),
        loss=load.loss,
        metrics={},
        clients_per_round=None,
        batch_size=load.batch,
    )


def _paired(
    ways: dict[str, Callable[[], object]], repeats: int, device: torch.device
) -> dict[str, list[float]]:
    """Seconds per round of each way, ``repeats`` times; a short round is measured many in a row."""
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
    """What most repositories do."""
    data = task.train
    sets = [
        TensorDataset(data.x[part], data.y[part])
        for part in np.array_split(np.arange(len(data.x)), len(data))
    ]

    def step() -> None:
        ends = []
        for own in sets:
            model = copy.deepcopy(server)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
            for x, y in DataLoader(own, batch_size=load.batch, shuffle=True):
                optimizer.zero_grad()
                _mean(load, model, x.to(device), y.to(device)).backward()
                optimizer.step()
            ends.append([p.detach() for p in model.parameters()])
        _average(server, ends)

    return step


def _tight(
    load: Workload, server: nn.Module, task: Task, device: torch.device
) -> Callable[[], None]:
    """What a careful programmer does without stacking models."""
    x, y = task.train.x.to(device), task.train.y.to(device)
    parts = torch.arange(len(x), device=device).chunk(len(task.train))
    parameters: list[Tensor] = list(server.parameters())

    def step() -> None:
        start = [p.detach().clone() for p in parameters]
        ends = []
        for part in parts:
            with torch.no_grad():
                torch._foreach_copy_(parameters, start)
            order = part[torch.randperm(len(part), device=device)]
            for index in order.split(load.batch):
                grads = torch.autograd.grad(_mean(load, server, x[index], y[index]), parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, grads, alpha=-0.03)
            ends.append([p.detach().clone() for p in parameters])
        _average(server, ends)

    return step


def _floor(
    load: Workload, model: nn.Module, task: Task, device: torch.device
) -> Callable[[], None]:
    """One model on all clients' batches at once, in as many steps."""
    x, y = task.train.x.to(device), task.train.y.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)

    def step() -> None:
        order = torch.randperm(len(x), device=device)
        for index in order.split(load.batch * len(task.train)):
            optimizer.zero_grad()
            _mean(load, model, x[index], y[index]).backward()
            optimizer.step()

    return step
