"""The reference backend: one client of one configuration at a time, written to be plainly right.

The tests know it as ``backend="reference"``, see ``tests/conftest.py``: it is the oracle of rows.
"""

import copy
from dataclasses import fields, replace

import numpy as np
import torch

import fedlib
from fedlib import randomness
from fedlib.component import Component
from fedlib.engine.batches import upload, whole_scale
from fedlib.engine.states import carry_statistics, map_state
from fedlib.engine.vectorized import Sums, Vectorized


class Reference(Vectorized):
    """Clients and configurations one by one; their states have no leading axes."""

    def __init__(self, feed, model):
        self.feed, self.model = feed, model
        self.oracle = OneOracle(feed.task, model)

    @torch.no_grad()
    def enroll(self, work, clients):
        """Let clients that take part for the first time make their memory."""

        def one(method, server, number, c):
            client = self._knows(work, number)
            with self.model.statistics.tracking(server.get("statistics")):
                memory = method.client_enroll(server, client, self._whole(number, work.round))
            return memory, {}, 0.0, 0.0

        return self._each(work, clients, work.memory, one)

    @torch.no_grad()
    def measure(self, work, clients):
        """Let clients evaluate their whole data."""

        def one(method, server, number, c):
            full = self._whole(number, work.round)
            with self.model.statistics.tracking(server.get("statistics")):
                own, sent = method.client_measure(server, self._client(work, number, c), full)
            return own, sent, 0.0, 0.0

        return self._each(work, clients, work.measured, one)

    @torch.no_grad()
    def train(self, work, clients):
        """Let clients take their local steps."""

        def one(method, server, number, c):
            plan = self.feed.plan(np.array([number]), work.round)
            state = method.client_init(server, self._client(work, number, c))
            state = carry_statistics(server, state)
            loss, seen = 0.0, 0.0
            for step in range(int(plan.steps[0])):
                count = int(plan.counts[step])
                index = plan.index[step : step + 1, :count]
                x = self.feed.inputs(index, plan.keys[step : step + 1])[0]
                y = self.feed.y[index[0].to(self.feed.device)]
                batch = (x, y, plan.keys[step].to(self.feed.device))
                with self.model.statistics.tracking(state.get("statistics")) as statistics:
                    new = method.client_step(state, batch, self.oracle)
                state = new | {"statistics": statistics.moved} if "statistics" in state else new
                loss = loss + count * state.pop("loss").squeeze(-1)
                seen += count
            memory = method.client_remember(server, state) if method.remembers else {}
            sent = carry_statistics(state, method.client_final(server, state))
            return memory, sent, loss, seen

        return self._each(work, clients, work.memory, one)

    def _each(self, work, clients, states, one):
        """Every client of every configuration: keep what it keeps, sum what it sends.

        ``one`` gives both, the sum of its examples' losses and how many these were.
        """
        kept = [[] for _ in clients]
        sums = []
        losses = []
        seen = 0.0
        for c, configuration in enumerate(work.methods):
            method = _scalars(configuration, self.feed.dtype, self.feed.device)
            server = map_state(lambda t, c=c: t[c], work.server)
            total = None
            loss, seen = torch.zeros((), dtype=self.feed.dtype, device=self.feed.device), 0.0
            for position, number in enumerate(clients.tolist()):
                own, sent, own_loss, own_seen = one(method, server, number, c)
                kept[position].append(own)
                weight = float(work.weights[number])
                weighted = map_state(lambda t, weight=weight: weight * t, sent)
                total = weighted if total is None else map_state(torch.add, total, weighted)
                loss, seen = loss + own_loss, seen + own_seen
            sums.append(total)
            losses.append(loss)
        if kept and kept[0][0]:
            rows = [map_state(lambda *t: torch.stack(t), *own) for own in kept]
            states.put(states.reserve(clients), map_state(lambda *t: torch.stack(t), *rows))
        return Sums(map_state(lambda *t: torch.stack(t), *sums), torch.stack(losses), seen)

    def _client(self, work, number, c):
        """What a client of configuration ``c`` knows."""
        remembers = work.methods[0].remembers
        memory = _own(work.memory, number, c) if remembers else None
        measured = _own(work.measured, number, c) if work.measured.tensors else None
        return self._knows(work, number, memory, measured)

    def _knows(self, work, number, memory=None, measured=None):
        counts = upload(self.feed.counts(np.array([number]), work.round), self.feed.device)
        client = self.feed.client(counts, work.round, memory, measured)
        return replace(client, examples=client.examples.view(1), steps=client.steps.view(1))

    def _whole(self, one, round):
        """All data of one client."""
        data = self.feed.data
        start, size = int(data.starts[one]), int(data.sizes[one])
        index = data.index[start : start + size].unsqueeze(0)
        scale = whole_scale(self.feed.task, data.sizes[[one]], round.config.batch_size)[0]
        y = self.feed.y[index[0].to(self.feed.device)]
        return OneFullBatch(self.oracle, self.feed.inputs(index, None)[0], y, float(scale))


def assert_rows_agree(task, algorithm="fedavg", **settings):
    """Rows train as one client after the other does; the trained parameters."""
    settings = {"dtype": "float64", **settings}
    by_rows, plain = (
        fedlib.run(task, algorithm, backend=backend, **settings).params
        for backend in ("vectorized", "reference")
    )
    torch.testing.assert_close(by_rows, plain, rtol=1e-10, atol=1e-10)
    return by_rows


def _own(states, one, c):
    """What one client of one configuration has kept."""
    kept = states.get(states.places(np.array([one])))
    return map_state(lambda t: t[0, min(c, t.shape[1] - 1)], kept)


def _scalars(method, dtype, device):
    """The same method with each float as a 0-d tensor, for one client without row axes."""
    scalar = copy.copy(method)
    for field in fields(method):
        value = getattr(method, field.name)
        if isinstance(value, float):
            value = torch.tensor(value, dtype=dtype, device=device)
        elif isinstance(value, Component):
            value = _scalars(value, dtype, device)
        object.__setattr__(scalar, field.name, value)
    return scalar


def _outputs(model, leaves, x, features=False):
    """Outputs ``[B, ...]`` of one model, and its features, for inputs ``[B, ...]``."""
    return model._call(model._with_features if features else model.model, leaves, x)


class OneOracle:
    """``value_and_grad`` of one model: ``x [P]`` on ``(inputs, targets, key or None)``."""

    def __init__(self, task, model):
        self.task, self.model = task, model

    def __call__(self, x, batch, *, draw=0, extra=None):
        """Loss ``[1]`` and gradient ``[P]``."""
        inputs, targets, key = batch
        leaves = self.model.leaves(x)
        key = randomness.fold(key, draw) if key is not None and draw else key
        with torch.enable_grad(), randomness.masks(key):
            if extra is None:
                outputs = _outputs(self.model, leaves, inputs)
                each = total = self.losses(outputs, targets)
            else:
                outputs, z = _outputs(self.model, leaves, inputs, features=True)
                each = self.losses(outputs, targets)
                total = each + extra(z.flatten(1))
            total = self.penalised(total, leaves)
            loss, total = self._reduce(each), self._reduce(total)
            grads = torch.autograd.grad(total, leaves, allow_unused=True)
        return loss.detach().reshape(1), self.model.flatten(grads, ())

    def descend(self, x, batch, lr, *, out=None):
        """Loss ``[1]`` and ``x - lr * gradient [P]``."""
        loss, grad = self(x, batch)
        return loss, torch.sub(x, lr * grad, out=out)

    def penalised(self, losses, leaves):
        """Losses with the task's L2 term, which counts in gradients alone."""
        return losses + self.task.l2 * self.model.squares(leaves) if self.task.l2 else losses

    def losses(self, outputs, targets):
        """Per-example losses ``[B]``."""
        return self.task.loss(outputs.unsqueeze(0), targets.unsqueeze(0)).squeeze(0)

    def _reduce(self, losses):
        return losses.mean() if self.task.reduction == "mean" else losses.sum()

    def reduce(self, values, batch):
        """Values ``[B]`` of examples as they count in the batch's loss, ``[1]``."""
        return self._reduce(values).reshape(1)

    def features(self, x, batch):
        """The features ``[B, F]`` without dropout."""
        with torch.no_grad(), self.model.evaluating(running=False):
            return _outputs(self.model, self.model.views(x), batch[0], features=True)[1].flatten(1)


class OneFullBatch:
    """One client's whole data as one batch.

    Args:
        scale: what the mean over the examples is multiplied by.
    """

    def __init__(self, oracle, x, y, scale):
        self.oracle, self.x, self.y, self.scale = oracle, x, y, scale

    def __call__(self, x):
        """Loss ``[1]`` and gradient ``[P]``."""
        model = self.oracle.model
        leaves = model.leaves(x)
        with torch.enable_grad(), model.evaluating():
            losses = self.oracle.losses(_outputs(model, leaves, self.x), self.y)
            total = self.scale * self.oracle.penalised(losses, leaves).mean()
            grads = torch.autograd.grad(total, leaves, allow_unused=True)
        return self.scale * losses.detach().mean().reshape(1), model.flatten(grads, ())

    def loss(self, x):
        """Loss ``[1]``."""
        return self(x)[0]
