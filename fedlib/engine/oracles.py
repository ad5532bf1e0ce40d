"""Losses and gradients of clients, for algorithms, as rows of one batched computation."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedlib import randomness
from fedlib.algorithms.base import Extra
from fedlib.component import PerExample, PerFeature, PerParameter, Scalar
from fedlib.engine.rows import FlatModel
from fedlib.losses import cross_entropy
from fedlib.models.layers import real_examples
from fedlib.task import Task

# Name of a model's own gradient function, see :class:`fedlib.models.Softmax`.
CLOSED_FORM = "cross_entropy_and_grad"


@dataclass(frozen=True)
class Batch:
    """One batch of each of n clients.

    Attributes:
        x, y: inputs and targets ``[n, B, ...]``.
        weights: ``[n, B]``, the weight of each example's loss in its batch's loss. 0 for padding.
        keys: int64 ``[n]``, keys of (round, client, step) for dropout, or None in evaluation.
        mask: bool ``[n, B]``, True for real examples, or None if all are.
    """

    x: Tensor
    y: Tensor
    weights: Tensor
    keys: Tensor | None = None
    mask: Tensor | None = None


class RowsOracle:
    """``value_and_grad`` for rows: ``x [n, C, P]`` on a :class:`Batch` of n clients."""

    def __init__(self, task: Task, model: FlatModel) -> None:
        self.task, self.model = task, model
        # Not for a subclass, whose forward may differ, nor for frozen parameters.
        known = task.loss is cross_entropy and CLOSED_FORM in vars(type(model.model))
        known = known and all(p.requires_grad for p in model.model.parameters())
        self.closed_form = getattr(model.model, CLOSED_FORM) if known else None

    def __call__(
        self, x: PerParameter, batch: Batch, *, draw: int = 0, extra: Extra | None = None
    ) -> tuple[Scalar, PerParameter]:
        """Losses ``[n, C, 1]`` and gradients ``[n, C, P]``."""
        loss, _, grads = self._grads(x, batch, draw, extra)
        return loss, self.model.flatten(grads, x.shape[:2])

    def descend(
        self, x: PerParameter, batch: Batch, lr: Scalar, *, out: PerParameter | None = None
    ) -> tuple[Scalar, PerParameter]:
        """Losses ``[n, C, 1]`` and ``x - lr * gradient [n, C, P]``."""
        loss, leaves, grads = self._grads(x, batch)
        single = x.shape[:2] == (1, 1) and x.is_contiguous() and x.device.type == "cpu"
        if out is x and single:  # the leaves are views of x
            self.model.descend_one(leaves, grads, lr)
            return loss, x
        return loss, self.model.descend(x, grads, lr, out)

    def _grads(
        self, x: PerParameter, batch: Batch, draw: int = 0, extra: Extra | None = None
    ) -> tuple[Scalar, Sequence[Tensor], Sequence[Tensor | None]]:
        """Losses ``[n, C, 1]``, the parameters as the model used them, and their gradients.

        Their shapes are ``[n * C, ...]``. A single row may lack this axis.
        """
        clients, configurations = x.shape[:2]
        y, weights = self._targets(batch, configurations)
        rows = x.reshape(clients * configurations, -1)
        if self.closed_form is not None and extra is None and not self.task.l2:
            views = self.model.views(rows)
            losses, exact = self.closed_form(views, batch.x, y, weights)
            return (losses * weights).sum(-1).view(clients, configurations, 1), views, exact
        leaves, keys = self.model.leaves(rows), batch.keys
        if keys is not None and draw:
            keys = randomness.fold(keys, draw)
        with torch.enable_grad(), randomness.masks(keys), real_examples(batch.mask):
            if extra is None:
                losses = total = self.task.loss(self.model.rows(leaves, batch.x), y).to(x.dtype)
            else:
                outputs, z = self.model.rows(leaves, batch.x, features=True)
                losses = self.task.loss(outputs, y).to(x.dtype)
                z = z.reshape(clients, configurations, z.shape[1], -1)
                total = losses + extra(z).reshape(losses.shape)
            if self.task.l2:
                total = total + self.task.l2 * self.model.squares(leaves)
            # Rows are independent, so the gradient of all weighted losses has each row's own.
            grads = torch.autograd.grad(total, leaves, weights, allow_unused=True)
        loss = (losses.detach() * weights).sum(-1).view(clients, configurations, 1)
        return loss, leaves, grads

    def loss(self, x: PerParameter, batch: Batch) -> Scalar:
        """Losses ``[n, C, 1]`` alone."""
        clients, configurations = x.shape[:2]
        y, weights = self._targets(batch, configurations)
        views = self.model.views(x.reshape(clients * configurations, -1))
        with torch.no_grad(), real_examples(batch.mask):
            losses = self.task.loss(self.model.rows(views, batch.x), y).to(x.dtype)
        return (losses * weights).sum(-1).view(clients, configurations, 1)

    def features(self, x: PerParameter, batch: Batch) -> PerFeature:
        """The features ``[n, C, B, F]`` without dropout. A sequence's steps are concatenated."""
        x = x.expand(len(batch.x), *x.shape[-2:])
        views = self.model.views(x.reshape(-1, x.shape[-1]))
        with torch.no_grad(), self.model.evaluating(running=False), real_examples(batch.mask):
            _, z = self.model.rows(views, batch.x, features=True)
        return z.reshape(*x.shape[:2], z.shape[1], -1)

    def reduce(self, values: PerExample, batch: Batch) -> Scalar:
        """Values ``[n, C, B]`` of examples, reduced as in the batch's loss, ``[n, C, 1]``."""
        return (values * batch.weights.unsqueeze(1)).sum(-1, keepdim=True)

    @staticmethod
    def _targets(batch: Batch, configurations: int) -> tuple[Tensor, Tensor]:
        if configurations == 1:
            return batch.y, batch.weights
        return (
            batch.y.repeat_interleave(configurations, 0),
            batch.weights.repeat_interleave(configurations, 0),
        )


class RowsFullBatch:
    """The clients' whole data: the sum over the same batches at every call.

    Args:
        oracle: oracle of the rows.
        batches: makes batches of the clients' data, without clients that have run out. The weights
            of a client's examples are summed over its batches.
        clients: the number of clients M.
    """

    def __init__(
        self, oracle: RowsOracle, batches: Callable[[], Iterable[Batch]], clients: int
    ) -> None:
        self.oracle, self.batches, self.clients = oracle, batches, clients

    def __call__(self, x: PerParameter) -> tuple[Scalar, PerParameter]:
        """Losses ``[M, C, 1]`` and gradients ``[M, C, P]`` at ``x [C, P]`` or ``[M, C, P]``."""
        x = x.expand(self.clients, *x.shape[-2:])
        loss, grad = x.new_zeros(*x.shape[:2], 1), torch.zeros_like(x)
        with self.oracle.model.evaluating():
            for batch in self.batches():
                n = len(batch.x)
                batch_loss, batch_grad = self.oracle(x[:n], batch)
                loss[:n] += batch_loss
                grad[:n] += batch_grad
        return loss, grad

    def loss(self, x: PerParameter) -> Scalar:
        """Losses ``[M, C, 1]``."""
        x = x.expand(self.clients, *x.shape[-2:])
        loss = x.new_zeros(*x.shape[:2], 1)
        with self.oracle.model.evaluating():
            for batch in self.batches():
                loss[: len(batch.x)] += self.oracle.loss(x[: len(batch.x)], batch)
        return loss
