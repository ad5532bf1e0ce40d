"""What the engine offers beyond local steps: whole-client measurements, memory, halves, pooling."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib.engine import states
from fedlib.engine.program import Program
from fedlib.engine.states import ClientStates
from fedlib.process import threads


@dataclass(frozen=True)
class Visits(fedlib.Algorithm):
    """Steps along the mean whole-data gradient, scaled by how often the client has taken part."""

    lr: float = 0.1
    split: bool = False
    version = "1"
    remembers = measures = True

    @property
    def halves(self):
        return self.split

    def server_init(self, params):
        return {"x": params, "loss": torch.zeros_like(params[..., :1])}

    def client_enroll(self, server, client, full):
        return {"visits": 0 * client.examples, "first": full.loss(server["x"])}

    def client_measure(self, server, client, full):
        loss, gradient = full(server["x"])
        return {"loss": loss}, {"gradient": gradient, "loss": loss}

    def server_measured(self, server, mean):
        return {**server, "gradient": mean["gradient"], "mean_loss": mean["loss"]}

    def client_init(self, server, client):
        return {"x": server["x"], "memory": client.memory, "gradient": server["gradient"]}

    def client_step(self, state, batch, value_and_grad):
        loss, _ = value_and_grad(state["x"], batch)
        scale = self.lr * (state["memory"]["visits"] + 1) * state["memory"]["first"]
        return {**state, "x": state["x"] - scale * state["gradient"], "loss": loss}

    def client_final(self, server, state):
        return {"x": state["x"]}

    def client_remember(self, server, state):
        return {**state["memory"], "visits": state["memory"]["visits"] + 1}

    def server_update(self, server, mean):
        return {"x": mean["x"], "loss": server["mean_loss"]}


def problem(seed=3, clients=6):
    draw = np.random.default_rng(seed)
    roots = draw.normal(size=(clients, 3, 3))
    return (
        roots @ roots.transpose(0, 2, 1) + np.eye(3),
        draw.normal(size=(clients, 3)),
        draw.random(clients) + 0.5,
    )


@pytest.mark.parametrize(
    ("backend", "chunk"), [("vectorized", None), ("reference", None), ("parallel", 2)]
)
def test_measurements_and_memory_equal_a_numpy_recomputation(backend, chunk):
    A, b, p = problem()
    offset = np.full(6, 2.0)
    task = fedlib.quadratic_task(A, b, p, x0=np.ones(3), offset=offset)
    steps = [1, 3, 2, 2, 1, 4]
    how = {"backend": backend, "chunk_clients": chunk, "overrides": {"local_steps": steps}}
    how |= {"rounds": 8, "clients_per_round": 3, "dtype": "float64", "seed": 5}
    with threads(3, others=False):
        history = fedlib.run(task, Visits(lr=0.001), **how)
    x, memory = np.ones(3), {}
    for t in range(8):
        draw = fedlib.randomness.numpy_generator(5, "cohort", t)
        cohort = np.sort(draw.choice(6, 3, replace=False))
        loss = [0.5 * x @ A[i] @ x - b[i] @ x + 2 for i in cohort]
        for i, value in zip(cohort, loss, strict=True):
            memory.setdefault(i, [0, value])
        weights = p[cohort] / p[cohort].sum()
        gradient = sum(w * (A[i] @ x - b[i]) for w, i in zip(weights, cohort, strict=True))
        ends = []
        for i in cohort:
            ends.append(x - steps[i] * 0.001 * (memory[i][0] + 1) * memory[i][1] * gradient)
            memory[i][0] += 1
        x = sum(w * end for w, end in zip(weights, ends, strict=True))
    assert np.abs(history.params["x"].numpy() - x).max() < 1e-10


def test_halves_are_disjoint_and_the_floats_are_counted():
    A, b, p = problem()
    task = fedlib.quadratic_task(A, b, p, x0=np.ones(3), offset=np.full(6, 2.0))
    history = fedlib.run(task, Visits(lr=0.0, split=True), rounds=2)
    assert history.series("floats_down", "communication").tolist() == [18.0, 18.0]
    assert torch.allclose(history.params["x"], torch.ones(3))
    configured = [fedlib.engine.configure(task, Visits(split=True))]
    training = Program(configured, torch.device("cpu")).training
    cohort = np.array([0, 1, 3, 4, 5])
    halves = [training.feed.halves(cohort, number) for number in range(20)]
    assert all(sorted([*a, *b]) == cohort.tolist() and len(a) == 2 for a, b in halves)
    assert len({tuple(a) for a, _ in halves}) > 5
    with pytest.raises(fedlib.Error, match="clients_per_round is 1; Visits splits the cohort"):
        fedlib.run(task, Visits(split=True), rounds=1, clients_per_round=1)


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

    @dataclass(frozen=True)
    class Look(Visits):
        def client_measure(self, server, client, full):
            loss, gradient = full(server["x"])
            assert torch.equal(loss, full.loss(server["x"]))
            seen.update(x=server["x"][0], sizes=client.examples, loss=loss, gradient=gradient)
            return {}, {"gradient": gradient, "loss": loss}

    fedlib.run(task, Look(lr=0.0), rounds=1, dtype="float64", clients_per_round=5)
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


def test_a_ratio_metric_sums_numerators_and_denominators_apart():
    x, y = torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 1])
    data = fedlib.ClientData(x, y, [np.array([0]), np.array([1, 2])])

    def ratio(outputs, targets):
        return targets.to(outputs.dtype), (1.0 + 2 * targets).to(outputs.dtype)

    task = fedlib.Task("t", lambda: nn.Linear(1, 2), data, data, metrics={"ratio": ratio})
    history = fedlib.run(task, "fedavg", rounds=0, clients_per_round=2)
    assert history.series("ratio").tolist() == [pytest.approx(2 / 7)]
    own = history.clients[history.clients["metric"] == "ratio"]["value"].tolist()
    assert own == [pytest.approx(0.0), pytest.approx(2 / 6)]


def test_clients_get_back_what_was_put_and_room_never_exceeds_the_population():
    kept = ClientStates(5, torch.device("cpu"))
    values = torch.arange(5.0)[:, None, None].expand(5, 2, 3)
    for clients in ([3, 1, 4], [1], [0, 2, 3]):
        kept.put(kept.reserve(np.array(clients)), {"c": values[clients] + len(clients)})
    assert len(kept.tensors["c"]) == 5
    expected = {0: 3.0, 1: 2.0, 2: 5.0, 3: 6.0, 4: 7.0}
    for client, value in expected.items():
        assert (kept.get(kept.places(np.array([client])))["c"] == value).all()


def test_memory_that_is_not_there_is_said_in_one_line(monkeypatch):
    """Room for twice as many is taken only if it is free, and a state that does not fit refused."""
    monkeypatch.setattr(states, "FREE_BYTES", 0)
    monkeypatch.setattr(states, "free_bytes", lambda device: 1000)
    kept = ClientStates(100, torch.device("cpu"))
    # 800 bytes; those of twice as many would be 1,600.
    kept.put(kept.reserve(np.arange(10)), {"c": torch.zeros(10, 1, 20)})
    kept.put(kept.reserve(np.array([10])), {"c": torch.ones(1, 1, 20)})
    assert len(kept.tensors["c"]) == 11
    with pytest.raises(fedlib.Error, match="the 13 clients seen so far remember takes") as caught:
        kept.put(kept.reserve(np.array([11, 12])), {"c": torch.zeros(2, 1, 20)})
    assert "fewer clients" in str(caught.value)
