"""The step of SGD in one pass equals the one with the gradient as a vector."""

from __future__ import annotations

import torch
from torch import nn

from fedlib.engine.rows import FlatModel

CPU = torch.device("cpu")


def test_parameters_that_no_output_depends_on_stay() -> None:
    class Half(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x):
            return self.used(x)

    model = FlatModel(Half(), torch.float64, CPU)
    x = torch.rand(1, 1, model.size, dtype=torch.float64)
    grads = [torch.ones(2, 3), torch.ones(2), None, None]
    new = model.descend(x, [None if g is None else g.double() for g in grads], torch.tensor(0.5))
    assert torch.allclose(new[..., :8], x[..., :8] - 0.5) and torch.equal(new[..., 8:], x[..., 8:])
