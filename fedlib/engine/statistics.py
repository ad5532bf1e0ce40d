"""Running statistics: numbers of a model that a forward pass in training changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Statistics:
    """The running statistics of a model as one vector: what a forward pass in training changes.

    Args:
        model: its layers name in ``moving`` those of their buffers that they put new ones in the
            place of.

    Attributes:
        initial: the model's own ``[B]``; size: B, 0 for most models.
        moved: ``[..., B]``, what the first pass in training left of those that were put in by
            :meth:`having`.
    """

    def __init__(self, model: nn.Module) -> None:
        self.places = [
            (f"{path}.{name}".lstrip("."), layer, name)
            for path, layer in model.named_modules()
            for name in getattr(layer, "moving", ())
        ]
        self.original = [layer._buffers[name] for _, layer, name in self.places]
        self.shapes = [torch.Size(()) if t is None else t.shape for t in self.original]
        self.sizes = [math.prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)
        flat = [tensor.reshape(-1) for tensor in self.original if tensor is not None]
        self.initial = torch.cat(flat) if flat else torch.zeros(0)
        self.values, self.moved = self.initial, self.initial
        self.wanted = False

    @contextmanager
    def having(self, values: Tensor | None) -> Iterator[Statistics]:
        """See :meth:`FlatModel.tracking`."""
        before = self.values, self.moved, self.wanted
        if values is not None and self.size:
            self.values, self.moved, self.wanted = values, values, True
        try:
            yield self
        finally:
            # What moved is read after the block.
            self.values, _, self.wanted = before

    @contextmanager
    def of_row(self, row: int) -> Iterator[Statistics]:
        """While open, the values are those of one row; ``moved`` then says what became of them."""
        before = self.values, self.moved, self.wanted
        if self.size:
            values = self.values.reshape(-1, self.size)
            self.values = values[row % len(values)]
        try:
            yield self
            after = self.moved
        finally:
            self.values, self.moved, self.wanted = before
        self.moved = after

    def gather(self, moved: list[Tensor], training: bool) -> None:
        """Note what became of rows, each from :meth:`of_row`, if nothing was noted yet."""
        if self.wanted and training:
            self.moved, self.wanted = torch.stack(moved).reshape(self.values.shape), False

    def train(self) -> None:
        """The layers that have statistics in training mode."""
        for _, layer, _ in self.places:
            layer.train()

    def named(self, x: Tensor) -> dict[str, Tensor]:
        """A vector ``[B]`` as named tensors."""
        parts = x.split(self.sizes) if self.size else ()
        named = zip(self.places, parts, self.shapes, strict=True)
        return {place[0]: part.view(shape) for place, part, shape in named}

    def put(self, rows: int) -> None:
        """Give the layers their values: ``rows`` of them, or 0 for one model without this axis."""
        if not self.size:
            return
        values = self.values.reshape(-1, self.size)
        if rows:
            values = values.expand(rows // len(values), *values.shape).reshape(rows, self.size)
        for (_, layer, name), part, shape in zip(
            self.places, values.split(self.sizes, -1), self.shapes, strict=True
        ):
            layer._buffers[name] = part.reshape(*([rows] if rows else []), *shape)

    def take(self) -> None:
        """Note what became of them, if nothing was noted yet."""
        if self.wanted:
            parts = [layer._buffers[name] for _, layer, name in self.places]
            rows = self.values.shape[:-1]
            flat = [t.reshape(*rows, -1) for t in parts if t is not None]
            self.moved, self.wanted = torch.cat(flat, -1), False

    def put_back(self) -> None:
        """Give the layers their own again."""
        for (_, layer, name), tensor in zip(self.places, self.original, strict=True):
            layer._buffers[name] = tensor
