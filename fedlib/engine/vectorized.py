"""How clients train: as rows of one batched program, or a part of the cohort per CPU core."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, State
from fedlib.engine import ranks
from fedlib.engine.batches import Feed, Plan, Round, upload
from fedlib.engine.graphs import Capture, Recorder
from fedlib.engine.oracles import Batch, RowsFullBatch, RowsOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import (
    ClientStates,
    carry_statistics,
    join,
    map_state,
    narrow,
    spread,
)
from fedlib.process import one_core_each, usual_threads


@dataclass
class Sums:
    """Sums over clients.

    Attributes:
        reports: for each field of what the clients send, sum_i w_i report_i, ``[C, .]``.
        loss: example-weighted sum of the batch losses seen in training, ``[C]``.
        seen: how many examples that were.
        scale: what the reports of one client are still to be multiplied by, or None. Adding them
            does it on the way.
        clients: whose reports these are, where they are kept apart: ``[M, C, .]``, not weighted.
    """

    reports: State
    loss: Tensor
    seen: float = 0.0
    scale: float | None = None
    clients: np.ndarray | None = None

    def __iadd__(self, other: Sums) -> Sums:
        self.loss += other.loss
        self.seen += other.seen
        if self.clients is not None and other.clients is not None:
            self.clients = np.concatenate([self.clients, other.clients])
            both = (self.reports, other.reports)
            self.reports = map_state(lambda *parts: torch.cat(parts), *both)
            return self
        self.scaled()
        factor = 1.0 if other.scale is None else other.scale
        map_state(lambda total, t: total.add_(t, alpha=factor), self.reports, other.reports)
        return self

    def scaled(self) -> Sums:
        """Multiply the reports now, in new memory, as theirs may still be the client's."""
        if self.scale is not None:
            self.reports = map_state(lambda t: self.scale * t, self.reports)
            self.scale = None
        return self


@dataclass(frozen=True)
class Work:
    """What all clients of a round share.

    Attributes:
        methods: C configurations of one structure.
        method: all of them as one, with hyperparameters ``[C, 1]``.
        server: server states ``[C, .]``.
        weights: ``[all clients]``, aggregation weights.
        round: which round.
        memory, measured: what clients keep from one of their rounds to the next, and within this
            round. Phases write to them.
    """

    methods: Sequence[Algorithm]
    method: Algorithm
    server: State
    weights: Tensor
    round: Round
    memory: ClientStates
    measured: ClientStates


class Vectorized:
    """Clients and configurations as rows of one program; client states are ``[M, C, .]``."""

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.feed, self.model = feed, model
        self.oracle = RowsOracle(feed.task, model)
        # Other models, and methods that are not fedlib's, may do more than torch sees.
        records = feed.device.type == "cuda" and model.carries_rows
        self.recorder = Recorder(self.step, partial(Capture, feed.device)) if records else None

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """The sums of one phase (``"enroll"``, ``"measure"``, ``"train"``) over several chunks.

        Args:
            chunks: numbers of clients that have examples.
        """
        sums: Sums = reduce(operator.iadd, map(partial(getattr(self, phase), work), chunks))
        return sums.scaled()

    @torch.no_grad()
    def enroll(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients that take part for the first time make their memory. The sums are empty."""
        work.memory.reserve(clients)
        sent, full = self._whole(clients, work)
        client, server = self.feed.client(sent, work.round), work.server
        with self.model.statistics.tracking(server.get("statistics")):
            memory = work.method.client_enroll(server, client, full)
        work.memory.put(sent["memory"], spread(memory, len(clients)))
        return self._nothing(work)

    @torch.no_grad()
    def measure(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients evaluate their whole data."""
        work.measured.reserve(clients)
        sent, full = self._whole(clients, work)
        client, server = self._client(work, sent), work.server
        with self.model.statistics.tracking(server.get("statistics")):
            measured, report = work.method.client_measure(server, client, full)
        if measured:
            work.measured.put(sent["measured"], spread(measured, len(clients)))
        return self._sums(report, clients, work, sent)

    @torch.no_grad()
    def train(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients take their local steps."""
        plan, running = self.feed.plan(clients, work.round), len(clients)
        sent = self._upload(work, plan, self.feed.example_weights(plan))
        method, server = work.method, work.server
        # In halves those who train have measured nothing.
        kept = bool(work.measured.tensors) and not method.halves
        measured = work.measured.get(sent["measured"]) if kept else None
        client = self._client(work, sent, measured)
        state = method.client_init(server, client)
        state = spread(carry_statistics(server, state), running)
        if method.of_user:  # which may write to it, and so to what clients share with the server
            state = map_state(Tensor.clone, state)
        take = self.step if self.recorder is None or method.of_user else self.recorder
        finished, losses = [], []
        for step, batch in enumerate(self.feed.batches(plan, sent)):
            active = plan.active[step]
            if active < running:
                finished.append(narrow(state, active, running))
                state, running = narrow(state, 0, active), active
            state = take(method, state, batch)
            losses.append(state.pop("loss").squeeze(-1))
        state = join([state, *reversed(finished)])
        if method.remembers:
            work.memory.put(sent["memory"], method.client_remember(server, state))
        report = carry_statistics(state, method.client_final(server, state))
        sums = self._sums(report, clients, work, sent)
        if method.single_reports:
            runs = len(work.methods)
            apart = spread(report, len(clients))
            sums.reports = map_state(lambda t: t.expand(-1, runs, -1).clone(), apart)
            sums.scale, sums.clients = None, plan.clients
        if losses:
            sums.loss = sent["seen"] @ torch.cat(losses)
        sums.seen = float(self.feed.seen(plan).sum(dtype=torch.float64))
        return sums

    def step(self, method: Algorithm, state: State, batch: Batch) -> State:
        """One local step of all rows that still run."""
        with self.model.statistics.tracking(state.get("statistics")) as statistics:
            new = method.client_step(state, batch, self.oracle)
        if method.of_user:  # a hyperparameter [C, 1] has no axis of clients, who leave singly
            clients, number = len(batch.y), (*new["loss"].shape[1:2], 1)
            new = map_state(lambda t: t.expand(clients, *t.shape) if t.shape == number else t, new)
        return new | {"statistics": statistics.moved} if "statistics" in state else new

    def _upload(
        self, work: Work, plan: Plan, weights: Tensor, training: bool = True
    ) -> dict[str, Tensor]:
        """What the device needs to know for the clients of a plan.

        Args:
            weights: ``[T, B]``, what each example's loss counts.
            training: with augmentation and keys for dropout.
        """
        order, feed = plan.clients, self.feed
        host = {
            "index": plan.index,
            "weights": weights,
            "keys": plan.keys if training else None,
            "mask": plan.mask,
            "share": work.weights[torch.from_numpy(order)].to(feed.dtype),
            "seen": feed.seen(plan),
            **feed.counts(order, work.round),
        }
        if work.method.remembers:
            host["memory"] = work.memory.places(order)
        if work.measured.count:
            host["measured"] = work.measured.places(order)
        return upload(host, feed.device)

    def _client(
        self, work: Work, sent: Mapping[str, Tensor], measured: State | None = None
    ) -> Client:
        """What the clients know."""
        memory = work.memory.get(sent["memory"]) if work.method.remembers else None
        return self.feed.client(sent, work.round, memory, measured)

    def _nothing(self, work: Work) -> Sums:
        runs = len(work.methods)
        return Sums({}, torch.zeros(runs, dtype=self.feed.dtype, device=self.feed.device))

    def _whole(self, clients: np.ndarray, work: Work) -> tuple[dict[str, Tensor], RowsFullBatch]:
        """What the device knows of the clients, and their whole data."""
        feed, plan = self.feed, self.feed.whole_plan(clients)
        weights = feed.whole_weights(plan, work.round.config.batch_size)
        sent = self._upload(work, plan, weights, training=False)
        batches = partial(feed.batches, plan, sent)
        return sent, RowsFullBatch(self.oracle, batches, len(clients))

    def _sums(
        self, report: State, clients: np.ndarray, work: Work, sent: Mapping[str, Tensor]
    ) -> Sums:
        """What these clients report, summed by weight; losses are still to be put in."""
        report, sums = spread(report, len(clients)), self._nothing(work)
        if len(clients) == 1 and self.recorder is None:
            # No product: that is one more pass, and slow with one row.
            sums.reports = map_state(lambda t: t.squeeze(0), report)
            sums.scale = float(work.weights[clients[0]])
        else:
            sums.reports = map_state(lambda t: torch.tensordot(sent["share"], t, 1), report)
        return sums


class Parallel:
    """For large models on a CPU: vectorized workers, one a core, each with a copy of the model.

    Stacked convolutions and large matrices gain nothing on a CPU, where a few rows fill its cache,
    and little from a second thread. Independent clients on separate cores do. torch's kernels
    release Python's interpreter lock, so threads can serve. Between short operations they wait for
    it, which is why small models without convolutions are stacked instead.

    Worker w of W does the chunks w, w + W, ... in order, and the workers' sums are added in order,
    so a result does not depend on which ends first.
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        models = [model, *(copy.deepcopy(model) for _ in range(usual_threads() - 1))]
        self.workers = [Vectorized(feed, duplicate) for duplicate in models]

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """See :meth:`Vectorized.total`; each core does a share of the chunks."""
        shares = [chunks[number :: len(self.workers)] for number in range(len(self.workers))]
        pool = one_core_each(len(self.workers))
        jobs = [
            pool.submit(worker.total, phase, work, share)
            for worker, share in zip(self.workers, shares, strict=True)
            if share
        ]
        sums: Sums = reduce(operator.iadd, [job.result() for job in jobs])
        return sums


class Distributed:
    """The ranks of torch.distributed, each with a part of the cohort, as :class:`Parallel`'s cores.

    Rank r of R does the chunks r, r + R, .... The ranks' sums are added in order, on every rank, so
    the numbers are those of R cores. What clients remember is sent to all, since a client's next
    round may be another rank's.
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.worker = Vectorized(feed, model)

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """See :meth:`Vectorized.total`; each rank does a share of the chunks."""
        own, part = chunks[ranks.number() :: ranks.count()], None
        remembers = work.method.remembers and phase != "measure"
        if own:
            sums = self.worker.total(phase, work, own)
            clients = np.concatenate(own) if sums.clients is None else sums.clients
            memory = work.memory.get(work.memory.places(clients)) if remembers else {}
            state = {"reports": sums.reports, "loss": sums.loss, "memory": memory}
            part = ranks.moved(state, "cpu"), sums.seen, clients
        totals = []
        for rank, sent in enumerate(ranks.gather(part)):
            if sent is not None:
                state, seen, clients = ranks.moved(sent[0], work.memory.device), *sent[1:]
                if state["memory"] and rank != ranks.number():
                    work.memory.put(work.memory.reserve(clients), state["memory"])
                apart = clients if work.method.single_reports and phase == "train" else None
                totals.append(Sums(state["reports"], state["loss"], seen, clients=apart))
        total: Sums = reduce(operator.iadd, totals)
        return total
