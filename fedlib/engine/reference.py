"""The reference backend: one client of one configuration at a time, written to be plainly right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, State
from fedlib.engine.backend import Kept, Sums
from fedlib.engine.feed import Feed, Round, whole_scale
from fedlib.engine.oracles import OneFullBatch, OneOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import ClientStates, map_state

# What one client leaves: (kept, sent, summed loss, examples seen).
Work = tuple[State, State, Tensor, float]


class Reference:
    """See :class:`fedlib.engine.backend.Backend`; client states have no leading axes."""

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.feed, self.model = feed, model
        self.oracle = OneOracle(feed.task, model)

    def enroll(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        round: Round,
        kept: Kept,
    ) -> None:
        """Let clients that take part for the first time make their memory."""

        def work(method: Algorithm, mine: State, one: int, c: int) -> Work:
            client = self.feed.client(np.array([one]), round, rows=False)
            memory = method.client_enroll(mine, client, self._whole(one, round))
            return memory, {}, self._zero(), 0.0

        self._each(methods, server, clients, None, kept.memory, work)

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

        def work(method: Algorithm, mine: State, one: int, c: int) -> Work:
            memory = _own(kept.memory, one, c) if method.remembers else None
            client = self.feed.client(np.array([one]), round, memory, rows=False)
            own, sent = method.client_measure(mine, client, self._whole(one, round))
            return own, sent, self._zero(), 0.0

        return self._each(methods, server, clients, weights, kept.measured, work)

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

        def work(method: Algorithm, mine: State, one: int, c: int) -> Work:
            memory = _own(kept.memory, one, c) if method.remembers else None
            measured = _own(kept.measured, one, c) if kept.measured.count else None
            client = self.feed.client(np.array([one]), round, memory, measured, rows=False)
            plan = self.feed.plan(np.array([one]), round)
            state = method.client_init(mine, client)
            loss, seen = self._zero(), 0.0
            for step in range(int(plan.steps[0])):
                count = int(plan.counts[step])
                index = plan.index[step : step + 1, :count]
                x = self.feed.inputs(index, plan.keys[step : step + 1])[0]
                y = self.feed.y[index[0].to(self.feed.device)]
                batch = (x, y, plan.keys[step].to(self.feed.device))
                state = method.client_step(state, batch, self.oracle)
                loss = loss + count * state.pop("loss").squeeze(-1)
                seen += count
            remembered = method.client_remember(mine, state) if method.remembers else {}
            return remembered, method.client_final(mine, state), loss, seen

        return self._each(methods, server, clients, weights, kept.memory, work)

    def _each(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        weights: Tensor | None,
        states: ClientStates,
        work: Callable[[Algorithm, State, int, int], Work],
    ) -> Sums:
        """Do the work of every client of every configuration; keep what they keep, sum the rest."""
        kept: list[list[State]] = [[] for _ in clients]
        sums: list[State] = []
        losses = []
        seen = 0.0
        for c, method in enumerate(methods):
            own = method.scalars(self.feed.dtype, self.feed.device)
            mine = map_state(lambda t, c=c: t[c], server)
            total: State | None = None
            loss, seen = self._zero(), 0.0
            for position, one in enumerate(clients.tolist()):
                keep, sent, client_loss, examples = work(own, mine, one, c)
                kept[position].append(keep)
                weight = 0.0 if weights is None else float(weights[one])
                weighted = map_state(lambda t, weight=weight: weight * t, sent)
                total = weighted if total is None else map_state(torch.add, total, weighted)
                loss, seen = loss + client_loss, seen + examples
            sums.append(total or {})
            losses.append(loss)
        if kept and kept[0][0]:
            rows = [map_state(lambda *t: torch.stack(t), *own) for own in kept]
            states.put(clients, map_state(lambda *t: torch.stack(t), *rows))
        return Sums(map_state(lambda *t: torch.stack(t), *sums), torch.stack(losses), seen)

    def _whole(self, one: int, round: Round) -> OneFullBatch:
        """All data of one client."""
        data = self.feed.task.train
        start, size = int(data.starts[one]), int(data.sizes[one])
        index = data.places(torch.arange(start, start + size)).unsqueeze(0)
        scale = whole_scale(self.feed.task, data.sizes[[one]], round.batch_size)[0]
        y = self.feed.y[index[0].to(self.feed.device)]
        return OneFullBatch(self.oracle, self.feed.inputs(index, None)[0], y, float(scale))

    def _zero(self) -> Tensor:
        return torch.zeros((), dtype=self.feed.dtype, device=self.feed.device)


def _own(states: ClientStates, one: int, c: int) -> State:
    """What one client of one configuration has kept."""
    return map_state(lambda t: t[0, min(c, t.shape[1] - 1)], states.get(np.array([one])))
