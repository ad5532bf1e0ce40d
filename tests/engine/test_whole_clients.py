"""What the engine offers beyond local steps: whole-client measurements, memory, halves, pooling."""

import numpy as np
import pytest
import torch
from torch import nn

import fedlib


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_whole_data_of_unequal_clients(reduction, monkeypatch):
    """Losses and gradients at the server's model, of clients in several batches of unequal size."""
    monkeypatch.setattr("fedlib.engine.batches.WHOLE_BATCH", 4)
    draw = np.random.default_rng(0)
    x = torch.from_numpy(draw.normal(size=(31, 3)))
    y = torch.from_numpy(draw.integers(4, size=31))
    parts = np.split(draw.permutation(31), [2, 11, 11, 18])
    data = fedlib.ClientData(x, y, parts)
    task = fedlib.Task("t", lambda: nn.Linear(3, 4), data, data, reduction=reduction, batch_size=5)
    seen = {}

    class Look(fedlib.FedOpt):
        measures = True

        def client_measure(self, server, client, full):
            loss, gradient = full(server["x"])
            assert torch.equal(loss, full.loss(server["x"]))
            seen.update(x=server["x"][0], sizes=client.examples, loss=loss, gradient=gradient)
            return {}, {"loss": loss}

    fedlib.run(task, Look, rounds=1, dtype="float64", clients_per_round=5)
    model = nn.Linear(3, 4).double()
    nn.utils.vector_to_parameters(seen["x"], model.parameters())
    scale, sizes = 1.0 if reduction == "mean" else 5.0, seen["sizes"].flatten().tolist()
    assert sorted(sizes) == [2, 7, 9, 13]
    for size, loss, gradient in zip(sizes, seen["loss"], seen["gradient"], strict=True):
        (part,) = [part for part in parts if len(part) == size]
        expected = scale * nn.functional.cross_entropy(model(x[part]), y[part])
        torch.testing.assert_close(loss.squeeze(), expected.detach())
        own = torch.autograd.grad(expected, list(model.parameters()))
        torch.testing.assert_close(gradient[0], torch.cat([g.flatten() for g in own]))


def test_in_halves_those_who_train_have_measured_nothing():
    x, y, seen = torch.eye(4), torch.arange(4), []
    data = fedlib.ClientData(x, y, [[0], [1], [2], [3]])

    class Halves(fedlib.FedOpt):
        measures = halves = True

        def client_measure(self, server, client, full):
            return {"loss": full.loss(server["x"])}, {}

        def client_init(self, server, client):
            seen.append(client.measured)
            return super().client_init(server, client)

    fedlib.run(fedlib.Task("t", lambda: nn.Linear(4, 4), data, data), Halves, rounds=2)
    assert seen and not any(seen)


def test_a_ratio_metric_sums_numerators_and_denominators_apart():
    x, y = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 1])
    data = fedlib.ClientData(x, y, [[0], [1, 2], []])

    def ratio(outputs, targets):
        return targets.to(outputs.dtype), (1.0 + 2 * targets).to(outputs.dtype)

    task = fedlib.Task("t", lambda: nn.Linear(1, 2), data, data, metrics={"ratio": ratio})
    history = fedlib.run(task, "fedavg", rounds=0, clients_per_round=2)
    assert history.series("ratio").tolist() == [pytest.approx(2 / 7)]
    own = history.clients[history.clients["metric"] == "ratio"]["value"].tolist()
    assert own == pytest.approx([0.0, 2 / 6, np.nan], nan_ok=True)
    assert history.series("ratio_unweighted").tolist() == [pytest.approx(1 / 6)]
