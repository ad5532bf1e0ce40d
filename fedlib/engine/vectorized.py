"""The backend of rows: clients and configurations as one batched program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, State
from fedlib.engine.backend import Backend, Sums, Work
from fedlib.engine.feed import Feed
from fedlib.engine.oracles import Batch, RowsFullBatch, RowsOracle
from fedlib.engine.plan import Plan
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import carry_statistics, join, map_state, narrow, spread
from fedlib.engine.upload import upload


class Vectorized(Backend):
    """See :class:`fedlib.engine.backend.Backend`; client states are ``[M, C, .]``."""

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.feed, self.model = feed, model
        self.oracle = RowsOracle(feed.task, model)

    @torch.no_grad()
    def enroll(self, work: Work, clients: np.ndarray) -> Sums:
        work.kept.memory.reserve(clients)
        sent, full = self._whole(clients, work)
        client, server = self.feed.client(sent, work.round), self._received(work, sent)
        with self.model.tracking(server.get("statistics")):
            memory = work.method.client_enroll(server, client, full)
        work.kept.memory.put(sent["memory"], spread(memory, len(clients)))
        return self._nothing(work)

    @torch.no_grad()
    def measure(self, work: Work, clients: np.ndarray) -> Sums:
        work.kept.measured.reserve(clients)
        sent, full = self._whole(clients, work)
        client, server = self._client(work, sent), self._received(work, sent)
        with self.model.tracking(server.get("statistics")):
            own, report = work.method.client_measure(server, client, full)
        if own:
            work.kept.measured.put(sent["measured"], spread(own, len(clients)))
        return self._sums(report, clients, work, sent)

    @torch.no_grad()
    def train(self, work: Work, clients: np.ndarray) -> Sums:
        plan, running = self.feed.plan(clients, work.round), len(clients)
        sent = self._upload(work, plan, self.feed.host(plan, self.feed.example_weights(plan)))
        method, server, kept = work.method, self._received(work, sent), work.kept
        measured = kept.measured.get(sent["measured"]) if kept.measured.tensors else None
        state = method.client_init(server, self._client(work, sent, measured))
        state = spread(carry_statistics(server, state), running)
        finished, losses = [], []
        for step, batch in enumerate(self.feed.batches(plan, sent)):
            active = plan.active[step]
            if active < running:
                finished.append(narrow(state, active, running))
                state, running = narrow(state, 0, active), active
            state = self.step(method, state, batch)
            losses.append(state.pop("loss").squeeze(-1))
        state = join([state, *reversed(finished)])
        if method.remembers:
            kept.memory.put(sent["memory"], method.client_remember(server, state))
        report = carry_statistics(state, method.client_final(server, state))
        sums = self._sums(report, clients, work, sent)
        if losses:
            batches = self._rows(sent, "batches")
            sums.loss = self._sum(torch.cat(losses), sent["seen"], batches)
        owners = plan.clients[plan.row.numpy()]
        sums.seen = self.feed.replicas.totals(plan.counts.numpy(), owners)
        sums.slots = plan.slots
        return sums

    def step(self, method: Algorithm, state: State, batch: Batch) -> State:
        """One local step of all rows that still run."""
        with self.model.tracking(state.get("statistics")) as statistics:
            new = method.client_step(state, batch, self.oracle)
        return new | {"statistics": statistics.moved} if "statistics" in state else new

    def _upload(
        self, work: Work, plan: Plan, batches: Mapping[str, Tensor | None]
    ) -> dict[str, Tensor]:
        """What the device needs to know for the clients of a plan, in one transfer.

        Args:
            batches: what :meth:`Feed.host` says of the plan.
        """
        order, feed, replicas = plan.clients, self.feed, work.replicas
        host = {**batches, **feed.counts(order, work.round)}
        host["share"] = work.weights[torch.from_numpy(order)].to(feed.dtype)
        host["seen"] = plan.counts.to(feed.dtype)
        if work.method.remembers:
            host["memory"] = work.kept.memory.places(order)
        if work.kept.measured.count:
            host["measured"] = work.kept.measured.places(order)
        if len(replicas) > 1:
            host["replica"] = torch.from_numpy(replicas.of_clients(order))
            owners = order[plan.row.numpy()]
            for number in range(len(replicas)):
                host[f"clients {number}"] = replicas.rows_of(number, order)
                host[f"batches {number}"] = replicas.rows_of(number, owners)
        return upload(host, feed.device)

    def _rows(self, sent: Mapping[str, Tensor], what: str) -> list[Tensor]:
        """Which ``clients`` or ``batches`` are of each replica; nothing where there is one."""
        count = len(self.feed.replicas)
        return [sent[f"{what} {number}"] for number in range(count)] if count > 1 else []

    def _client(
        self, work: Work, sent: Mapping[str, Tensor], measured: State | None = None
    ) -> Client:
        """What the clients know."""
        memory = work.kept.memory.get(sent["memory"]) if work.method.remembers else None
        return self.feed.client(sent, work.round, memory, measured)

    def _received(self, work: Work, sent: Mapping[str, Tensor]) -> State:
        """The server states as the clients receive them."""
        return work.replicas.to_clients(work.server, sent.get("replica"))

    def _nothing(self, work: Work) -> Sums:
        replicas = len(work.replicas)
        runs = replicas * len(work.methods)
        loss = torch.zeros(runs, dtype=self.feed.dtype, device=self.feed.device)
        return Sums({}, loss, np.zeros(replicas))

    def _whole(self, clients: np.ndarray, work: Work) -> tuple[dict[str, Tensor], RowsFullBatch]:
        """What the device knows of the clients, and their whole data."""
        feed, plan = self.feed, self.feed.whole_plan(clients)
        weights = feed.whole_weights(plan, work.round.batch_size)
        sent = self._upload(work, plan, feed.host(plan, weights, training=False))
        batches = partial(feed.batches, plan, sent)
        return sent, RowsFullBatch(self.oracle, batches, len(clients))

    def _sums(
        self, report: State, clients: np.ndarray, work: Work, sent: Mapping[str, Tensor]
    ) -> Sums:
        """What these clients report, summed by weight; losses are still to be put in."""
        report, sums = spread(report, len(clients)), self._nothing(work)
        if len(clients) == 1 == len(work.replicas):
            # No product: that is one more pass, and slow with one row.
            sums.reports = map_state(lambda t: t.squeeze(0), report)
            sums.scale = float(work.weights[clients[0]])
        else:
            rows = self._rows(sent, "clients")
            sums.reports = map_state(lambda t: self._sum(t, sent["share"], rows), report)
        return sums

    @staticmethod
    def _sum(values: Tensor, weights: Tensor, rows: Sequence[Tensor]) -> Tensor:
        """Values ``[n, C, ...]`` summed by weight over each replica's ``rows``, ``[S C, ...]``."""
        if not rows:
            return weights @ values if values.dim() == 2 else torch.tensordot(weights, values, 1)
        return torch.cat([torch.tensordot(weights[own], values[own], 1) for own in rows])
