"""Local training of a cohort: the same round on two backends.

``vectorized`` runs all clients and configurations as rows of one program. ``reference`` runs one
client of one configuration at a time with plain autograd, and is written to be obviously right; it
is what the other is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.algorithms.base import Algorithm, Client, State
from fedlib.engine.plan import Plan, make_plan
from fedlib.engine.rows import FlatModel
from fedlib.engine.states import join, map_state, narrow, spread
from fedlib.losses import cross_entropy
from fedlib.tasks.base import Task, identity

# Gather a round's inputs at once up to this many bytes; above it, batch by batch.
GATHER_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Batch:
    """One local step of n clients.

    Attributes:
        x, y: inputs and targets ``[n, B, ...]``.
        weights: ``[n, B]``, what each example's loss counts in its batch's loss: 1/count (mean) or
            1 (sum) for real examples, 0 for padding.
        keys: int64 ``[n]``, keys of (round, client, step).
    """

    x: Tensor
    y: Tensor
    weights: Tensor
    keys: Tensor


@dataclass(frozen=True)
class Round:
    """What local training needs to know about the round."""

    number: int
    rounds: int
    batch_size: int | None
    local_epochs: int
    local_steps: int | Sequence[int] | None
    seed: int


@dataclass
class Trained:
    """Sums over the clients of a cohort (or a part of it).

    Attributes:
        reports: for each field of the clients' reports, sum_i w_i report_i, ``[C, .]``.
        loss: example-weighted sum of the batch losses seen in training, ``[C]``.
        seen: how many examples that were.
    """

    reports: State
    loss: Tensor
    seen: float


class LocalTrainer:
    """Trains cohorts on one task with one model.

    Args:
        task: the task; its training data is moved to the device once.
        model: its model as a function of flat vectors.
        dtype, device: of parameters and inputs.
    """

    def __init__(
        self, task: Task, model: FlatModel, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.task, self.model, self.dtype, self.device = task, model, dtype, device
        self.x, self.y = task.train.x.to(device), task.train.y.to(device)
        known = task.loss is cross_entropy
        self.closed_form = getattr(model.model, "cross_entropy_and_grad", None) if known else None

    def plan(self, clients: np.ndarray, round: Round) -> Plan:
        """The batches of ``clients`` in this round."""
        return make_plan(
            self.task.train,
            clients,
            batch_size=round.batch_size,
            local_epochs=round.local_epochs,
            steps=round.local_steps,
            seed=round.seed,
            round=round.number,
        )

    def inputs(self, index: Tensor, keys: Tensor) -> Tensor:
        """Model inputs for examples ``index [T, B]`` of batches with ``keys [T]``."""
        if self.task.transform is identity:
            x = self.x[index.to(self.device)]
            return x.to(self.dtype) if x.is_floating_point() else x
        slots = torch.arange(index.shape[1])
        per_example = randomness.fold(keys.unsqueeze(1).expand(index.shape).contiguous(), slots)
        index, per_example = index.to(self.device), per_example.to(self.device)
        x = self.task.transform(self.x[index], per_example)
        return x.to(self.dtype) if x.is_floating_point() else x

    def batches(self, plan: Plan) -> Iterator[Batch]:
        """The batches of each step in turn."""
        bytes_each = self.x[:1].numel() * max(self.x.element_size(), self.dtype.itemsize)
        at_once = plan.index.numel() * bytes_each <= GATHER_BYTES
        x = self.inputs(plan.index, plan.keys) if at_once else None
        y = self.y[plan.index.to(self.device)]
        weights, keys = self.example_weights(plan), plan.keys.to(self.device)
        if x is not None:
            steps = zip(*(t.split(plan.active) for t in (x, y, weights, keys)), strict=True)
            yield from (Batch(*step) for step in steps)
            return
        for offset, active in zip(plan.offsets, plan.active, strict=True):
            part = slice(offset, offset + active)
            yield Batch(
                self.inputs(plan.index[part], plan.keys[part]), y[part], weights[part], keys[part]
            )

    def example_weights(self, plan: Plan) -> Tensor:
        """What each example's loss counts in its batch's loss, ``[T, B]``."""
        weights = torch.ones(plan.index.shape, dtype=self.dtype) if plan.mask is None else plan.mask
        if self.task.reduction == "mean":
            weights = weights / plan.counts.to(self.dtype).unsqueeze(1)
        return weights.to(self.device, self.dtype)

    def client(self, plan: Plan, round: Round) -> Client:
        """What the plan's clients know, as ``[M, 1, 1]`` scalars."""

        def column(values: np.ndarray) -> Tensor:
            return torch.as_tensor(values, dtype=self.dtype, device=self.device).view(-1, 1, 1)

        return Client(column(plan.examples), column(plan.steps), round.number, round.rounds)

    def value_and_grad(self, x: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss ``[n, C, 1]`` and gradient ``[n, C, P]`` at ``x [n, C, P]`` on the batches."""
        clients, configurations = x.shape[:2]
        y, weights = batch.y, batch.weights
        if configurations > 1:
            y = y.repeat_interleave(configurations, 0)
            weights = weights.repeat_interleave(configurations, 0)
        rows = x.reshape(clients * configurations, -1)
        if self.closed_form is not None:
            losses, exact = self.closed_form(self.model.views(rows), batch.x, y, weights)
            grad = self.model.flatten(exact, (clients, configurations))
            return (losses * weights).sum(-1).view(clients, configurations, 1), grad
        leaves = self.model.leaves(rows)
        with torch.enable_grad(), randomness.masks(batch.keys):
            losses = self.task.loss(self.model.rows(leaves, batch.x), y)
            # Rows share nothing, so the gradient of all weighted losses holds each row's own.
            grads = torch.autograd.grad(losses, leaves, weights, allow_unused=True)
        grad = self.model.flatten(grads, (clients, configurations))
        return (losses.detach() * weights).sum(-1).view(clients, configurations, 1), grad

    @torch.no_grad()
    def vectorized(
        self, method: Algorithm, server: State, clients: np.ndarray, weights: Tensor, round: Round
    ) -> Trained:
        """All ``clients`` (with aggregation ``weights [population]``) as rows of one program."""
        plan = self.plan(clients, round)
        count = len(plan.clients)
        state = spread(method.client_init(server, self.client(plan, round)), count)
        running, finished, losses = count, [], []
        for step, batch in enumerate(self.batches(plan)):
            active = plan.active[step]
            if active < running:
                finished.append(narrow(state, active, running))
                state, running = narrow(state, 0, active), active
            state = method.client_step(state, batch, self.value_and_grad)
            losses.append(state.pop("loss").squeeze(-1))
        state = join([state, *reversed(finished)])
        reports = method.client_final(server, state)
        w = weights[torch.from_numpy(plan.clients)].to(self.device, self.dtype)
        seen = plan.counts.to(self.device, self.dtype)
        configurations = server["x"].shape[0]
        loss = seen @ torch.cat(losses) if losses else server["x"].new_zeros(configurations)
        return Trained(
            map_state(lambda report: torch.tensordot(w, report, 1), reports),
            loss,
            float(plan.counts.sum()),
        )

    @torch.no_grad()
    def reference(
        self,
        methods: Sequence[Algorithm],
        server: State,
        clients: np.ndarray,
        weights: Tensor,
        round: Round,
    ) -> Trained:
        """One client of one configuration at a time."""
        sums: list[State] = []
        losses: list[Tensor] = []
        seen = 0.0
        for c, method in enumerate(methods):
            own = method.scalars(self.dtype, self.device)
            mine = map_state(lambda t, c=c: t[c], server)
            total, loss, seen = None, torch.zeros((), dtype=self.dtype, device=self.device), 0.0
            for client in clients:
                report, client_loss, examples = self.train_one(own, mine, int(client), round)
                weight = float(weights[int(client)])
                weighted = map_state(lambda t, weight=weight: weight * t, report)
                total = weighted if total is None else map_state(torch.add, total, weighted)
                loss, seen = loss + client_loss, seen + examples
            assert total is not None
            sums.append(total)
            losses.append(loss)
        return Trained(map_state(lambda *t: torch.stack(t), *sums), torch.stack(losses), seen)

    def train_one(
        self, method: Algorithm, server: State, client: int, round: Round
    ) -> tuple[State, Tensor, float]:
        """Local training of one client without row axes: report, summed loss, examples seen."""
        plan = self.plan(np.array([client]), round)
        examples, steps = (
            torch.tensor([float(values[0])], dtype=self.dtype, device=self.device)
            for values in (plan.examples, plan.steps)
        )
        state = method.client_init(server, Client(examples, steps, round.number, round.rounds))
        loss, seen = torch.zeros((), dtype=self.dtype, device=self.device), 0.0
        for step in range(int(plan.steps[0])):
            count = int(plan.counts[step])
            x = self.inputs(plan.index[step : step + 1, :count], plan.keys[step : step + 1])[0]
            y = self.y[plan.index[step, :count].to(self.device)]
            state = method.client_step(
                state, (x, y, plan.keys[step].to(self.device)), self.value_and_grad_one
            )
            loss = loss + count * state["loss"].squeeze(-1)
            seen += count
        return method.client_final(server, state), loss, seen

    def value_and_grad_one(self, x: Tensor, batch: Any) -> tuple[Tensor, Tensor]:
        """Loss ``[1]`` and gradient ``[P]`` of one model on one batch of real examples only."""
        inputs, targets, key = batch
        leaves = self.model.leaves(x)
        with torch.enable_grad(), randomness.masks(key):
            outputs = self.model.one(leaves, inputs)
            losses = self.task.loss(outputs.unsqueeze(0), targets.unsqueeze(0))
            loss = losses.mean() if self.task.reduction == "mean" else losses.sum()
            grads = torch.autograd.grad(loss, leaves, allow_unused=True)
        return loss.detach().reshape(1), self.model.flatten(grads, ())
