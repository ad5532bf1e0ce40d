"""C configurations that train together, round after round."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from fedlib import randomness
from fedlib.algorithms.base import Algorithm, State
from fedlib.engine import memory, precision, strategy
from fedlib.engine.allocator import keep_freed_memory
from fedlib.engine.backend import Backend, Kept, Sums, Work
from fedlib.engine.checkpoint import Checkpoint, stop_requests
from fedlib.engine.compiled import Compiled
from fedlib.engine.config import RunConfig
from fedlib.engine.evaluation import Evaluator
from fedlib.engine.feed import Feed, Round
from fedlib.engine.graphed import Graphed
from fedlib.engine.history import History
from fedlib.engine.parallel import Parallel
from fedlib.engine.plan import chunks
from fedlib.engine.record import Recorder
from fedlib.engine.reference import Reference
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import ClientStates, choose, map_state
from fedlib.engine.vectorized import Vectorized
from fedlib.errors import Error
from fedlib.task import Task

BACKENDS: dict[str, Callable[[Feed, FlatModel], Backend]] = {
    "reference": Reference,
    "vectorized": Vectorized,
    "parallel": Parallel,
    "compiled": Compiled,
    "graphed": Graphed,
}
# Bytes of a block that the C library hands back to the system when it is freed.
LARGE_BLOCK = 2**20
# Tensors smaller than this are not worth a plan of the memory.
SAID_BYTES = 2**26


@dataclass
class Progress:
    """Where a program stands between two rounds.

    Attributes:
        done: rounds finished.
        alive: positions of the configurations that have not diverged.
        server: their server states, ``[C, .]``.
        final: the last finite parameters of every configuration, ``[all, P]``.
        training: seconds spent in rounds.
    """

    done: int
    alive: list[int]
    server: State
    final: Tensor
    training: float = 0.0


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
        self.task, self.device = task, device
        precision.check(self.config.dtype, device)
        self.dtype = precision.stored(self.config.dtype)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(randomness.key(self.config.seeds["init"], "init"))
            model = task.model()
        _check_features(model, self.methods[0])
        self.model = FlatModel(model, self.dtype, device)
        self.model.forward_context = partial(precision.computing, self.config.dtype, device)
        feed = Feed(task, self.dtype, device)
        self.steps = feed.steps
        self.evaluate = Evaluator(task, self.model, self.dtype, device)
        weights = torch.from_numpy(task.train.client_weights())
        weights = torch.ones_like(weights) if self.methods[0].uniform else weights
        # A client without examples takes no part, whatever its weight.
        self.weights = weights * torch.from_numpy(task.train.sizes > 0)
        self.kept = Kept(ClientStates(len(task.train), device))
        self.strategy = strategy.choose(
            self.model.size,
            len(requests),
            self.config.clients_per_round,
            device,
            backend,
            chunk_clients,
            strategy.stacks(model),
        )
        self.backend: Backend = BACKENDS[self.strategy.backend](feed, self.model)
        self.record = Recorder(task, self.configs)
        rows = len(requests) * min(self.strategy.chunk_clients, self.config.clients_per_round)
        if device.type == "cpu" and rows * self.model.size * self.dtype.itemsize > LARGE_BLOCK:
            keep_freed_memory()
        # Examples trained on, and computed on with padding, since this program was made.
        self.seen, self.slots = 0.0, 0
        # Which of several programs this is, for the progress bar.
        self.place = ""
        self._stacked: tuple[list[int], Algorithm] | None = None

    def run(self, progress: bool = False, checkpoint: Checkpoint | None = None) -> list[History]:
        """All rounds, or those that the checkpoint has not seen; a history per configuration.

        Raises:
            Stopped: after a checkpoint, where the process was asked to end.
        """
        with self._settings():
            return self._run(progress, checkpoint)

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """torch's global settings for this program, inside."""
        with strategy.threads(self.strategy.threads), precision.products(self.config.dtype):
            yield

    def _run(self, progress: bool, checkpoint: Checkpoint | None) -> list[History]:
        if progress and len(self.configs) > 1:
            self._say_memory()
        started = time.perf_counter()
        now = None if checkpoint is None else checkpoint.load(self)
        now = self._start() if now is None else now
        bar = tqdm(
            range(now.done, self.config.rounds),
            initial=now.done,
            total=self.config.rounds,
            desc=self._title(),
            unit="round",
            disable=not progress,
            leave=not self.place or None,
        )
        with stop_requests(checkpoint is not None) as asked, bar:
            for number in bar:
                self._advance(now, number)
                if not now.alive:
                    break
                if checkpoint is not None and now.done < self.config.rounds:
                    checkpoint.offer(self, now, bool(asked))
        if now.alive:
            now.final[now.alive] = now.server["x"]
        if checkpoint is not None:
            checkpoint.discard()
        return self._histories(now, time.perf_counter() - started)

    def stepper(self) -> Callable[[], None]:
        """A function that does the next round at each call, for measuring."""
        now = self._start()

        def step() -> None:
            with self._settings():
                self._advance(now, now.done)

        return step

    def _say_memory(self) -> None:
        """Print what a large grid will take, before it starts."""
        numbers = len(self.configs) * self.model.size * strategy.VECTORS
        if numbers * self.dtype.itemsize > SAID_BYTES:
            tqdm.write(str(memory.plan(self)), file=sys.stderr)

    def rehearse(self, cohort: np.ndarray) -> None:
        """A round of a few clients that changes nothing, to see what it takes."""
        alive = list(range(len(self.configs)))
        server = self.initial_server(alive)
        with self._settings():
            self._round(self._stack(alive), alive, server, 0, cohort)

    def _start(self) -> Progress:
        alive = list(range(len(self.configs)))
        server = self.initial_server(alive)
        self.record.evaluation(0, alive, self.evaluate(server["x"]))
        return Progress(0, alive, server, torch.zeros_like(server["x"]))

    def initial_server(self, alive: list[int]) -> State:
        """The server states of some configurations before round 0."""
        x = self.model.initial().expand(len(alive), -1).clone()
        return self._stack(alive).server_init(x)

    def _advance(self, now: Progress, number: int) -> None:
        """Round ``number``, and the evaluation after it."""
        before = time.perf_counter()
        method = self._stack(now.alive)
        new, loss = self._round(method, now.alive, now.server, number)
        survivors = now.alive
        if loss is not None:
            # 0 x is 0 for finite numbers and NaN for others; torch.isfinite passes over x thrice.
            good = torch.isfinite(loss) & ((0 * new["x"]).sum(-1) == 0)
            survivors = self.record.training(number + 1, now.alive, loss, good)
            same = len(survivors) == len(now.alive)
            now.server = new if same else choose(good.unsqueeze(1), new, now.server)
        now.done = number + 1
        now.training += time.perf_counter() - before
        if len(survivors) < len(now.alive):
            now.final[now.alive] = now.server["x"]
            positions = [now.alive.index(one) for one in survivors]
            keep = torch.tensor(positions, device=self.device, dtype=torch.int64)
            now.server = map_state(lambda t: t[keep], now.server)
            self.kept.memory.keep(keep)
            now.alive = survivors
        last = now.done == self.config.rounds
        if now.alive and (last or now.done % self.config.eval_every == 0):
            self.record.evaluation(now.done, now.alive, self.evaluate(now.server["x"]))

    def _round(
        self,
        method: Algorithm,
        alive: list[int],
        server: State,
        number: int,
        cohort: np.ndarray | None = None,
    ) -> tuple[State, Tensor | None]:
        """The server states after a round, and the mean training loss ``[C]``.

        The loss is None where no client of the cohort took a step.
        """
        config = self.config
        cohort = self.cohort(number) if cohort is None else cohort
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
        measuring, training = self._halves(cohort, number) if method.halves else (cohort, cohort)
        self.kept.forget()
        self.record.floats = self.floats(measuring, training)
        own = [self.methods[one] for one in alive]
        work = Work(own, method, server, self.weights, round, self.kept)
        if method.remembers:
            self._phase("enroll", work, self.kept.memory.unseen(cohort))
        if method.measures:
            measured = self._phase("measure", work, measuring)
            if measured is None or not self._weight(measuring):
                return server, None
            informed = method.server_measured(server, self._mean(measured, measuring))
            work = replace(work, server=informed)
        trained = self._phase("train", work, training)
        if trained is None or trained.seen == 0:
            return server, None
        loss = trained.loss / trained.seen
        self.seen, self.slots = self.seen + trained.seen, self.slots + trained.slots
        if not self._weight(training):
            return server, loss
        return method.server_update(work.server, self._mean(trained, training)), loss

    def _phase(self, phase: str, work: Work, clients: np.ndarray) -> Sums | None:
        """The sums of one phase over those of ``clients`` that have examples, chunk by chunk."""
        clients = clients[self.task.train.sizes[clients] > 0]
        if not len(clients):
            return None
        pieces = chunks(clients, self.steps(clients, work.round), self.strategy.chunk_clients)
        return self.backend.total(phase, work, pieces)

    def _mean(self, sums: Sums, clients: np.ndarray) -> State:
        """The weighted mean of what ``clients`` sent."""
        weight = self._weight(clients)
        return map_state(lambda t: t / weight, sums.reports)

    def _weight(self, clients: np.ndarray) -> float:
        return float(self.weights[torch.from_numpy(clients)].sum())

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
        """The living configurations as one method with hyperparameters ``[C, 1]``."""
        if self._stacked is None or self._stacked[0] != alive:
            methods = [self.methods[one] for one in alive]
            self._stacked = (list(alive), type(methods[0]).stack(methods, self.dtype, self.device))
        return self._stacked[1]

    def _title(self) -> str:
        many = f" x {len(self.configs)}" if len(self.configs) > 1 else ""
        stand_in = " (stand-in)" if self.task.stand_in else ""
        names = dict.fromkeys(config.algorithm for config in self.configs)
        return f"{self.place}{', '.join(names)}{many} on {self.task.name}{stand_in}"

    def _histories(self, now: Progress, seconds: float) -> list[History]:
        rounds = max(1, self.config.rounds)
        meta = {
            "device": str(self.device)
            if self.device.type == "cpu"
            else torch.cuda.get_device_name(self.device),
            "backend": self.strategy.backend,
            "threads": torch.get_num_threads(),
            "configurations": len(self.configs),
            "padding": round(1 - self.seen / self.slots, 4) if self.slots else 0.0,
            "seconds": round(seconds, 3),
            "seconds_per_round": now.training / rounds,
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
                params=self.model.named(now.final[position]),
                config=config,
                meta={**meta, "diverged": self.record.diverged.get(position)},
            )
            for position, config in enumerate(self.configs)
        ]


def _check_features(model: nn.Module, method: Algorithm) -> None:
    """Refuse a method that needs a model's features where the model does not show them."""
    if method.needs_features and not (hasattr(model, "features") and hasattr(model, "head")):
        name = type(getattr(method, "objective", method)).__name__
        raise Error(
            f"{name} needs the features of the model, but "
            f"{type(model).__name__} has no features(x) and head(features); add them"
        )
