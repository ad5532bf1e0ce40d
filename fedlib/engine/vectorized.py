"""The backend of rows: clients and configurations as one batched program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.backend import Kept, Sums
from fedlib.engine.feed import Feed, Round
from fedlib.engine.oracles import RowsFullBatch, RowsOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import join, map_state, narrow, spread


class Vectorized:
    """See :class:`fedlib.engine.backend.Backend`; client states are ``[M, C, .]``."""

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.feed, self.model = feed, model
        self.oracle = RowsOracle(feed.task, model)
        self._stacked: tuple[list[Algorithm], Algorithm] | None = None

    def stack(self, methods: Sequence[Algorithm]) -> Algorithm:
        """The configurations as one method whose hyperparameters are ``[C, 1]``."""
        if self._stacked is None or self._stacked[0] != list(methods):
            stacked = Algorithm.stack(methods, self.feed.dtype, self.feed.device)
            self._stacked = (list(methods), stacked)
        return self._stacked[1]

    def enroll(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        round: Round,
        kept: Kept,
    ) -> None:
        """Let clients that take part for the first time make their memory."""
        order, full = self._whole(clients, round)
        client = self.feed.client(order, round)
        memory = self.stack(methods).client_enroll(server, client, full)
        kept.memory.put(order, spread(memory, len(order)))

    def measure(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        weights: Tensor,
        round: Round,
        kept: Kept,
    ) -> Sums:
        """Let clients evaluate their whole data."""
        order, full = self._whole(clients, round)
        method = self.stack(methods)
        memory = kept.memory.get(order) if method.remembers else None
        client = self.feed.client(order, round, memory)
        own, sent = method.client_measure(server, client, full)
        if own:
            kept.measured.put(order, spread(own, len(order)))
        return Sums(self._mean(sent, order, weights), server["x"].new_zeros(len(methods)))

    def train(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        weights: Tensor,
        round: Round,
        kept: Kept,
    ) -> Sums:
        """Let clients take their local steps."""
        plan = self.feed.plan(clients, round)
        order, running = plan.clients, len(plan.clients)
        method = self.stack(methods)
        client = self.feed.client(
            order,
            round,
            kept.memory.get(order) if method.remembers else None,
            kept.measured.get(order) if kept.measured.count else None,
        )
        state = spread(method.client_init(server, client), running)
        finished, losses = [], []
        for step, batch in enumerate(self.feed.batches(plan, self.feed.example_weights(plan))):
            active = plan.active[step]
            if active < running:
                finished.append(narrow(state, active, running))
                state, running = narrow(state, 0, active), active
            state = method.client_step(state, batch, self.oracle)
            losses.append(state.pop("loss").squeeze(-1))
        state = join([state, *reversed(finished)])
        reports = method.client_final(server, state)
        if method.remembers:
            kept.memory.put(order, method.client_remember(server, state))
        seen = plan.counts.to(self.feed.device, self.feed.dtype)
        loss = seen @ torch.cat(losses) if losses else server["x"].new_zeros(len(methods))
        return Sums(self._mean(reports, order, weights), loss, float(plan.counts.sum()))

    def _whole(self, clients: np.ndarray, round: Round) -> tuple[np.ndarray, RowsFullBatch]:
        """The clients in the order of the rows, and their whole data."""
        feed = self.feed
        plan = feed.whole_plan(clients)
        weights = feed.whole_weights(plan, round.batch_size)
        batches = partial(feed.batches, plan, weights, training=False)
        return plan.clients, RowsFullBatch(self.oracle, batches, len(plan.clients))

    def _mean(self, sent: State, clients: np.ndarray, weights: Tensor) -> State:
        own = weights[torch.from_numpy(clients)].to(self.feed.device, self.feed.dtype)
        return map_state(lambda t: torch.tensordot(own, t, 1), spread(sent, len(clients)))
