"""The backend of rows with the model's forward and backward pass compiled by torch.compile."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedlib.algorithms.base import Extra
from fedlib.engine.feed import Feed
from fedlib.engine.oracles import Batch, RowsOracle, masks
from fedlib.engine.rows import FlatModel
from fedlib.engine.vectorized import Vectorized
from fedlib.task import Task


class Compiled(Vectorized):
    """See :class:`Vectorized`; losses and gradients come from compiled code.

    Compiling takes from seconds to a minute at the start, once per shape of a batch, so it pays on
    long runs of small models. It needs a C++ compiler (on CUDA: Triton).
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        super().__init__(feed, model)
        self.oracle = CompiledOracle(feed.task, model)


class CompiledOracle(RowsOracle):
    """:class:`RowsOracle` with compiled passes; what asks for features runs uncompiled."""

    def __init__(self, task: Task, model: FlatModel) -> None:
        super().__init__(task, model)
        if self.closed_form is not None:
            self.closed_form = torch.compile(self.closed_form, dynamic=False)
        self._losses = torch.compile(self._forward, dynamic=False)

    def _forward(self, leaves: list[Tensor], x: Tensor, y: Tensor) -> Tensor:
        return self.task.loss(self.model.rows(leaves, x), y)

    def _grads(
        self, x: Tensor, batch: Batch, draw: int = 0, extra: Extra | None = None
    ) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor | None]]:
        if extra is not None or self.closed_form is not None:
            return super()._grads(x, batch, draw, extra)
        clients, configurations = x.shape[:2]
        y, weights = self._targets(batch, configurations)
        leaves = self.model.leaves(x.reshape(clients * configurations, -1))
        with torch.enable_grad(), masks(batch.keys, draw), self.model.real(batch.mask):
            losses = self._losses(leaves, batch.x, y)
            grads = torch.autograd.grad(losses, leaves, weights, allow_unused=True)
        loss = (losses.detach() * weights).sum(-1).view(clients, configurations, 1)
        return loss, leaves, grads
