"""The reference backend: one client of one configuration at a time, written to be plainly right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib.algorithms.base import Algorithm, Client, State
from fedlib.engine.backend import Backend, Sums, Work
from fedlib.engine.feed import Feed, Round, whole_scale
from fedlib.engine.oracles import OneFullBatch, OneOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import ClientStates, carry_statistics, map_state
from fedlib.engine.upload import upload


@dataclass(frozen=True)
class Done:
    """What one client of one configuration leaves."""

    kept: State
    sent: State
    loss: Tensor
    seen: float = 0.0


class Reference(Backend):
    """See :class:`fedlib.engine.backend.Backend`; client states have no leading axes."""

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        self.feed, self.model = feed, model
        self.oracle = OneOracle(feed.task, model)

    @torch.no_grad()
    def enroll(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients that take part for the first time make their memory."""

        def one(method: Algorithm, server: State, number: int, c: int) -> Done:
            client = self._knows(work, number)
            with self.model.tracking(server.get("statistics")):
                memory = method.client_enroll(server, client, self._whole(number, work.round))
            return Done(memory, {}, self._zero())

        return self._each(work, clients, work.kept.memory, one)

    @torch.no_grad()
    def measure(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients evaluate their whole data."""

        def one(method: Algorithm, server: State, number: int, c: int) -> Done:
            full = self._whole(number, work.round)
            with self.model.tracking(server.get("statistics")):
                own, sent = method.client_measure(server, self._client(work, number, c), full)
            return Done(own, sent, self._zero())

        return self._each(work, clients, work.kept.measured, one)

    @torch.no_grad()
    def train(self, work: Work, clients: np.ndarray) -> Sums:
        """Let clients take their local steps."""

        def one(method: Algorithm, server: State, number: int, c: int) -> Done:
            plan = self.feed.plan(np.array([number]), work.round)
            state = method.client_init(server, self._client(work, number, c))
            state = carry_statistics(server, state)
            loss, seen = self._zero(), 0.0
            for step in range(int(plan.steps[0])):
                count = int(plan.counts[step])
                index = plan.index[step : step + 1, :count]
                x = self.feed.inputs(index, plan.keys[step : step + 1])[0]
                y = self.feed.y[index[0].to(self.feed.device)]
                batch = (x, y, plan.keys[step].to(self.feed.device))
                with self.model.tracking(state.get("statistics")) as statistics:
                    new = method.client_step(state, batch, self.oracle)
                state = new | {"statistics": statistics.moved} if "statistics" in state else new
                loss = loss + count * state.pop("loss").squeeze(-1)
                seen += count
            memory = method.client_remember(server, state) if method.remembers else {}
            sent = carry_statistics(state, method.client_final(server, state))
            return Done(memory, sent, loss, seen)

        return self._each(work, clients, work.kept.memory, one)

    def _each(
        self,
        work: Work,
        clients: np.ndarray,
        states: ClientStates,
        one: Callable[[Algorithm, State, int, int], Done],
    ) -> Sums:
        """Every client of every configuration: keep what it keeps, sum what it sends."""
        kept: list[list[State]] = [[] for _ in clients]
        sums: list[State] = []
        losses = []
        seen = np.zeros(len(work.replicas))
        for run in range(len(work.replicas) * len(work.methods)):
            replica, c = divmod(run, len(work.methods))
            method = work.methods[c].scalars(self.feed.dtype, self.feed.device)
            server = map_state(lambda t, run=run: t[run], work.server)
            total: State | None = None
            loss, seen[replica] = self._zero(), 0.0
            for position in np.flatnonzero(work.replicas.of_clients(clients) == replica):
                number = int(clients[position])
                done = one(method, server, number, c)
                kept[position].append(done.kept)
                weight = float(work.weights[number])
                weighted = map_state(lambda t, weight=weight: weight * t, done.sent)
                total = weighted if total is None else map_state(torch.add, total, weighted)
                loss, seen[replica] = loss + done.loss, seen[replica] + done.seen
            sums.append(total or {})
            losses.append(loss)
        if kept and kept[0][0]:
            rows = [map_state(lambda *t: torch.stack(t), *own) for own in kept]
            states.put(states.reserve(clients), map_state(lambda *t: torch.stack(t), *rows))
        some = next((total for total in sums if total), {})
        full = [total or map_state(torch.zeros_like, some) for total in sums]
        return Sums(map_state(lambda *t: torch.stack(t), *full), torch.stack(losses), seen)

    def _client(self, work: Work, number: int, c: int) -> Client:
        """What a client of configuration ``c`` knows."""
        remembers, kept = work.methods[0].remembers, work.kept
        memory = _own(kept.memory, number, c) if remembers else None
        measured = _own(kept.measured, number, c) if kept.measured.tensors else None
        return self._knows(work, number, memory, measured)

    def _knows(
        self,
        work: Work,
        number: int,
        memory: State | None = None,
        measured: State | None = None,
    ) -> Client:
        counts = upload(self.feed.counts(np.array([number]), work.round), self.feed.device)
        return self.feed.client(counts, work.round, memory, measured, rows=False)

    def _whole(self, one: int, round: Round) -> OneFullBatch:
        """All data of one client."""
        data = self.feed.data
        start, size = int(data.starts[one]), int(data.sizes[one])
        index = data.places(torch.arange(start, start + size)).unsqueeze(0)
        scale = whole_scale(self.feed.task, data.sizes[[one]], round.batch_size)[0]
        y = self.feed.y[index[0].to(self.feed.device)]
        return OneFullBatch(self.oracle, self.feed.inputs(index, None)[0], y, float(scale))

    def _zero(self) -> Tensor:
        return torch.zeros((), dtype=self.feed.dtype, device=self.feed.device)


def _own(states: ClientStates, one: int, c: int) -> State:
    """What one client of one configuration has kept."""
    kept = states.get(states.places(np.array([one])))
    return map_state(lambda t: t[0, min(c, t.shape[1] - 1)], kept)
