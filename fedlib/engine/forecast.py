"""How much memory a program will take, foretold from its smallest pieces.

The peak of a round is close to ``a + s C + d M + c M C`` for C configurations of which M clients
train at once: constants, the server's states and updates, the clients' batches, and their models,
gradients and activations. Four rounds of a few clients and configurations give a, s, d and c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from fedlib.engine.device import peak_of
from fedlib.engine.program import Program

# (configurations, clients) of the rounds that are tried. One row alone would take other kernels.
PROBES = ((2, 1), (3, 1), (2, 2), (3, 2))


@dataclass(frozen=True)
class MemoryForecast:
    """What a program of C configurations will take.

    Attributes:
        configurations: C; clients: that train at once, in all workers together.
        start: bytes of the data, the model and the server's first states.
        training: bytes at the peak of a round; evaluation: at the peak of an evaluation.
    """

    configurations: int
    clients: int
    start: int
    training: int
    evaluation: int

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


def forecast(program: Program) -> MemoryForecast:
    """What a program will take, from rounds of a few clients and configurations.

    Tensors count, and not what kernels use inside: dense models came out within a few percent of
    the process's memory, many rows of convolutions on a CPU at half of it.
    """
    task, strategy = program.task, program.strategy
    cohort = program.training.cohort(0)[: program.config.clients_per_round]
    sizes = task.train.sizes[cohort]
    order = np.argsort(-sizes, kind="stable")
    workers = torch.get_num_threads() if strategy.backend == "parallel" else 1
    replicas = len(program.replicas)
    clients = min(len(cohort) * replicas, strategy.chunk_clients * workers)
    # The largest client sets the number of steps, a mean one what each other client adds.
    together = sizes[order][:clients]
    other = 1 + int(np.argmin(np.abs(together[1:] - together.mean()))) if clients > 1 else 0
    chosen = cohort[order][[0, other or min(1, len(cohort) - 1)]]
    peaks: dict[tuple[int, int], int] = {}
    for count, number in PROBES:
        alike = [program.configured[0]] * count
        small = Program(alike, program.device, "vectorized", number)
        peaks[count, number] = peak_of(partial(small.rehearse, np.unique(chosen[:number])))
    count = program.columns
    constant, configuration, client, both = fitted(peaks)
    training = (
        constant + configuration * len(program.configs) + client * clients + both * count * clients
    )
    vector = program.model.size * program.dtype.itemsize
    data = [task.train.x, task.train.y, task.test.x, task.test.y]
    return MemoryForecast(
        configurations=len(program.configs),
        clients=clients,
        start=sum(t.numel() * t.element_size() for t in data) + (len(program.configs) + 1) * vector,
        training=int(training),
        evaluation=program.evaluators[0].memory(program.model.initial(), count),
    )
