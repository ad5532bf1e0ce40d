"""The rounds: sample a cohort, train it, aggregate, update the server, evaluate."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from fedlib import randomness
from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.backend import Backend, Kept, Sums
from fedlib.engine.config import RunConfig, configure
from fedlib.engine.evaluation import Evaluator
from fedlib.engine.feed import Feed, Round
from fedlib.engine.history import History
from fedlib.engine.plan import chunks
from fedlib.engine.record import Recorder
from fedlib.engine.reference import Reference
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import ClientStates, choose, map_state
from fedlib.engine.vectorized import Vectorized
from fedlib.errors import Error, unknown
from fedlib.tasks.base import Task

BACKEND_CLASSES: dict[str, Callable[[Feed, FlatModel], Backend]] = {
    "reference": Reference,
    "vectorized": Vectorized,
}
BACKENDS = ("auto", *BACKEND_CLASSES)
# Parameter numbers (rows x P) per chunk. On a CPU more do not stay in its cache, and large models'
# convolutions run faster one client at a time; on a GPU it bounds memory.
CHUNK_NUMBERS = {"cpu": 2**20, "cuda": 2**29}
# Below this many parameter numbers a step is too short for a second thread to pay; where another
# process is busy, waiting for that thread costs many times the step.
ONE_THREAD_NUMBERS = 2**18


def run(
    task: Task,
    algorithm: str | Algorithm,
    *,
    rounds: int | None = None,
    seed: int | Mapping[str, int] = 0,
    device: str = "auto",
    backend: str = "auto",
    dtype: str = "float32",
    eval_every: int = 1,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = False,
    chunk_clients: int | None = None,
) -> History:
    """Train one algorithm on one task.

    Args:
        task: from :func:`fedlib.load_task`, :func:`fedlib.quadratic_task`, or your own
            :class:`fedlib.Task`.
        algorithm: a name from :func:`fedlib.list_algorithms`, or a method composed by hand.
        rounds: default the task's.
        seed: of initialisation, client sampling and batches; a dict with keys ``init``,
            ``sampling``, ``batches`` sets them apart. The partition's seed belongs to the task.
        device: ``"auto"`` (CUDA if there is one), ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        backend: ``"vectorized"``, ``"reference"`` (one client at a time, slow) or ``"auto"``.
        dtype: ``"float32"`` or ``"float64"``.
        eval_every: rounds between evaluations; the initial and the last model are always evaluated.
        clients_per_round: default the task's; sampled without replacement.
        overrides: hyperparameters in the papers' words, for instance ``{"client_lr": 0.03}``, and
            ``batch_size``, ``local_epochs``, ``local_steps``.
        progress: show a progress bar with rounds/s and the time left.
        chunk_clients: most clients that train as one program; default from the model's size. It
            changes time and memory, not the result.

    Raises:
        Error: an unknown name or key, or a value out of its range.
    """
    request = configure(
        task,
        algorithm,
        rounds=rounds,
        seed=seed,
        dtype=dtype,
        eval_every=eval_every,
        clients_per_round=clients_per_round,
        overrides=overrides,
    )
    return execute(
        task,
        [request],
        device=device,
        backend=backend,
        progress=progress,
        chunk_clients=chunk_clients,
    )[0]


def execute(
    task: Task,
    requests: Sequence[tuple[RunConfig, Algorithm]],
    *,
    device: str = "auto",
    backend: str = "auto",
    progress: bool = False,
    chunk_clients: int | None = None,
) -> list[History]:
    """Run configurations of one task; those that can share a program run as its rows.

    Args:
        task: the task that the requests were configured for.
        requests: from :func:`configure`.
        device, backend, progress, chunk_clients: see :func:`run`.

    Returns:
        one history per request, in order.
    """
    if backend not in BACKENDS:
        raise unknown("backend", backend, BACKENDS)
    if chunk_clients is not None and chunk_clients < 1:
        raise Error(f"chunk_clients is {chunk_clients}; allowed: a whole number >= 1")
    histories: dict[int, History] = {}
    for positions in programs(requests):
        program = Program(
            task,
            [requests[p] for p in positions],
            resolve_device(device),
            "vectorized" if backend == "auto" else backend,
            chunk_clients,
        )
        histories.update(zip(positions, program.run(progress), strict=True))
    return [histories[position] for position in range(len(requests))]


def programs(requests: Sequence[tuple[RunConfig, Algorithm]]) -> list[list[int]]:
    """Which requests can share a program: their positions, grouped."""
    groups: dict[Any, list[int]] = {}
    for position, (config, method) in enumerate(requests):
        groups.setdefault((config.program(), method.structure()), []).append(position)
    return list(groups.values())


def resolve_device(device: str) -> torch.device:
    """The torch device for a name; ``"auto"`` takes CUDA if there is one.

    Raises:
        Error: CUDA asked for on a machine without it, or a name that torch does not know.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise unknown("device", device, ("auto", *CHUNK_NUMBERS)) from None
    if resolved.type not in CHUNK_NUMBERS:
        raise unknown("device", device, ("auto", *CHUNK_NUMBERS))
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise Error(f"device {device!r}: torch sees no CUDA GPU here; use device='cpu' or 'auto'")
    return resolved


class Program:
    """C configurations that train together: one model, one cohort a round, C server states.

    Args:
        task: the task.
        requests: the configurations; they agree in ``RunConfig.program()`` and in structure.
        device, backend, chunk_clients: see :func:`run`.
    """

    def __init__(
        self,
        task: Task,
        requests: Sequence[tuple[RunConfig, Algorithm]],
        device: torch.device,
        backend: str,
        chunk_clients: int | None,
    ) -> None:
        self.configs = [config for config, _ in requests]
        self.methods = [method for _, method in requests]
        self.config = self.configs[0]
        task = task.centralized() if self.methods[0].pooled else task
        self.task, self.device, self.backend_name = task, device, backend
        self.dtype = getattr(torch, self.config.dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(randomness.key(self.config.seeds["init"], "init"))
            model = task.model()
        _check_features(model, self.methods[0])
        self.model = FlatModel(model, self.dtype, device)
        feed = Feed(task, self.dtype, device)
        self.backend: Backend = BACKEND_CLASSES[backend](feed, self.model)
        self.steps = feed.steps
        self.evaluate = Evaluator(task, self.model, self.dtype, device)
        weights = torch.from_numpy(task.train.client_weights())
        weights = torch.ones_like(weights) if self.methods[0].uniform else weights
        # A client without examples takes no part, whatever its weight.
        self.weights = weights * torch.from_numpy(task.train.sizes > 0)
        self.kept = Kept(ClientStates(len(task.train), device))
        room = CHUNK_NUMBERS[device.type] // (self.model.size * len(requests))
        self.chunk_clients = chunk_clients or max(1, room)
        self.record = Recorder(task, self.configs)

    def run(self, progress: bool) -> list[History]:
        """All rounds; a history per configuration."""
        rows = len(self.configs) * min(self.chunk_clients, self.config.clients_per_round)
        small = self.device.type == "cpu" and rows * self.model.size <= ONE_THREAD_NUMBERS
        with threads(1 if small else torch.get_num_threads()):
            return self._run(progress)

    def _run(self, progress: bool) -> list[History]:
        started = time.perf_counter()
        alive = list(range(len(self.configs)))
        method = self._stack(alive)
        x = self.model.initial().expand(len(alive), -1).clone()
        server = method.server_init(x)
        final = torch.zeros_like(x)
        self.record.evaluation(0, alive, self.evaluate(x))
        training = 0.0
        for number in tqdm(
            range(self.config.rounds), desc=self._title(), unit="round", disable=not progress
        ):
            before = time.perf_counter()
            new, loss = self._round(method, alive, server, number)
            survivors = alive
            if loss is not None:
                good = torch.isfinite(loss) & torch.isfinite(new["x"]).all(-1)
                server = choose(good.unsqueeze(1), new, server)
                survivors = self.record.training(number + 1, alive, loss, good)
            training += time.perf_counter() - before
            if len(survivors) < len(alive):
                final[alive] = server["x"]
                keep = torch.tensor([alive.index(o) for o in survivors], device=self.device).long()
                server = map_state(lambda t, keep=keep: t[keep], server)
                self.kept.memory.keep(keep)
                alive = survivors
                if not alive:
                    break
                method = self._stack(alive)
            if (number + 1) % self.config.eval_every == 0 or number + 1 == self.config.rounds:
                self.record.evaluation(number + 1, alive, self.evaluate(server["x"]))
        if alive:
            final[alive] = server["x"]
        return self._histories(final, time.perf_counter() - started, training)

    def _round(
        self, method: Algorithm, alive: list[int], server: State, number: int
    ) -> tuple[State, Tensor | None]:
        """The server states after a round, and the mean training loss ``[C]``.

        The loss is None where no client of the cohort took a step.
        """
        config = self.config
        cohort = self.cohort(number)
        round = Round(
            number=number,
            rounds=config.rounds,
            cohort=len(cohort),
            population=len(self.task.train),
            batch_size=config.batch_size,
            local_epochs=config.local_epochs,
            local_steps=config.local_steps,
            seed=config.seeds["batches"],
        )
        own = [self.methods[one] for one in alive]
        measuring, training = self._halves(cohort, number) if method.halves else (cohort, cohort)
        self.kept.forget()
        self.record.floats = self.floats(measuring, training)
        work = (own, server)
        if method.remembers:
            for clients in self._chunks(self.kept.memory.unseen(cohort), round):
                self.backend.enroll(*work, clients, round, self.kept)
        if method.measures:
            measured, weight = self._sum(self.backend.measure, work, measuring, round)
            if measured is None or weight == 0:
                return server, None
            server = method.server_measured(
                server, map_state(lambda t: t / weight, measured.reports)
            )
        total, weight = self._sum(self.backend.train, (own, server), training, round)
        if total is None or total.seen == 0:
            return server, None
        if weight == 0:
            return server, total.loss / total.seen
        mean = map_state(lambda t: t / weight, total.reports)
        return method.server_update(server, mean), total.loss / total.seen

    def _sum(
        self,
        phase: Callable[..., Sums],
        work: tuple[list[Algorithm], State],
        clients: np.ndarray,
        round: Round,
    ) -> tuple[Sums | None, float]:
        """The sums of one phase over ``clients``, chunk by chunk, and the sum of their weights."""
        total = None
        for chunk in self._chunks(clients, round):
            part = phase(*work, chunk, self.weights, round, self.kept)
            total = part if total is None else total + part
        return total, float(self.weights[torch.from_numpy(clients)].sum())

    def _chunks(self, clients: np.ndarray, round: Round) -> list[np.ndarray]:
        """Those of ``clients`` that have examples, cut into programs."""
        clients = clients[self.task.train.sizes[clients] > 0]
        if not len(clients):
            return []
        return chunks(clients, self.steps(clients, round), self.chunk_clients)

    def _halves(self, cohort: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Which clients of the cohort measure and which train, at random."""
        draw = randomness.numpy_generator(self.config.seeds["sampling"], "halves", number)
        mixed = draw.permutation(cohort)
        middle = len(mixed) // 2
        return np.sort(mixed[:middle]), np.sort(mixed[middle:])

    def floats(self, measuring: np.ndarray, training: np.ndarray) -> tuple[int, int]:
        """Floats that these clients of a round receive and send."""
        method, size, sizes = self.methods[0], self.model.size, self.task.train.sizes
        down, up = method.communication(size)
        trainers = int((sizes[training] > 0).sum())
        if not method.halves:
            return trainers * down, trainers * up
        measurers = int((sizes[measuring] > 0).sum())
        measure_down, measure_up = method.measure_communication(size)
        return trainers * down + measurers * measure_down, trainers * up + measurers * measure_up

    def cohort(self, number: int) -> np.ndarray:
        """The clients of round ``number``: uniform without replacement, in ascending order."""
        population, size = len(self.task.train), self.config.clients_per_round
        if size == population:
            return np.arange(population)
        draw = randomness.numpy_generator(self.config.seeds["sampling"], "cohort", number)
        return np.sort(draw.choice(population, size, replace=False))

    def _stack(self, alive: list[int]) -> Algorithm:
        return Algorithm.stack([self.methods[one] for one in alive], self.dtype, self.device)

    def _title(self) -> str:
        many = f" x {len(self.configs)}" if len(self.configs) > 1 else ""
        stand_in = " (stand-in)" if self.task.stand_in else ""
        return f"{self.config.algorithm}{many} on {self.task.name}{stand_in}"

    def _histories(self, final: Tensor, seconds: float, training: float) -> list[History]:
        rounds = max(1, self.config.rounds)
        meta = {
            "device": str(self.device)
            if self.device.type == "cpu"
            else torch.cuda.get_device_name(self.device),
            "backend": self.backend_name,
            "threads": torch.get_num_threads(),
            "configurations": len(self.configs),
            "seconds": round(seconds, 3),
            "seconds_per_round": training / rounds,
            "versions": {
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
        }
        return [
            History(
                frame=self.record.frame(position),
                clients=self.record.clients(position),
                params=self.model.named(final[position]),
                config=config,
                meta={**meta, "diverged": self.record.diverged.get(position)},
            )
            for position, config in enumerate(self.configs)
        ]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch's CPU kernels in ``count`` threads inside."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _check_features(model: nn.Module, method: Algorithm) -> None:
    """Refuse a method that needs a model's features where the model does not show them."""
    if method.needs_features and not (hasattr(model, "features") and hasattr(model, "head")):
        raise Error(
            f"{type(method).__name__} needs the features of the model, but "
            f"{type(model).__name__} has no features(x) and head(features); add them"
        )
