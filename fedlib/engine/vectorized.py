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
        client = self.feed.client(order, work.round)
        with self.model.tracking(work.server.get("statistics")):
            memory = work.method.client_enroll(work.server, client, full)
        work.kept.memory.put(order, spread(memory, len(order)))
        return Sums({}, self._zeros(work))

    @torch.no_grad()
    def measure(self, work: Work, clients: np.ndarray) -> Sums:
        order, full = self._whole(clients, work.round)
        method = work.method
        client = self._client(work, order)
        with self.model.tracking(work.server.get("statistics")):
            own, sent = method.client_measure(work.server, client, full)
        if own:
            work.kept.measured.put(order, spread(own, len(order)))
        return self._sums(sent, order, work)

    @torch.no_grad()
    def train(self, work: Work, clients: np.ndarray) -> Sums:
        plan = self.feed.plan(clients, work.round)
        order, running = plan.clients, len(plan.clients)
        method = work.method
        state = carry_statistics(
            work.server, method.client_init(work.server, self._client(work, order))
        )
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
            work.kept.memory.put(order, method.client_remember(work.server, state))
        sent = carry_statistics(state, method.client_final(work.server, state))
        sums = self._sums(sent, order, work)
        seen = plan.counts.to(self.feed.device, self.feed.dtype)
        sums.loss = seen @ torch.cat(losses) if losses else sums.loss
        sums.seen, sums.slots = float(plan.counts.sum()), plan.slots
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

    def _zeros(self, work: Work) -> Tensor:
        return torch.zeros(len(work.methods), dtype=self.feed.dtype, device=self.feed.device)

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
        if len(clients) == 1:  # no product: that is one more pass, and slow with one row
            first = map_state(lambda t: t.squeeze(0), sent)
            return Sums(first, self._zeros(work), scale=float(own))
        own = own.to(self.feed.device, self.feed.dtype)
        return Sums(map_state(lambda t: torch.tensordot(own, t, 1), sent), self._zeros(work))
