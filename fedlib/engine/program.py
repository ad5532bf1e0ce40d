"""C configurations that train together, round after round."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from fedlib import files, process, randomness
from fedlib.algorithms.base import Algorithm, State
from fedlib.arguments import shown
from fedlib.engine import ranks, strategy
from fedlib.engine.batches import Feed
from fedlib.engine.checkpoint import (
    Checkpoint,
    Deadline,
    Paused,
    Snapshot,
    Stopped,
    stop_requests,
)
from fedlib.engine.config import DTYPES, Configured
from fedlib.engine.evaluation import PERSONAL, Evaluator, HistoryBuilder, OwnModels, evaluated
from fedlib.engine.history import History
from fedlib.engine.plain import Plain
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import Progress, chosen, kept
from fedlib.engine.strategy import keep_freed_memory
from fedlib.engine.training import Training
from fedlib.engine.vectorized import Distributed, Parallel, Vectorized
from fedlib.errors import Error, Failure, require_known

if TYPE_CHECKING:
    from fedlib.engine.judging import Judge

log = logging.getLogger("fedlib")
# A separate logger, so that the command line shows it.
_plainly = logging.getLogger("fedlib.plainly")
Backend = Vectorized | Parallel | Distributed | Plain
BACKENDS: dict[str, type[Backend]] = {
    "vectorized": Vectorized,
    "parallel": Parallel,
    "distributed": Distributed,
    "plain": Plain,
}
Keep = Callable[[list[History]], None]
Callback = Callable[[History], Any]
# Blocks of at least this many bytes are returned to the system when they are freed.
LARGE_BLOCK = 2**20


def require_backend(name: str) -> None:
    """Require one of :data:`BACKENDS`, or ``"auto"``."""
    require_known("backend", name, ("auto", *BACKENDS))
    if name == "distributed" and ranks.count() == 1:
        raise Error(
            "backend 'distributed' needs several processes: torchrun --nproc-per-node 2 -m fedlib "
            "run ..., or torch.distributed.init_process_group in a script that torchrun starts"
        )


progress_log = logging.getLogger("fedlib.progress")
_told = [time.monotonic()]


def a_minute_is_over() -> bool:
    """Whether the log of this process is due for a line. If so, the next is due in a minute.

    The lines are logged as ``fedlib.progress``, which is hidden by default.
    """
    over = time.monotonic() - _told[0] >= 60
    if over:
        _told[0] = time.monotonic()
    return over


class _Bar(tqdm):  # type: ignore[type-arg]
    """A progress bar without tqdm's monitoring thread, which would outlive the run."""

    monitor_interval = 0


class Program:
    """C configurations that train together, with one model, one cohort a round, C server states.

    Args:
        configured: the configurations, of one task and one seed, with the same
            ``RunConfig.program()`` and structure.
        device, backend, chunk_clients: see :func:`fedlib.run`.
    """

    @process.alone()
    def __init__(
        self,
        configured: Sequence[Configured],
        device: torch.device,
        backend: str = "auto",
        chunk_clients: int | None = None,
    ) -> None:
        self.configs = [run.config for run in configured]
        self.config, method, task = configured[0]
        config = self.config
        self.task = task.centralized() if method.pooled else task
        self.device = device
        if config.dtype == "tf32" and device.type != "cuda":
            raise Error(f"dtype 'tf32' needs a CUDA device, not {device}: use 'float32'")
        self.dtype = DTYPES[config.dtype]
        model = self._new_model()
        _check_features(model, method)
        self.model = FlatModel(model, self.dtype, device)
        methods = [run.method for run in configured]
        self.strategy = self._pick(len(configured), backend, chunk_clients)
        self.judge: Judge | None = None
        if method.of_user or not self.task.described:  # fedlib's tests check its own methods
            self._judge_first(methods, chunk_clients)
        feed = Feed(self.task, config.seeds, self.dtype, device, methods[0].measured_on)
        feed.require_same_cohorts(config.rounds, config.clients_per_round)
        self.training = Training(
            config,
            methods,
            feed,
            BACKENDS[self.strategy.backend](feed, self.model),
            self.model,
            self.strategy.chunk_clients,
        )
        self.evaluators = {
            split: Evaluator(self.task, self.model, device, data, ranks.shared)
            for split, data in evaluated(self.task).items()
        }
        own = type(method).client_model is not Algorithm.client_model
        self.own_models = OwnModels(self.task, self.model, device) if own else None
        self.record = HistoryBuilder(self.task, self.configs)
        rows = len(configured) * min(self.strategy.chunk_clients, config.clients_per_round)
        if device.type == "cpu" and rows * self.model.size * self.dtype.itemsize > LARGE_BLOCK:
            keep_freed_memory()
        self.callback: Callback | None = None
        self.warned = False
        # The number of this batch of runs among several, for the progress bar.
        self.place = ""

    def _pick(
        self, configurations: int, backend: str, chunk_clients: int | None
    ) -> strategy.Strategy:
        """The strategy for this model."""
        return strategy.pick(
            self.model.size,
            configurations,
            self.config.clients_per_round,
            self.device,
            backend,
            chunk_clients,
            strategy.stacks(self.model.model) or not self.model.copyable,
        )

    def _judge_first(self, methods: Sequence[Algorithm], chunk_clients: int | None) -> None:
        """Check the user's code before round 0, see :mod:`fedlib.engine.judging`."""
        from fedlib.engine import fitting, judging

        if not self.task.described:
            one, other = self._new_model(), self._new_model()
            judging.require_repeatable(self.task, one, other)
            fitting.require_fit(self.task, one, self.dtype)
            self.model.copies_inputs = True
        self.judge = judging.Judge(
            self.task,
            self.config,
            methods[0],
            self._new_model,
            fast=self.strategy.backend != "plain",
            copies=self.strategy.backend == "parallel",
            together=self.strategy.chunk_clients > 1,
        )
        # All ranks follow the first one, as rounding may differ on other machines.
        if reason := ranks.first(self.judge.reason(self.model, methods)):
            self._go_plainly(reason)
        elif self.strategy.backend == "plain":
            self.judge = None  # there is nothing to compare
        elif not self.model.copyable:  # then only one worker remains
            self.strategy = self._pick(len(methods), "auto", chunk_clients)

    def _judge_again(self, now: Progress, number: int) -> None:
        """Compare backends before round ``number``, if it is one of the rounds for that."""
        from fedlib.engine import judging

        if number in judging.ROUNDS and self.judge is not None:
            methods = [self.training.methods[position] for position in now.alive]
            if reason := ranks.first(self.judge.reason(self.model, methods, now.server, number)):
                self._go_plainly(f"before round {number}, {reason}")
                self._train_plainly(len(now.alive))

    def _go_plainly(self, reason: str) -> None:
        if ranks.number() == 0:
            _plainly.warning(
                "%s. The run continues on the plain backend, one client after the other, which "
                "takes longer",
                reason,
            )
        self.judge, self.strategy = None, replace(self.strategy, backend="plain")

    def _train_plainly(self, configurations: int) -> None:
        """Use the plain backend from here on."""
        self.training.backend = Plain(self.training.feed, self.model)
        self.training.memory.widen(configurations)

    def _new_model(self) -> nn.Module:
        """The model before round 0."""
        process.seed(randomness.key(self.config.seeds["init"], "init"))
        return self.task.new_model()

    def run(
        self,
        progress: bool = False,
        checkpoint: Checkpoint | None = None,
        keep: Keep | None = None,
        callback: Callback | None = None,
        deadline: Deadline | None = None,
    ) -> list[History]:
        """All rounds, or those after the checkpoint. Returns a history per configuration.

        Args:
            keep: stores the histories. The checkpoint stays until it has returned, so that no
                trained state is lost if it fails.
            callback: see :func:`fedlib.run`.
            deadline: the end of the available time, with a checkpoint.

        Raises:
            Stopped: after a checkpoint, if the process was asked to end, or has no time left.
        """
        self.callback = callback
        with self._settings():
            if checkpoint is None:
                histories, _ = self._run(progress, self._start())
                if keep is not None:
                    keep(histories)
                return histories
            with stop_requests() as asked:
                return self._run_safely(progress, checkpoint, keep, asked, deadline)

    @contextmanager
    def _settings(self, others: bool = True) -> Iterator[None]:
        """torch's settings for these runs, inside."""
        count = self.strategy.threads
        with process.alone(self.config.dtype == "tf32"), process.threads(count, others):
            yield

    def _run_safely(
        self,
        progress: bool,
        checkpoint: Checkpoint,
        keep: Keep | None,
        asked: list[int],
        deadline: Deadline | None,
    ) -> list[History]:
        """:meth:`run` with a checkpoint, which is removed when the histories are kept."""
        if ranks.number() == 0:
            files.require_writable(checkpoint.path.parent, "FEDLIB_DATA or checkpoint=")
        own = ranks.number() == 0
        saved = checkpoint.load(self.device) if own else None
        if ranks.count() > 1:
            saved = ranks.moved(ranks.first(ranks.moved(saved, "cpu")), self.device)
        now = self._start() if saved is None else self.restore(saved)
        if deadline is not None and now.done < self.config.rounds:
            late = not deadline.begin(now.seconds / max(1, now.done))
            if any(ranks.gather(late)):
                raise Paused(self._told(now))

        def between(now: Progress, failed: bool) -> None:
            if ranks.count() > 1 and not failed:  # all ranks must end after the same round
                asked[:] = next((numbers for numbers in ranks.gather(asked) if numbers), [])
            finished = now.done == self.config.rounds or not now.alive
            looks = [self.config.evaluates(done) for done in (now.done, now.done + 1)]
            late = not (deadline is None or failed or finished or deadline.allows(*looks))
            if ranks.count() > 1 and deadline is not None and not (failed or finished):
                late = any(ranks.gather(late))
            # A finished run that will be kept needs no checkpoint.
            must = failed or late or (asked and not (finished and keep))
            if must or (checkpoint.due(now.done) and not finished):
                if own:
                    checkpoint.save(self.snapshot(now))
                if asked:
                    what = f"stopped after round {now.done}. The state is in {checkpoint.path}"
                    raise Stopped(asked[0], what)
            if late:
                raise Paused(self._told(now))

        histories, now = self._run(progress, now, between)
        if keep is not None:
            try:
                keep(histories)
            except BaseException as problem:
                try:
                    checkpoint.save(self.snapshot(now))
                except Failure as another:
                    raise Failure(f"{problem}. {another}") from None
                if isinstance(problem, Failure):
                    raise Failure(
                        f"{problem}. The trained state is in {checkpoint.path}, and the same call "
                        "continues from there"
                    ) from None
                raise
        if own:
            checkpoint.discard()
        if asked and keep is not None:
            what = f"stopped after round {now.done}, the last one. The run is stored"
            raise Stopped(asked[0], what)
        return histories

    def _run(
        self,
        progress: bool,
        now: Progress,
        between: Callable[[Progress, bool], None] = lambda now, failed: None,
    ) -> tuple[list[History], Progress]:
        """The histories, and the state after the last round. ``between`` is called after each, and
        after a callback has failed.
        """
        started, stopped = time.perf_counter() - now.spent, dict[str, int]()
        bar = _Bar(
            range(now.done, self.config.rounds),
            initial=now.done,
            total=self.config.rounds,
            desc=self._title(),
            unit="round",
            disable=not progress or ranks.number() > 0,
            miniters=1,
            leave=not self.place or None,
        )
        with bar:
            for number in bar:
                if not now.alive:
                    break
                self._advance(now, number)
                now.spent = time.perf_counter() - started
                if a_minute_is_over():
                    progress_log.info(self._told(now))
                between(now, False)
                if self.callback is None:
                    continue
                try:
                    own = ranks.number() == 0
                    stop = ranks.first(self._asks_to_stop(self.callback, now) if own else False)
                except Exception:
                    between(now, True)
                    raise
                if stop and now.done < self.config.rounds:
                    stopped = {"stopped": now.done}
                    if now.alive and not self.config.evaluates(now.done):
                        self._evaluate(now.done, now.alive, now.server)
                    break
        return self._histories(now, **stopped), now

    def _asks_to_stop(self, callback: Callback, now: Progress) -> bool:
        """Whether a callback, called for each configuration, asks to end all of them.

        A bar of tqdm also returns True when its update draws it. This does not count.

        Raises:
            Error: it returns neither true nor false nor None.
        """
        before = _moved()
        answers = [callback(history) for history in self._histories(now)]
        moved = any(before.get(bar, n) != n for bar, n in _moved().items())
        if moved and any(answer is True for answer in answers):
            if not self.warned:
                log.warning(
                    "callback gives True and moves a tqdm bar, whose update gives True, too, so "
                    "the run continues. Return None after the update, and numpy.True_ to stop"
                )
            self.warned = True
            return False
        for answer in answers:
            nothing = answer is None or (isinstance(answer, (int, str)) and not answer)
            if not (nothing or isinstance(answer, (bool, np.bool_))):
                raise Error(
                    f"callback gives {shown(answer)} after round {now.done}: return True to end "
                    "the run there, None or False to continue"
                )
        return all(answers)

    def _histories(self, now: Progress, **stopped: int) -> list[History]:
        """The histories so far."""
        self._note(now)
        params = [self.model.named(vector) for vector in now.final]
        return self.record.histories(params, self._meta(now) | stopped)

    def snapshot(self, now: Progress) -> Snapshot:
        """The whole state, not copied."""
        return {
            "progress": vars(now),
            "memory": self.training.memory.state_dict(),
            "cohorts": self.training.named,
            "record": self.record.state_dict(),
            "plain": self.strategy.backend == "plain",
        }

    def restore(self, saved: Snapshot) -> Progress:
        """Restore the result of :meth:`snapshot`.

        Raises:
            Error: the task now names other clients for the rounds that are done.
        """
        training, done = self.training, saved["progress"]["done"]
        training.named = training.feed.cohorts_until(done, self.config.clients_per_round)
        if training.named != saved.get("cohorts", training.named):
            raise Error(
                f"task {self.task.name}: cohorts gives other clients for the rounds before {done} "
                "than when they ran, so the run cannot resume: make it a function of the round"
            )
        self.training.memory.load_state_dict(saved["memory"])
        self.record.load_state_dict(saved["record"])
        if saved.get("plain") and self.strategy.backend != "plain":
            self.judge, self.strategy = None, replace(self.strategy, backend="plain")
            self._train_plainly(len(saved["progress"]["alive"]))
        return Progress(**saved["progress"])

    def _start(self) -> Progress:
        alive = list(range(len(self.configs)))
        server = self._initial_server(alive)
        self._evaluate(0, alive, server)
        return Progress(0, alive, server, torch.zeros_like(_sent(server)))

    def _initial_server(self, alive: list[int]) -> State:
        """The server states of some configurations before round 0."""
        x = self.model.initial().expand(len(alive), -1).contiguous()
        server = self.training.serve("server_init", alive, 0, x)
        if not self.model.statistics.size:
            return server
        return server | {"statistics": self.model.statistics.initial().expand(len(alive), -1)}

    def _evaluate(self, done: int, alive: list[int], server: State) -> None:
        """Evaluate and record the configurations ``alive``."""
        with self.model.statistics.tracking(server.get("statistics")):
            for split, evaluator in self.evaluators.items():
                self.record.evaluation(done, alive, evaluator(server["x"]), split)
            if self.own_models is not None:
                found = self.own_models(partial(self._own_model, alive, server))
                self.record.evaluation(done, alive, found, PERSONAL)

    def _own_model(self, alive: list[int], server: State, client: int) -> Tensor:
        """The parameters that a client itself uses, ``[C, P]``."""
        training = self.training
        if training.memory.slots[client] < 0:
            x: Tensor = server["x"]
            return x
        memory = training.memory.get(training.memory.places(np.array([client])))
        own = training.stack(alive).client_model(server, memory)
        return own.expand(1, len(alive), -1)[0]

    def _note(self, now: Progress) -> None:
        """Store the parameters of the active configurations, as their final ones so far."""
        if now.alive:
            now.final[now.alive] = _sent(now.server)

    def _advance(self, now: Progress, number: int) -> None:
        """Round ``number``, and the evaluation after it."""
        before = time.perf_counter()
        if self.judge is not None:
            self._judge_again(now, number)
        new, loss = self.training.round(now.alive, now.server, number)
        survivors = now.alive
        if loss is not None:
            # 0 x is 0 for finite numbers and NaN for others. torch.isfinite reads x three times.
            good = torch.isfinite(loss) & ((0 * new["x"]).sum(-1) == 0)
            floats = self.training.floats
            survivors = self.record.training(number + 1, now.alive, loss, good, floats)
            if len(survivors) < len(now.alive):
                new = chosen(good, new, now.server)
            now.server = new
        now.done = number + 1
        now.seconds += time.perf_counter() - before
        if len(survivors) < len(now.alive):
            self._note(now)
            self._leave(now, survivors)
        if now.alive and self.config.evaluates(now.done):
            self._evaluate(now.done, now.alive, now.server)

    def _leave(self, now: Progress, survivors: list[int]) -> None:
        """Remove configurations that have diverged."""
        places = [now.alive.index(run) for run in survivors]
        keep = torch.tensor(places, device=self.device, dtype=torch.int64)
        now.server = kept(keep, now.server, len(now.alive))
        self.training.memory.keep(keep)
        now.alive = survivors

    def _told(self, now: Progress) -> str:
        """The progress in words."""
        each = f"{now.seconds / max(1, now.done):.2g} s each"
        return f"{self._title()}: {now.done} of {self.config.rounds} rounds, {each}"

    def _title(self) -> str:
        many = f" x {len(self.configs)}" if len(self.configs) > 1 else ""
        stand_in = " (stand-in)" if self.task.stand_in else ""
        names = dict.fromkeys(config.algorithm for config in self.configs)
        return f"{self.place}{', '.join(names)}{many} on {self.task.name}{stand_in}"

    def _meta(self, now: Progress) -> dict[str, Any]:
        """Meta data of the histories."""
        cuda = self.device.type == "cuda"
        return {
            "device": torch.cuda.get_device_name(self.device) if cuda else str(self.device),
            "backend": self.strategy.backend,
            "threads": torch.get_num_threads(),
            "configurations": len(self.configs),
            **({"ranks": ranks.count()} if ranks.count() > 1 else {}),
            "seconds": round(now.spent, 3),
            "seconds_per_round": now.seconds / max(1, now.done),
        }


def _moved() -> dict[int, Any]:
    """The positions of tqdm's bars."""
    bars = getattr(tqdm, "_instances", ())
    return {id(bar): bar.n for bar in list(bars)}


def _sent(server: State) -> Tensor:
    """The tensors that a server sends: its parameters ``[C, P]`` and running statistics."""
    x: Tensor = server["x"]
    return torch.cat([x, server["statistics"]], -1) if "statistics" in server else x


def _check_features(model: nn.Module, method: Algorithm) -> None:
    """Refuse a method that needs features if the model has none."""
    if method.needs_features and not (hasattr(model, "features") and hasattr(model, "head")):
        name = type(getattr(method, "objective", method)).__name__
        raise Error(
            f"{name} needs the features of the model, but "
            f"{type(model).__name__} has no features(x) and head(features): add them"
        )
