"""The step of SGD in one pass equals the one with the gradient as a vector."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import fedlib
from fedlib.engine.batches import Feed, Replicas, upload
from fedlib.engine.config import configure
from fedlib.engine.oracles import RowsOracle
from fedlib.engine.rows import FlatModel

CPU = torch.device("cpu")


def setting(name: str, **options: float):
    task = fedlib.load_task(name, **options)
    model = FlatModel(task.model(), torch.float64, CPU)
    configured = configure(task, "fedavg", overrides={"batch_size": 5, "local_steps": 2})
    feed = Feed(Replicas.of([configured]), torch.float64, CPU)
    clients = torch.arange(3).numpy()
    plan = feed.plan(clients, feed.round(0, configured.config, clients))
    sent = upload(feed.host(plan, feed.example_weights(plan)), CPU)
    batch = next(iter(feed.batches(plan, sent)))
    return RowsOracle(task, model), model, batch


@pytest.mark.parametrize("name", ["synthetic", "emnist_cr"])
def test_it_equals_x_minus_lr_times_gradient_for_rows_and_configurations(name: str) -> None:
    oracle, model, batch = setting(name, clients=3)
    x = model.initial().expand(len(batch.x), 2, -1).clone()
    x += 0.01 * torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(0))
    lr = torch.tensor([0.1, 0.3], dtype=x.dtype).view(1, 2, 1)
    loss, grad = oracle(x, batch)
    before = x.clone()
    loss_2, new = oracle.descend(x, batch, lr)
    assert torch.equal(loss, loss_2) and torch.equal(x, before)
    assert torch.allclose(new, x - lr * grad, atol=1e-14, rtol=0)
    _, same = oracle.descend(x, batch, lr, out=x)
    assert same is x and torch.equal(x, new)


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
