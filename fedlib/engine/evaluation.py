"""Evaluation of server models on the whole test set, and per client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib.engine.feed import reads, transformed
from fedlib.engine.rows import FlatModel
from fedlib.task import Task

# Input or output numbers per chunk: all configurations together see at most this many.
CHUNK_NUMBERS = 4_000_000
# Chunks are multiples of this, so that models with batch statistics see Delta-SGD's test batches.
BATCH = 128


@dataclass(frozen=True)
class Evaluated:
    """Per-metric results of C models.

    Attributes:
        mean: metric -> ``[C]``, over all examples.
        clients: metric -> ``[C, clients]``, over each client's examples (NaN without any).
    """

    mean: dict[str, Tensor]
    clients: dict[str, Tensor]


class Evaluator:
    """Evaluates parameter vectors on a task's test data.

    Examples that several clients hold count once for each; a test set of one client is the whole
    set.
    """

    def __init__(
        self, task: Task, model: FlatModel, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.task, self.model, self.dtype = task, model, dtype
        data = task.test
        self.x = data.x if reads(task.transform) else data.x.to(device)
        self.y, self.device = data.y.to(device), device
        places = data.all_places()
        self.index = data.places(places).to(self.x.device)
        self.codes = torch.from_numpy(data.codes()).to(device)
        self.sizes = torch.from_numpy(data.sizes).to(device, dtype)
        weights = data.client_weights() / np.maximum(data.sizes, 1)
        self.weights = torch.from_numpy(weights).to(device, dtype)[self.codes]
        self.functions = {"loss": task.loss, **task.metrics}
        self.inputs_each = self._transform(self.index[:1]).numel() if len(self.index) else 1
        self.outputs_each = 0
        self._inputs: Tensor | None = None

    def inputs(self, part: slice) -> Tensor:
        """Model inputs ``[1, B, ...]`` of some test examples; small sets are transformed once."""
        if self.index.numel() * self.inputs_each <= 4 * CHUNK_NUMBERS:
            if self._inputs is None:
                self._inputs = self._transform(self.index)
            return self._inputs[:, part]
        return self._transform(self.index[part])

    def _transform(self, index: Tensor) -> Tensor:
        x = self.x[index].unsqueeze(0)
        return transformed(self.task.transform, x, None, self.dtype, self.device)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Evaluated:
        """Evaluate ``x [C, P]``."""
        self.model.model.eval()
        views = self.model.views(x)
        configurations = len(x)
        sums: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in self.functions}
        size = self._chunk(views, configurations)
        for start in range(0, len(self.index), size):
            part = slice(start, start + size)
            y = self.y[self.index[part].to(self.device)]
            y = y.expand(configurations, *y.shape)
            outputs = self.model.rows(views, self.inputs(part))
            for name, function in self.functions.items():
                sums[name].append(_pair(function(outputs, y)))
        self.model.model.train()
        mean, clients = {}, {}
        for name, parts in sums.items():
            above, below = (torch.cat(each, 1) for each in zip(*parts, strict=True))
            mean[name] = above @ self.weights / (below @ self.weights)
            clients[name] = self._by_client(above) / self._by_client(below)
        return Evaluated(mean, clients)

    def _by_client(self, values: Tensor) -> Tensor:
        """``values [C, N]`` summed over each client's examples: ``[C, clients]``."""
        return values.new_zeros(len(values), len(self.sizes)).index_add_(1, self.codes, values)

    def _chunk(self, views: list[Tensor], configurations: int) -> int:
        """How many examples to evaluate at once: a multiple of :data:`BATCH`."""
        if not self.outputs_each and len(self.index):
            with self.model.tracking(self.model.initial_statistics()):
                one = self.model.rows([view[:1] for view in views], self.inputs(slice(0, 1)))
            self.outputs_each = one.numel()
        numbers = max(1, self.inputs_each, self.outputs_each) * configurations
        return max(BATCH, CHUNK_NUMBERS // numbers // BATCH * BATCH)


def _pair(values: Tensor | tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """A metric's numerators and denominators; each example counts 1 where it has but one value."""
    return values if isinstance(values, tuple) else (values, torch.ones_like(values))
