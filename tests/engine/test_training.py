"""Algorithms of the user's: what they draw is a function of the seed and the round."""

import itertools
import random
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib import randomness
from fedlib.engine import configure, execute
from tests.refusals import refused

X = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long() + (X[:, 2] > 1).long()
DATA = fedlib.ClientData(X, Y, [range(23), range(23, 30), range(30, 60)])
TASK = fedlib.Task("mine", lambda: nn.Linear(6, 3), DATA, DATA, version="1")
OWN = torch.Generator().manual_seed(3)

NOISE = {
    "torch": torch.randn_like,
    "NumPy": lambda like: torch.from_numpy(np.random.randn(*like.shape)).to(like),
    "Python": lambda like: random.gauss(0, 1) * like,
}


class Noisy(fedlib.FedOpt):
    """DP-FedAvg's noise, at the server."""

    version = "1"
    whose = "torch"

    def server_update(self, server, mean):
        new = super().server_update(server, mean)
        return new | {"x": new["x"] + 0.05 * NOISE[self.whose](new["x"])}


class Scattered(fedlib.FedOpt):
    def server_init(self, params):
        return super().server_init(torch.randn_like(params))


class ByKeys(fedlib.FedOpt):
    def client_step(self, state, batch, value_and_grad):
        new = super().client_step(state, batch, value_and_grad)
        draws = randomness.uniform(batch.keys, new["x"].shape[-1]).unsqueeze(1)
        return new | {"x": new["x"] + 0.01 * draws}


def final(method, **settings):
    return fedlib.run(TASK, method, rounds=4, **settings).series("loss").iloc[-1]


@pytest.mark.parametrize("whose", NOISE)
def test_a_run_goes_on_with_the_same_draws(whose, tmp_path, monkeypatch):
    monkeypatch.setattr(Noisy, "whose", whose)

    def fails(history):
        return history.frame["round"].max() == 2 and 1 / 0

    with pytest.raises(ZeroDivisionError):
        fedlib.run(TASK, Noisy, rounds=4, checkpoint=tmp_path, callback=fails)
    assert len(list(tmp_path.iterdir())) == 1, "a callback that fails leaves the state"
    before = torch.get_rng_state()
    assert final(Noisy, checkpoint=tmp_path) == final(Noisy) != final(Noisy, seed=1)
    assert final(Noisy) != final(fedlib.FedOpt)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("method", [Noisy, Scattered, ByKeys])
def test_draws_do_not_depend_on_what_trains_beside(method):
    rates = [0.1, 0.2, 0.3]
    frame = fedlib.grid(TASK, method, rounds=4, client_lr=rates)
    frame = frame[(frame["split"] == "test") & (frame["metric"] == "loss") & (frame["round"] == 4)]
    for rate, beside in zip(rates, frame["value"], strict=True):
        alone = final(method, overrides={"client_lr": rate}, chunk_clients=1)
        assert alone == pytest.approx(beside, rel=1e-6)


class NoisyServer(fedlib.server.SGD):
    def step(self, x, g, state):
        return x - self.lr * (g + 0.05 * torch.randn_like(g)), state


class ReadsItsServer(fedlib.FedOpt):
    def server_update(self, server, mean):
        return server | {"x": server["x"] + self.server.lr * mean["delta"]}


def test_a_server_draws_anew_in_each_round():
    method = fedlib.FedOpt(client=fedlib.SGD(lr=0.0), server=NoisyServer(lr=1.0))
    start, one, two = (fedlib.run(TASK, method, rounds=r).params["weight"] for r in range(3))
    assert not torch.allclose(two - one, one - start)


class Names(fedlib.FedOpt):
    """A word in the server's state, which all configurations would share."""

    def server_update(self, server, mean):
        return super().server_update(server, mean) | {"named": str(self.server.lr)}


def test_a_word_of_one_configuration_is_no_word_of_another():
    servers = [fedlib.server.SGD(lr=rate) for rate in (1.0, 0.5)]
    runs = [configure(TASK, Names(server=server), rounds=1) for server in servers]
    refused("'named' .* for one configuration and .* for another", execute, runs)


@pytest.mark.parametrize(
    "methods",
    [
        [fedlib.FedOpt(), fedlib.FedOpt(server=NoisyServer(lr=0.5))],
        [ReadsItsServer(), ReadsItsServer(server=fedlib.server.Adam(lr=0.1))],
    ],
)
def test_servers_of_several_kinds_are_as_each_would_be_alone(methods):
    configured = [configure(TASK, method, rounds=4) for method in methods]
    for method, beside in zip(methods, execute(configured), strict=True):
        assert final(method) == pytest.approx(beside.final("loss", window=1), rel=1e-6)


class Local(fedlib.FedOpt):
    def client_final(self, server, state):
        return {k: v + torch.randn_like(v) for k, v in super().client_final(server, state).items()}


class OwnGenerator(fedlib.FedOpt):
    def server_update(self, server, mean):
        return server | {"x": server["x"] + torch.randn(server["x"].shape, generator=OWN)}


class Mixing(fedlib.FedOpt):
    def server_update(self, server, mean):
        return server | {"x": server["x"] / server["x"].norm()}


def returns(value, deed):
    """A method of which a function gives a value."""
    return type("Made", (fedlib.FedOpt,), {deed: lambda self, *given: value})


class Normed(fedlib.FedOpt):
    def client_final(self, server, state):
        sent = super().client_final(server, state)
        return {name: values / values.norm() for name, values in sent.items()}


class ClippingLater(fedlib.FedOpt):
    """Whose gradients are not too long in the first step."""

    def client_step(self, state, batch, value_and_grad):
        loss, gradient = value_and_grad(state["x"], batch)
        gradient = gradient * (1e3 / gradient.norm()).clamp(max=1)
        return {**state, "x": state["x"] - 0.1 * gradient, "loss": loss}


@dataclass(frozen=True)
class Deciding(fedlib.FedOpt):
    """Whose threshold is met by none of its clients in the first steps."""

    longest: float = 20.0

    def client_step(self, state, batch, value_and_grad):
        loss, gradient = value_and_grad(state["x"], batch)
        rate = 0.1 if gradient.norm() > self.longest else 0.3
        return {**state, "x": state["x"] - rate * gradient, "loss": loss}


class Shares(fedlib.FedOpt):
    """Weights of its own, which would depend on who trains at once."""

    def client_init(self, server, client):
        share = client.examples / client.examples.sum()
        return super().client_init(server, client) | {"share": share}

    def client_final(self, server, state):
        return {"delta": state["share"] * (state["x"] - server["x"])}


class Remembering(fedlib.Scaffold):
    def client_remember(self, server, state):
        return {name: c / c.norm() for name, c in super().client_remember(server, state).items()}


class Counted(fedlib.FedOpt):
    """Counts its steps in a number that its clients share at first."""

    zero = torch.tensor(0.0)

    def client_init(self, server, client):
        return super().client_init(server, client) | {"count": self.zero}

    def client_step(self, state, batch, value_and_grad):
        count = state["count"]
        return super().client_step(state, batch, value_and_grad) | {"count": count + 1}


class Number(Counted):
    zero = 0


class NoLoss(fedlib.FedOpt):
    def client_step(self, state, batch, value_and_grad):
        return {"x": super().client_step(state, batch, value_and_grad)["x"]}


class IfServer(fedlib.FedOpt):
    def server_update(self, server, mean):
        return super().server_update(server, mean) if self.client.lr > 0.2 else server


class Forgets(fedlib.FedOpt):
    remembers = True

    def client_enroll(self, server, client, full):
        return {"own": server["x"]}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Forgets, r"clients remember \['own'\] and then \[\]: client_enroll and client_remember"),
        (returns({"x": 1}, "client_step"), "client_step of Made gives x=1, but must give a tensor"),
        (returns({"x": np.zeros(2)}, "server_init"), "server_init of Made gives x=a ndarray"),
        (Local, r"clients of Local draw from torch's random numbers.* draw in server_update"),
        (OwnGenerator, "server_update of OwnGenerator gives other numbers when it is called"),
        (NoLoss, "client_step of NoLoss gives no 'loss'"),
        (Number, "client_init of Number gives count=0, but must give a tensor"),
        (
            returns(None, "client_init"),
            "client_init of Made gives None, but must give a dict of tensors",
        ),
        (returns(None, "client_step"), "client_step of Made gives None"),
        (returns(None, "client_final"), "client_final of Made gives None"),
        (returns(None, "server_update"), "server_update of Made gives None"),
        (returns({}, "server_init"), "server_init of Made gives no 'x'"),
        (returns({"x": torch.zeros(2, 5)}, "server_update"), r"as torch.float32 of shape \(2, 5\)"),
    ],
)
def test_what_is_no_function_of_its_arguments_is_refused(method, message):
    refused(message, fedlib.grid, TASK, method, rounds=2, client_lr=[0.1, 0.3])


# Of clients and servers that would count in each other's numbers if they trained together.
FOR_ONE = [Normed, ClippingLater, Shares, Remembering, Deciding, Deciding(longest=1e-2)]
SERVERS = [IfServer, Mixing]


@pytest.mark.parametrize("method", [*FOR_ONE, *SERVERS])
def test_what_is_written_for_one_client_trains_as_one_alone(method, caplog):
    frame = fedlib.grid(TASK, method, rounds=3, client_lr=[0.1, 0.3], dtype="float64")
    plainly = [record for record in caplog.records if record.name == "fedlib.plainly"]
    assert len(plainly) == (method not in SERVERS)  # servers are called one by one in any case
    losses = frame[(frame["split"] == "test") & (frame["metric"] == "loss")]
    for rate in (0.1, 0.3):
        how = {"rounds": 3, "dtype": "float64", "overrides": {"client_lr": rate}}
        alone = fedlib.run(TASK, method, backend="plain", **how).series("loss").iloc[-1]
        assert losses[losses["client_lr"] == rate]["value"].iloc[-1] == pytest.approx(
            alone, rel=1e-9
        )


class Halving(fedlib.FedOpt):
    """Half of each step, and half of all of them, from the points that it stood at."""

    def client_init(self, server, client):
        moved = server["x"] + 1.0
        return super().client_init(server, client) | {"x": moved, "start": moved}

    def client_step(self, state, batch, value_and_grad):
        new = super().client_step(state, batch, value_and_grad)
        return new | {"x": (new["x"] + state["x"]) / 2}

    def client_final(self, server, state):
        return {"delta": (state["x"] - state["start"]) / 2}


def test_a_step_of_fedlibs_leaves_the_state_that_it_is_given():
    few = {"rounds": 2, "overrides": {"local_steps": 3}, "chunk_clients": 1}
    same = fedlib.SGD(lr=0.1), fedlib.client.SGDM(lr=0.1, momentum=0.0)
    one, other = (fedlib.run(TASK, Halving(client=client), **few).params for client in same)
    torch.testing.assert_close(one, other)


class InPlace(fedlib.Algorithm):
    """FedAvg that writes to what it is given, and diverges in round 3."""

    def server_init(self, params):
        return {"x": params, "round": torch.zeros(())}

    def client_init(self, server, client):
        return {"x": server["x"]}

    def client_step(self, state, batch, value_and_grad):
        loss, gradient = value_and_grad(state["x"], batch)
        state["x"] -= 0.1 * gradient
        return state | {"loss": loss}

    def client_final(self, server, state):
        return {"delta": state["x"] - server["x"]}

    def server_update(self, server, mean):
        server["round"] += 1
        server["x"] += mean["delta"] / (server["round"] < 3)
        return server


@pytest.mark.parametrize("chunk", [1, 3])
def test_what_a_method_is_given_it_may_write_to(chunk):
    history = fedlib.run(TASK, InPlace, rounds=5, chunk_clients=chunk)
    two = fedlib.run(TASK, "fedavg", rounds=2, overrides={"client_lr": 0.1})
    assert history.diverged == 3 and history.meta["backend"] == "vectorized"
    torch.testing.assert_close(history.params, two.params)


def test_a_clients_number_without_axes_is_its_own():
    plain, counted = (fedlib.run(TASK, method(), rounds=2) for method in (fedlib.FedOpt, Counted))
    assert torch.equal(plain.params["weight"], counted.params["weight"])


class Squeezed(fedlib.FedOpt):
    """Numbers of clients without their last axis, in one place."""

    where = ""

    def client_init(self, server, client):
        examples = client.examples.squeeze(-1) if self.where == "init" else client.examples
        return super().client_init(server, client) | {"examples": examples}

    def client_final(self, server, state):
        lost = state["examples"].squeeze(-1) if self.where == "final" else state["examples"]
        return super().client_final(server, state) | {
            "of": {"examples": lost},
            "lr": self.client.lr,
        }

    def server_update(self, server, mean):
        return super().server_update(server, {"delta": mean["delta"] / mean["of"]["examples"]})


@pytest.mark.parametrize("where", ["init", "final"])
@pytest.mark.parametrize("rates", [2, 3])  # of three clients
def test_reports_without_an_axis_are_each_clients_own(where, rates, monkeypatch):
    given = {"rounds": 2, "client_lr": [0.1 * (1 + place) for place in range(rates)]}
    whole = fedlib.grid(TASK, Squeezed, **given)
    monkeypatch.setattr(Squeezed, "where", where)
    squeezed = fedlib.grid(TASK, Squeezed, **given)
    np.testing.assert_allclose(squeezed["value"], whole["value"], rtol=1e-5)


def halves(round, rounds):
    return 0.5**round


def test_a_schedule_of_ones_own_is_a_rate_each_round(store):
    # Client's rate: as gradient descent with these rates; server's: as a rate a factor smaller.
    A, b = np.ones((2, 1, 1)), np.array([[1.0], [3.0]])
    task, how = fedlib.quadratic_task(A, b), {"rounds": 4, "dtype": "float64", "local_steps": 1}
    x = 0.0
    for round in range(4):
        x += 0.3 * 0.5**round * (2 - x)
    run = fedlib.run(task, "fedavg", client_lr=0.3, client_schedule=halves, **how)
    assert float(run.params["x"]) == pytest.approx(x, abs=1e-12)
    run = fedlib.run(task, "fedavg", client_lr=0.3, server_schedule=halves, **how)
    assert float(run.params["x"]) == pytest.approx(x, abs=1e-12)
    for name in ("fedadam", "fedyogi", "fedadagrad", "fedavgm"):
        given = {"client_lr": 0.3, "server_lr": 0.1, **how}
        run = fedlib.run(task, name, server_schedule=lambda round, rounds: 0.25, **given)
        other = fedlib.run(task, name, **{**given, "server_lr": 0.025})
        assert float(run.params["x"]) == pytest.approx(float(other.params["x"]), abs=1e-12)
    two = [lambda round, rounds, rate=rate: rate for rate in (0.0, 1.0)]
    frame = fedlib.grid(task, "fedavg", client_schedule=two, client_lr=[0.1, 0.2], rounds=2)
    last = frame[(frame["round"] == 2) & (frame["metric"] == "loss") & (frame["split"] == "test")]
    assert last.groupby("client_schedule", sort=False)["value"].nunique().tolist() == [1, 2]
    numbers = itertools.count()
    for schedule, message in (
        (lambda round, rounds: float("nan"), "gives nan, but must give a finite factor >= 0"),
        (lambda round, rounds: -1.0, r"gives -1\.0, but must give a finite factor >= 0"),
        (lambda round, rounds: 1 / (1 + next(numbers)), "another factor when it is called again"),
    ):
        refused(message, fedlib.run, task, "fedavg", client_schedule=schedule)


def test_a_schedule_is_stored_by_its_version(store, quadratic, monkeypatch):
    def digest(version):
        monkeypatch.setattr(halves, "version", version, raising=False)
        run = store.run(quadratic, "fedavg", rounds=1, local_steps=1, server_schedule=halves)
        return run.config.digest

    assert digest("") not in store.paths()
    one, other = digest("1"), digest("2")
    assert {one, other} == store.paths().keys() and one == digest("1")
    plain = store.run(quadratic, "fedavg", rounds=1, local_steps=1)
    assert "server_schedule" not in plain.config.method


class Knows(fedlib.FedOpt):
    """Client 2 does nothing, bias stays, clients add noise of their own, and the round counts."""

    def client_init(self, server, client):
        state = super().client_init(server, client)
        return state | {"takes": (client.number != 2).to(state["x"]), "keys": client.keys}

    def client_final(self, server, state):
        noise = randomness.normal(state["keys"][..., 0], state["x"].shape[-1]).to(state["x"])
        return {"delta": state["takes"] * (state["x"] - server["x"] + noise), "noise": noise}

    def server_update(self, server, mean):
        delta = mean["delta"].clone()
        delta[..., self.layout["bias"].slice] = self.progress[0] * 1.0
        new = super().server_update(server, {"delta": delta})
        return new | {"noise": mean["noise"]}


@pytest.mark.parametrize("backend", ["vectorized", "plain", "parallel"])
def test_a_method_knows_its_clients_its_places_and_its_round(backend):
    how = {"rounds": 3, "backend": backend, "chunk_clients": 1, "client_lr": 0.0}
    run = fedlib.run(TASK, Knows, server_lr=1.0, **how)
    start = fedlib.run(TASK, Knows, **{**how, "rounds": 0})
    assert torch.allclose(run.params["bias"] - start.params["bias"], torch.tensor(3.0))  # 0 + 1 + 2
    sizes, moved = torch.tensor([23.0, 7, 30]), torch.zeros(21)
    for round in range(3):
        base = torch.tensor([randomness.key(0, "batches", round)])
        keys = randomness.fold(randomness.fold(base, torch.arange(3)), 4)
        noise = randomness.normal(keys, 21)
        moved += (sizes[:2, None] * noise[:2]).sum(0) / sizes.sum()
    weight = (run.params["weight"] - start.params["weight"]).flatten()
    torch.testing.assert_close(weight, moved[:18], rtol=1e-4, atol=1e-5)


def test_normal_numbers_are_normal():
    draws = randomness.normal(torch.arange(200), 500)
    assert draws.shape == (200, 500) and torch.isfinite(draws).all()
    share = torch.special.ndtr(draws.double()).flatten().sort().values  # uniform then
    assert (share - (torch.arange(100_000) + 0.5) / 100_000).abs().max() < 1.63 / 100_000**0.5
    assert torch.corrcoef(draws[:, :2].T)[0, 1].abs() < 0.3


class Median(fedlib.FedOpt):
    """The server moves by the coordinates' median of what single clients send."""

    single_reports = True
    rates: ClassVar[list] = []

    def server_update(self, server, reports):
        self.rates.append(tuple(reports["delta"].shape))
        median = reports["delta"].median(0).values
        return super().server_update(server, {"delta": median})


@pytest.mark.parametrize("backend", ["vectorized", "plain", "parallel"])
@pytest.mark.parametrize("chunk", [1, 2, 5])
def test_a_server_may_see_single_reports(backend, chunk):
    # Client i of five pulls to its own point; the median of steps is the step to the median.
    points = torch.tensor([[0.0, 9], [1, 2], [50, 3], [3, -70], [2, 4]], dtype=torch.float64)
    task = fedlib.quadratic_task(
        torch.ones(5, 2, 1) * torch.eye(2), points, weights=[5, 1, 2, 1, 1]
    )
    how = {"rounds": 3, "local_steps": 1, "dtype": "float64", "backend": backend}
    Median.rates.clear()
    run = fedlib.run(task, Median, client_lr=0.5, chunk_clients=chunk, **how)
    x = np.zeros(2)
    for _ in range(3):
        x = x + np.median(0.5 * (points.numpy() - x), axis=0)
    np.testing.assert_allclose(run.params["x"], x, atol=1e-12)
    assert set(Median.rates) == {(5, 1, 2)}
    frame = fedlib.grid(task, Median, client_lr=[0.1, 0.5, 0.2, 0.3, 0.4], **how)
    alone = run.series("loss").iloc[-1]
    last = frame[(frame["client_lr"] == 0.5) & (frame["metric"] == "loss")]["value"].iloc[-1]
    assert last == pytest.approx(alone, abs=1e-12)
