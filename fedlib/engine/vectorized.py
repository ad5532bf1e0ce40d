"""The backend of rows: clients and configurations as one batched program."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, State
from fedlib.engine.backend import Backend, Sums, Work
from fedlib.engine.feed import Feed, Round
from fedlib.engine.oracles import Batch, RowsFullBatch, RowsOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import carry_statistics, join, map_state, narrow, spread


class Vectorized(Backend):
    """See :class:`fedlib.engine.backend.Backend`; client states are ``[M, C, .]``."""

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.feed, self.model = feed, model
        self.oracle = RowsOracle(feed.task, model)

    @torch.no_grad()
    def enroll(self, work: Work, clients: np.ndarray) -> Sums:
        order, full = self._whole(clients, work.round)
        client, server = self.feed.client(order, work.round), self._received(work, order)
        with self.model.tracking(server.get("statistics")):
            memory = work.method.client_enroll(server, client, full)
        work.kept.memory.put(order, spread(memory, len(order)))
        return self._nothing(work)

    @torch.no_grad()
    def measure(self, work: Work, clients: np.ndarray) -> Sums:
        order, full = self._whole(clients, work.round)
        client, server = self._client(work, order), self._received(work, order)
        with self.model.tracking(server.get("statistics")):
            own, sent = work.method.client_measure(server, client, full)
        if own:
            work.kept.measured.put(order, spread(own, len(order)))
        return self._sums(sent, order, work)

    @torch.no_grad()
    def train(self, work: Work, clients: np.ndarray) -> Sums:
        plan = self.feed.plan(clients, work.round)
        order, running = plan.clients, len(plan.clients)
        method, server = work.method, self._received(work, order)
        state = carry_statistics(server, method.client_init(server, self._client(work, order)))
        state = spread(state, running)
        finished, losses = [], []
        for step, batch in enumerate(self.feed.batches(plan, self.feed.example_weights(plan))):
            active = plan.active[step]
            if active < running:
                finished.append(narrow(state, active, running))
                state, running = narrow(state, 0, active), active
            state = self.step(method, state, batch)
            losses.append(state.pop("loss").squeeze(-1))
        state = join([state, *reversed(finished)])
        if method.remembers:
            work.kept.memory.put(order, method.client_remember(server, state))
        sent = carry_statistics(state, method.client_final(server, state))
        sums = self._sums(sent, order, work)
        owners = order[plan.row.numpy()]
        if losses:
            sums.loss = self._sum(torch.cat(losses), plan.counts, owners)
        sums.seen = self.feed.replicas.totals(plan.counts.numpy(), owners)
        sums.slots = plan.slots
        return sums

    def step(self, method: Algorithm, state: State, batch: Batch) -> State:
        """One local step of all rows that still run."""
        with self.model.tracking(state.get("statistics")) as statistics:
            new = method.client_step(state, batch, self.oracle)
        return new | {"statistics": statistics.moved} if "statistics" in state else new

    def _client(self, work: Work, clients: np.ndarray) -> Client:
        """What ``clients`` know."""
        remembers, kept = work.methods[0].remembers, work.kept
        memory = kept.memory.get(clients) if remembers else None
        measured = kept.measured.get(clients) if kept.measured.count else None
        return self.feed.client(clients, work.round, memory, measured)

    def _received(self, work: Work, clients: np.ndarray) -> State:
        """The server states as these clients receive them."""
        return work.replicas.to_clients(work.server, clients)

    def _nothing(self, work: Work) -> Sums:
        replicas = len(work.replicas)
        runs = replicas * len(work.methods)
        loss = torch.zeros(runs, dtype=self.feed.dtype, device=self.feed.device)
        return Sums({}, loss, np.zeros(replicas))

    def _whole(self, clients: np.ndarray, round: Round) -> tuple[np.ndarray, RowsFullBatch]:
        """The clients in the order of the rows, and their whole data."""
        feed = self.feed
        plan = feed.whole_plan(clients)
        weights = feed.whole_weights(plan, round.batch_size)
        batches = partial(feed.batches, plan, weights, training=False)
        return plan.clients, RowsFullBatch(self.oracle, batches, len(plan.clients))

    def _sums(self, sent: State, clients: np.ndarray, work: Work) -> Sums:
        """What these clients sent, summed by weight; losses are still to be put in."""
        own, sent = work.weights[torch.from_numpy(clients)], spread(sent, len(clients))
        sums = self._nothing(work)
        if len(clients) == 1 == len(work.replicas):
            # No product: that is one more pass, and slow with one row.
            sums.reports, sums.scale = map_state(lambda t: t.squeeze(0), sent), float(own)
        else:
            sums.reports = map_state(lambda t: self._sum(t, own, clients), sent)
        return sums

    def _sum(self, values: Tensor, weights: Tensor, clients: np.ndarray) -> Tensor:
        """Values ``[n, C, ...]`` summed by weight over each replica's clients, ``[S C, ...]``."""
        weights = weights.to(self.feed.device, self.feed.dtype)
        if len(self.feed.replicas) == 1:
            return weights @ values if values.dim() == 2 else torch.tensordot(weights, values, 1)
        rows = [own.to(self.feed.device) for own in self.feed.replicas.rows_of(clients)]
        return torch.cat([torch.tensordot(weights[own], values[own], 1) for own in rows])
