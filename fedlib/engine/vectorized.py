"""How clients train: as rows of one batched computation, or a part of the cohort per CPU core."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, State
from fedlib.engine import ranks
from fedlib.engine.batches import Batching, Feed, Round, upload
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

# Above this length one operation a client is faster than one for all, which converts them first.
LONG_ROW = 20_000


@dataclass
class Sums:
    """Sums over clients, or M clients that are to be added to them.

    Clients are added in float64, on a CPU one after the other, so the result there does not depend
    on which clients train together, or where. If reports are in float32, the sums are even exact,
    and so independent of the order, unless one client's number is some 10^8 times another's.

    Attributes:
        totals: tensors ``[1, C, .]``, or ``[M, C, .]`` for clients to be added: ``reports``, the
            clients' reports by weight, and ``loss``, their batches' losses times their weights.
        seen: the weights of the batches.
        apart: pairs of clients' numbers and their reports ``[M, C, .]``, if these are not added.
    """

    totals: State = field(default_factory=dict)
    seen: float = 0.0
    apart: list[tuple[np.ndarray, State]] = field(default_factory=list)

    def add(self, other: Sums) -> None:
        """Add sums, or clients in their order."""
        self.totals = map_state(
            _added, self.totals or map_state(_nothing, other.totals), other.totals
        )
        self.seen += other.seen
        self.apart += other.apart

    def mean(self, weight: float, dtype: torch.dtype) -> State:
        """The sums of reports over ``weight``, ``[C, .]``."""
        return map_state(lambda t: (t[0] / weight).to(dtype), self.totals["reports"])


def _nothing(rows: Tensor) -> Tensor:
    return torch.zeros(1, *rows.shape[1:], dtype=torch.float64, device=rows.device)


def _added(total: Tensor, rows: Tensor) -> Tensor:
    """``total [1, .]`` plus ``rows [M, .]``, on a CPU one after the other."""
    if len(rows) == 1:
        return total.add_(rows)
    if total.device.type == "cpu" and rows[0].numel() > LONG_ROW:
        for row in rows:
            total[0].add_(row)
        return total
    if total.device.type == "cpu":
        return total.index_add_(0, torch.zeros(len(rows), dtype=torch.int64), rows.double())
    # On CUDA index_add_ has no fixed order, so one operation replaces a kernel for each row.
    return total.add_(rows.sum(0, keepdim=True, dtype=torch.float64))


@dataclass(frozen=True)
class Work:
    """The data that all clients of a round share.

    Attributes:
        methods: C configurations of one structure.
        method: all of them as one, with hyperparameters ``[C, 1]``.
        server: server states ``[C, .]``.
        weights: ``[all clients]``, aggregation weights.
        round: the round.
        memory, measured: the clients' memory from one of their rounds to the next, and within this
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
    """Clients and configurations as rows of one computation. Client states are ``[M, C, .]``."""

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
        sums = Sums()
        for clients in chunks:
            sums.add(getattr(self, phase)(work, clients))
        return sums

    @torch.no_grad()
    def enroll(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients that take part for the first time make their memory. They send nothing."""
        work.memory.reserve(clients)
        sent, full = self._whole(clients, work)
        client, server = self.feed.client(sent, work.round), work.server
        with self.model.statistics.tracking(server.get("statistics")):
            memory = work.method.client_enroll(server, client, full)
        work.memory.put(sent["memory"], spread(memory, len(clients)))
        return Sums()

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
        return Sums({"reports": self._weighted(report, sent)})

    @torch.no_grad()
    def train(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients take their local steps."""
        batching, running = self.feed.batching(clients, work.round), len(clients)
        sent = self._upload(work, batching, self.feed.example_weights(batching))
        method, server = work.method, work.server
        # With halves, the training clients have not measured anything.
        measures = bool(work.measured.tensors) and not method.halves
        measured = work.measured.get(sent["measured"]) if measures else None
        client = self._client(work, sent, measured)
        state = method.client_init(server, client)
        state = spread(carry_statistics(server, state), running)
        if method.of_user:  # it may write to it, and so to tensors shared with the server
            state = map_state(Tensor.clone, state)
        take = self.step if self.recorder is None or method.of_user else self.recorder
        finished, losses = [], []
        for step, batch in enumerate(self.feed.batches(batching, sent)):
            active = batching.active[step]
            if active < running:
                finished.append(narrow(state, active, running))
                state, running = narrow(state, 0, active), active
            state = take(method, state, batch)
            losses.append(state.pop("loss").squeeze(-1))
        state = join([state, *reversed(finished)])
        if method.remembers:
            work.memory.put(sent["memory"], method.client_remember(server, state))
        report = carry_statistics(state, method.client_final(server, state))
        lost = torch.zeros(
            len(clients), len(work.methods), dtype=torch.float64, device=self.feed.device
        )
        if losses:  # in the order of steps, also on CUDA
            counted = sent["seen"].unsqueeze(1) * torch.cat(losses)
            lost.index_put_((sent["row"],), counted.double(), accumulate=True)
        sums = Sums({"loss": lost}, float(self.feed.seen(batching).sum(dtype=torch.float64)))
        if method.single_reports:
            own = spread(report, len(clients))
            own = map_state(lambda t: t.expand(-1, len(work.methods), -1).clone(), own)
            sums.apart = [(batching.clients, own)]
        else:
            sums.totals["reports"] = self._weighted(report, sent)
        return sums

    def step(self, method: Algorithm, state: State, batch: Batch) -> State:
        """One local step of all active rows."""
        with self.model.statistics.tracking(state.get("statistics")) as statistics:
            new = method.client_step(state, batch, self.oracle)
        if method.of_user:  # a hyperparameter [C, 1] has no axis of clients, who leave singly
            clients, number = len(batch.y), (*new["loss"].shape[1:2], 1)
            new = map_state(lambda t: t.expand(clients, *t.shape) if t.shape == number else t, new)
        return new | {"statistics": statistics.moved} if "statistics" in state else new

    def _upload(
        self, work: Work, batching: Batching, weights: Tensor, training: bool = True
    ) -> dict[str, Tensor]:
        """The device's data about some clients and their batches.

        Args:
            weights: ``[T, B]``, the weight of each example's loss.
            training: with augmentation and keys for dropout.
        """
        order, feed = batching.clients, self.feed
        host = {
            "index": batching.index,
            "weights": weights,
            "keys": batching.keys if training else None,
            "mask": batching.mask,
            "row": batching.row if training else None,
            "share": work.weights[torch.from_numpy(order)].to(feed.dtype),
            "seen": feed.seen(batching),
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
        """The clients' information."""
        memory = work.memory.get(sent["memory"]) if work.method.remembers else None
        return self.feed.client(sent, work.round, memory, measured)

    def _whole(self, clients: np.ndarray, work: Work) -> tuple[dict[str, Tensor], RowsFullBatch]:
        """The device's data about the clients, and their whole data."""
        feed, batching = self.feed, self.feed.whole_batching(clients)
        weights = feed.whole_weights(batching, work.round.config.batch_size)
        sent = self._upload(work, batching, weights, training=False)
        batches = partial(feed.batches, batching, sent)
        return sent, RowsFullBatch(self.oracle, batches, len(clients))

    def _weighted(self, report: State, sent: Mapping[str, Tensor]) -> State:
        """The clients' reports times their weights, ``[M, C, .]``."""
        share = sent["share"].view(-1, 1, 1)
        return map_state(lambda t: share * t, report)


class Parallel:
    """For large models on a CPU: vectorized workers, one a core, each with a copy of the model.

    Stacked convolutions and large matrices gain nothing on a CPU, where a few rows fill its cache,
    and little from a second thread. Independent clients on separate cores do gain. torch's kernels
    release Python's interpreter lock, so threads suffice. Between short operations they wait for
    it, so small models without convolutions are stacked instead.

    Worker w of W takes the chunks w, w + W, and so on. Clients are added in the order of the
    chunks: a worker that ends too early holds their reports until those before are added.
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        models = [model, *(copy.deepcopy(model) for _ in range(usual_threads() - 1))]
        self.workers = [Vectorized(feed, duplicate) for duplicate in models]

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """See :meth:`Vectorized.total`. Each core takes a part of the chunks."""
        sums, pool = Sums(), one_core_each(len(self.workers))

        def act(worker: Vectorized, clients: np.ndarray, before: Future[None] | None) -> None:
            try:
                part = getattr(worker, phase)(work, clients)
            finally:
                if before is not None:
                    before.result()
            sums.add(part)

        last: Future[None] | None = None
        for number, clients in enumerate(chunks):
            worker = self.workers[number % len(self.workers)]
            last = pool.submit(act, worker, clients, last)
        if last is not None:
            last.result()
        return sums


class Distributed:
    """The ranks of torch.distributed, each with a part of the cohort, as :class:`Parallel`'s cores.

    Rank r of R takes the chunks r, r + R, and so on. The ranks' sums are added in order, on every
    rank. The clients' memories are sent to all, as a client's next round may be on another rank.
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.worker = Vectorized(feed, model)

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """See :meth:`Vectorized.total`. Each rank takes a part of the chunks."""
        own, part = chunks[ranks.number() :: ranks.count()], None
        remembers = work.method.remembers and phase != "measure"
        if own:
            sums, clients = self.worker.total(phase, work, own), np.concatenate(own)
            memory = work.memory.get(work.memory.places(clients)) if remembers else {}
            part = ranks.moved([sums.totals, sums.apart, memory], "cpu"), sums.seen, clients
        total = Sums()
        for rank, sent in enumerate(ranks.gather(part)):
            if sent is not None:
                (totals, apart, memory), seen, clients = sent
                totals, apart, memory = ranks.moved([totals, apart, memory], work.memory.device)
                if memory and rank != ranks.number():
                    work.memory.put(work.memory.reserve(clients), memory)
                total.add(Sums(totals, seen, apart))
        return total
