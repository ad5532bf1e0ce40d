"""The plain backend: one client of one configuration after the other, as in a PyTorch loop.

The module's own parameters hold a client's numbers, and ``loss.backward()`` gives their gradients.
Nothing is batched over clients or configurations, so nothing can mix them, and a module need not be
a function of its parameters. This loop checks the fast backends and trains all cases that they
cannot.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.algorithms.base import Client, Extra, State
from fedlib.engine.batches import Batching, Feed, upload
from fedlib.engine.oracles import Batch, RowsFullBatch, RowsOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import (
    ClientStates,
    carry_statistics,
    kept,
    map_state,
    require_field,
)
from fedlib.engine.vectorized import Sums, Work
from fedlib.errors import Error


class Outcome(NamedTuple):
    """The results of one client of one configuration in a phase.

    Attributes:
        memory, report: its memory and its report, tensors ``[1, 1, .]``.
        loss: ``[1]``, the sum over its batches of their losses times their weights.
        seen: the sum of these weights.
    """

    memory: State
    report: State
    loss: Tensor
    seen: float = 0.0


class Plain:
    """Clients and configurations one by one. A client's state is ``[1, 1, .]``.

    Args:
        feed: the clients' data.
        model: its forward passes, too, are one by one from here on.
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        model.plain = True
        self.feed, self.model, self.oracle = feed, model, ModuleOracle(feed.task, model)

    @torch.no_grad()
    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """The sums of one phase (``"enroll"``, ``"measure"``, ``"train"``).

        Args:
            chunks: numbers of clients that have examples.
        """
        act, measures = getattr(self, phase), phase == "measure"
        memory, count = work.measured if measures else work.memory, len(work.methods)
        sums = Sums()
        for client in np.concatenate(chunks).tolist():
            outcomes = [act(self._alone(work, c), client, c) for c in range(count)]
            if outcomes[0].memory or (work.method.remembers and not measures):
                places = memory.reserve(np.array([client]))
                memory.put(places, map_state(_side_by_side, *(each.memory for each in outcomes)))
            if phase == "enroll":
                continue
            report = map_state(_side_by_side, *(each.report for each in outcomes))
            own = Sums({}, outcomes[0].seen)
            if phase == "train":
                own.totals["loss"] = torch.stack([each.loss for each in outcomes], 1)
            if phase == "train" and work.method.single_reports:
                own.apart = [(np.array([client]), report)]
            else:
                weight = work.weights[client].to(self.feed.dtype)
                own.totals["reports"] = map_state(lambda t, by=weight: by * t, report)
            sums.add(own)
        return sums

    def _alone(self, work: Work, c: int) -> Work:
        """The work of one configuration, with a copy of its server's state."""
        method = work.methods[c]
        stacked = type(method).stack([method], self.feed.dtype, self.feed.device)
        server = kept([c], work.server, len(work.methods))
        return replace(work, methods=[method], method=stacked, server=server)

    def enroll(self, work: Work, client: int, c: int) -> Outcome:
        """The memory of a client that takes part for the first time."""
        knows, full = self._client(work, client), self._whole(work, client)
        with self.model.statistics.tracking(work.server.get("statistics")):
            memory = work.method.client_enroll(work.server, knows, full)
        return self._outcome(require_field(work.method, "client_enroll", memory), {})

    def measure(self, work: Work, client: int, c: int) -> Outcome:
        """A client's evaluation of its whole data."""
        knows, full = self._client(work, client, work.memory, c), self._whole(work, client)
        with self.model.statistics.tracking(work.server.get("statistics")):
            pair = work.method.client_measure(work.server, knows, full)
        parts = dict(zip(("kept", "sent"), pair, strict=True))
        parts = require_field(work.method, "client_measure", parts)
        return self._outcome(parts["kept"], parts["sent"])

    def train(self, work: Work, client: int, c: int) -> Outcome:
        """A client's local steps."""
        method, server = work.method, work.server
        batching = self.feed.batching(np.array([client]), work.round)
        state = method.client_init(server, self._client(work, client, work.memory, c))
        state = carry_statistics(server, require_field(method, "client_init", state))
        state, loss = map_state(lambda t: _axes(t).clone(), state), 0.0
        seen = self.feed.seen(batching).to(self.feed.device)
        for step, batch in enumerate(self._batches(batching, self.feed.example_weights(batching))):
            with self.model.statistics.tracking(state.get("statistics")) as statistics:
                new = method.client_step(state, batch, self.oracle)
            state = dict(require_field(method, "client_step", new, "loss"))
            if "statistics" in server:
                state["statistics"] = statistics.moved
            loss = loss + (seen[step] * state.pop("loss")).double()
        memory = method.client_remember(server, state) if method.remembers else {}
        report = require_field(method, "client_final", method.client_final(server, state))
        memory = require_field(method, "client_remember", memory)
        return self._outcome(memory, carry_statistics(state, report), loss, float(seen.sum()))

    def _outcome(
        self, memory: State, report: State, loss: Tensor | float = 0.0, seen: float = 0.0
    ) -> Outcome:
        loss = torch.as_tensor(loss, dtype=torch.float64, device=self.feed.device)
        if loss.numel() != 1:
            raise Error(f"client_step gives a loss of shape {(*loss.shape,)}, not one number")
        return Outcome(map_state(_axes, memory), map_state(_axes, report), loss.view(1), seen)

    def _client(
        self, work: Work, client: int, memory: ClientStates | None = None, c: int = 0
    ) -> Client:
        """The information of a client of configuration ``c``."""
        one = np.array([client])

        def of_its_own(states: ClientStates) -> State:
            if len(states.unseen(one)):
                return {}  # as it measures only now
            # Shared tensors of configurations were kept once.
            held = states.get(states.places(one))
            return map_state(lambda t: t[:, min(c, t.shape[1] - 1)].unsqueeze(1), held)

        method, measured = work.method, {}
        # With halves, the training clients have not measured anything.
        if memory is not None and work.measured.count and not method.halves:
            measured = of_its_own(work.measured)
        own = of_its_own(memory) if memory is not None and method.remembers else {}
        counts = upload(self.feed.counts(one, work.round), self.feed.device)
        return self.feed.client(counts, work.round, own, measured)

    def _batches(
        self, batching: Batching, weights: Tensor, training: bool = True
    ) -> Iterable[Batch]:
        """The batches of one client, without padding."""
        host = {"index": batching.index, "weights": weights, "mask": batching.mask}
        host["keys"] = batching.keys if training else None
        return self.feed.batches(batching, upload(host, self.feed.device))

    def _whole(self, work: Work, client: int) -> RowsFullBatch:
        """All data of one client."""
        batching = self.feed.whole_batching(np.array([client]))
        weights = self.feed.whole_weights(batching, work.round.config.batch_size)
        return RowsFullBatch(
            self.oracle, partial(self._batches, batching, weights, training=False), 1
        )


class ModuleOracle(RowsOracle):
    """``value_and_grad`` by the module's own parameters and ``backward()``: ``x [1, 1, P]``."""

    def __call__(
        self, x: Tensor, batch: Batch, *, draw: int = 0, extra: Extra | None = None
    ) -> tuple[Tensor, Tensor]:
        """Loss ``[1, 1, 1]`` and gradient ``[1, 1, P]``."""
        model, module = self.model, self.model.model
        module.zero_grad()
        with self._holding(x), torch.enable_grad():
            each, outputs = self._losses(batch, draw, extra is not None)
            total = each if extra is None else each + extra(outputs[1].flatten(1)[None, None])[0]
            if self.task.l2:
                total = total + self.task.l2 * model.squares(model.original)
            (total * batch.weights).sum().backward()
            grads = [p.grad if p.grad is None else p.grad.to_dense() for p in model.original]
            gradient = model.flatten(grads, (1, 1)).to(x.dtype)
        module.zero_grad()
        return self.reduce(each.detach().unsqueeze(0), batch), gradient

    def loss(self, x: Tensor, batch: Batch) -> Tensor:
        """The loss ``[1, 1, 1]`` alone."""
        with self._holding(x), torch.no_grad():
            return self.reduce(self._losses(batch)[0].unsqueeze(0), batch)

    def descend(
        self, x: Tensor, batch: Batch, lr: Tensor, *, out: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Loss ``[1, 1, 1]`` and ``x - lr * gradient``."""
        loss, gradient = self(x, batch)
        return loss, torch.sub(x, lr * gradient, out=out)

    def features(self, x: Tensor, batch: Batch) -> Tensor:
        """The features ``[1, 1, B, F]`` without dropout."""
        with self.model.evaluating(running=False), self._holding(x), torch.no_grad():
            return self.model.pass_of_one(batch.x[0], None, True)[1].flatten(1)[None, None]

    def _holding(self, x: Tensor) -> AbstractContextManager[None]:
        return self.model.holding(self.model.views(x.reshape(-1)))

    def _losses(
        self, batch: Batch, draw: int = 0, features: bool = False
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Losses ``[1, B]`` of the examples, and outputs with or without features."""
        key = None if batch.keys is None else batch.keys[0]
        key = randomness.fold(key, draw) if key is not None and draw else key
        outputs = self.model.pass_of_one(batch.x[0], key, features)
        outputs = outputs if features else (outputs,)
        return self.task.loss(outputs[0].unsqueeze(0), batch.y).to(self.model.dtype), outputs


def _axes(value: Tensor) -> Tensor:
    """A tensor of one client of one configuration as ``[1, 1, .]``."""
    return value.reshape((1,) * (3 - value.dim()) + value.shape) if value.dim() < 3 else value


def _side_by_side(*parts: Tensor) -> Tensor:
    """``[1, C, .]`` from the ``[1, 1, .]`` of C configurations."""
    return torch.cat(parts, 1)
