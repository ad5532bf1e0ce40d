"""Models of single clients: after local steps, and those that a method keeps."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from tests.refusals import refused

X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 1] > 1).long()
PARTS = [[*range(20)], [*range(20, 32)], [*range(32, 50)], [*range(50, 60)]]
TRAIN = fedlib.ClientData(X, Y, [part[::2] for part in PARTS])
TEST = fedlib.ClientData(X, Y, [part[1::2] for part in PARTS], ids=[*"abcd"])
TASK = fedlib.Task("own", lambda: nn.Linear(4, 3), TRAIN, TEST, batch_size=None, version="1")


def tuned(params, part, steps, rate):
    """Gradient descent by hand, as PyTorch does it, on a client's whole data."""
    model = nn.Linear(4, 3).double()
    model.load_state_dict(params)
    for _ in range(steps):
        model.zero_grad()
        nn.functional.cross_entropy(model(X[part].double()), Y[part]).backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= rate * p.grad
    return model


def metrics(model, part):
    outputs = model(X[part].double())
    loss = nn.functional.cross_entropy(outputs, Y[part]).item()
    return loss, (outputs.argmax(1) == Y[part]).double().mean().item()


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_clients_models_after_local_steps_are_pytorchs(steps):
    params = fedlib.run(TASK, "fedavg", rounds=1, dtype="float64").params
    held = [*TRAIN.parts]
    held[1] = []  # whose model stays as it is
    few = {"train": fedlib.ClientData(X, Y, held), "cohorts": lambda number, size: [0]}
    task = replace(TASK, **few)
    found = fedlib.evaluate(task, params, local_steps=steps, optimizer=fedlib.SGD(lr=0.5))
    assert found["client"].unique().tolist() == [*"abcd"]
    for place, name in enumerate("abcd"):
        model = tuned(params, held[place], steps if len(held[place]) else 0, 0.5)
        ours = found[found["client"] == name].set_index("metric")["value"]
        assert (ours["loss"], ours["accuracy"]) == pytest.approx(metrics(model, PARTS[place][1::2]))
    whole = fedlib.Task("one", TASK.model, TRAIN, fedlib.ClientData(X, Y, [range(60)]))
    refused("give local_steps, too", fedlib.evaluate, whole, params, optimizer=fedlib.SGD())
    refused("4 clients train and 1 test", fedlib.evaluate, whole, params, local_steps=1)


@dataclass(frozen=True)
class OwnHead(fedlib.FedOpt):
    """FedPer: clients keep the bias for themselves."""

    remembers = True

    def client_enroll(self, server, client, full):
        return {"bias": server["x"][..., self.layout["bias"].slice]}

    def client_init(self, server, client):
        x = server["x"].expand(len(client.steps), *server["x"].shape).clone()
        x[..., self.layout["bias"].slice] = client.memory["bias"]
        state = super().client_init({**server, "x": x}, client)
        return state

    def client_remember(self, server, state):
        return {"bias": state["x"][..., self.layout["bias"].slice]}

    def client_final(self, server, state):
        delta = (state["x"] - server["x"]).clone()
        delta[..., self.layout["bias"].slice] = 0
        return {"delta": delta}

    def client_model(self, server, memory):
        x = server["x"].expand(len(memory["bias"]), *server["x"].shape).clone()
        x[..., self.layout["bias"].slice] = memory["bias"]
        return x


@pytest.mark.parametrize("backend", ["vectorized", "plain", "parallel"])
def test_a_method_says_which_model_a_client_uses(backend):
    common = {"rounds": 2, "local_steps": 1, "dtype": "float64", "client_lr": 0.5}
    run = fedlib.run(TASK, OwnHead, backend=backend, clients_per_round=4, **common)
    start = fedlib.run(TASK, OwnHead, **{**common, "rounds": 0}).params
    weight, biases = start["weight"].double(), [start["bias"].double()] * 4
    sizes = TRAIN.sizes / TRAIN.sizes.sum()
    for _ in range(2):
        ends = [
            tuned({"weight": weight, "bias": bias}, part[::2], 1, 0.5).state_dict()
            for bias, part in zip(biases, PARTS, strict=True)
        ]
        weight = sum(size * end["weight"] for size, end in zip(sizes, ends, strict=True))
        biases = [end["bias"] for end in ends]
    torch.testing.assert_close(run.params["weight"], weight)
    own = run.clients[run.clients["split"] == "personal"].set_index(["client", "metric"])["value"]
    for name, bias, part in zip("abcd", biases, PARTS, strict=True):
        model = tuned({"weight": weight, "bias": bias}, [], 0, 0)
        loss, accuracy = metrics(model, part[1::2])
        assert own[name, "loss"] == pytest.approx(loss)
        assert own[name, "accuracy"] == pytest.approx(accuracy)
    mean = np.average(own[:, "loss"], weights=TEST.sizes)
    assert run.series("loss", "personal").iloc[-1] == pytest.approx(mean)
