"""Evaluation of server models on the whole test set, and per client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib.engine.rows import FlatModel
from fedlib.tasks.base import Task

# Input numbers per chunk: all configurations together see at most this many.
CHUNK_NUMBERS = 4_000_000


@dataclass(frozen=True)
class Evaluated:
    """Per-metric results of C models.

    Attributes:
        mean: metric -> ``[C]``, mean over examples.
        clients: metric -> ``[C, clients]``, mean over each client's examples (NaN without any).
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
        self.x, self.y = data.x.to(device), data.y.to(device)
        self.index = data.index.to(device)
        self.codes = torch.from_numpy(data.codes()).to(device)
        self.sizes = torch.from_numpy(data.sizes).to(device, dtype)
        weights = data.client_weights() / np.maximum(data.sizes, 1)
        self.weights = torch.from_numpy(weights).to(device, dtype)[self.codes]
        self.functions = {"loss": task.loss, **task.metrics}
        self.per_example = max(1, data.x[:1].numel())
        self._inputs: Tensor | None = None

    def inputs(self, part: slice) -> Tensor:
        """Model inputs ``[1, B, ...]`` of some test examples; small sets are transformed once."""
        if self.index.numel() * self.per_example <= 4 * CHUNK_NUMBERS:
            if self._inputs is None:
                self._inputs = self._transform(self.index)
            return self._inputs[:, part]
        return self._transform(self.index[part])

    def _transform(self, index: Tensor) -> Tensor:
        x = self.task.transform(self.x[index].unsqueeze(0), None)
        return x.to(self.dtype) if x.is_floating_point() else x

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Evaluated:
        """Evaluate ``x [C, P]``."""
        self.model.model.eval()
        views = self.model.views(x)
        configurations = len(x)
        size = max(1, CHUNK_NUMBERS // (self.per_example * configurations))
        values: dict[str, list[Tensor]] = {name: [] for name in self.functions}
        for start in range(0, len(self.index), size):
            part = slice(start, start + size)
            y = self.y[self.index[part]].expand(configurations, -1, *self.y.shape[1:])
            outputs = self.model.rows(views, self.inputs(part))
            for name, function in self.functions.items():
                values[name].append(function(outputs, y))
        self.model.model.train()
        mean, clients = {}, {}
        for name, parts in values.items():
            each = torch.cat(parts, 1)
            mean[name] = each @ self.weights / self.weights.sum()
            sums = each.new_zeros(configurations, len(self.sizes)).index_add_(1, self.codes, each)
            clients[name] = sums / self.sizes
        return Evaluated(mean, clients)
