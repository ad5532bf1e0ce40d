"""The backend of rows with the model's forward and backward pass compiled by torch.compile."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fedlib.algorithms.base import Extra
from fedlib.engine.feed import Feed
from fedlib.engine.oracles import Batch, RowsOracle
from fedlib.engine.rows import FlatModel
from fedlib.engine.vectorized import Vectorized
from fedlib.errors import Error, first_line
from fedlib.task import Task


class Compiled(Vectorized):
    """See :class:`Vectorized`; losses and gradients come from compiled code.

    Compiling takes from seconds to a minute at the start, once per shape of a batch, so it pays on
    long runs of small models. It needs a C++ compiler (on CUDA: Triton).
    """

    def __init__(self, feed: Feed, model: FlatModel) -> None:
        super().__init__(feed, model)
        if model.tracked:
            raise Error(
                "backend 'compiled' takes no model with running statistics; use backend='auto'"
            )
        self.oracle = CompiledOracle(feed.task, model)


class CompiledOracle(RowsOracle):
    """:class:`RowsOracle` with compiled passes; what asks for features runs uncompiled."""

    def __init__(self, task: Task, model: FlatModel) -> None:
        super().__init__(task, model)
        if self.closed_form is not None:
            self.closed_form = torch.compile(self.closed_form, dynamic=False)
        self.losses = torch.compile(self._losses, dynamic=False)

    def _grads(
        self, x: Tensor, batch: Batch, draw: int = 0, extra: Extra | None = None
    ) -> tuple[Tensor, Sequence[Tensor], Sequence[Tensor | None]]:
        try:
            return super()._grads(x, batch, draw, extra)
        except RuntimeError as problem:
            # Of the compiler, which is imported by now.
            if not isinstance(problem, torch._dynamo.exc.TorchDynamoException):
                raise
            name = type(self.model.model).__name__
            raise Error(
                f"torch.compile does not take {name}: {first_line(problem)}; use backend='auto'"
            ) from None
