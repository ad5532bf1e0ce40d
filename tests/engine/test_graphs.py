"""Steps that are recorded go from a state to the next as others do.

What needs no GPU: which steps are recorded, and the memory that they read and write. Work is done
again here where a GPU would repeat its graph. Whether CUDA repeats it right, the tests on CUDA see.
"""

import copy
import weakref
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib import losses
from fedlib.engine.graphs import Recorder, _fill
from fedlib.engine.judging import Sample
from fedlib.engine.oracles import Batch
from fedlib.engine.states import map_state
from fedlib.engine.vectorized import Vectorized
from fedlib.models import Softmax

SMALL = {
    "synthetic": {"clients": 12},  # of unequal sizes
    "mnist": {"clients": 6, "network": "paper", "width": 0.2, "sizes": "20-50"},
    "cifar10_resnet18": {"clients": 4, "width": 1 / 32, "sizes": "5-20", "norm": "tracked"},
}
COMMON = {"rounds": 6, "dtype": "float64", "clients_per_round": 4, "chunk_clients": 3}
SERVERS = ("fedavgm", "fedadagrad", "fedadam", "fedyogi")  # whose clients are FedAvg's
METHODS = [name for name in fedlib.list_algorithms() if name not in ("moon", *SERVERS)]
OPTIMIZERS = ("sgdm", "adam", "adagrad", "delta_sgd", "sps")
CASES = [
    *(("synthetic", name, {"batch_size": 10}) for name in METHODS),
    ("mnist", "moon", {"batch_size": 16}),  # two chunks, the second of one client
    ("mnist", "scaffold", {"batch_size": 16}),
    *(("synthetic", "fedavg", {"client_optimizer": name}) for name in OPTIMIZERS),
    ("cifar10_resnet18", "fedavg", {"batch_size": 4}),  # with running statistics
]


def recorder(step):
    """A recorder, and a list with an entry for each time that work was done again."""
    again = []

    def capture(work):
        before = copy.deepcopy(made.states)
        work()  # CUDA computes nothing when it records
        for memory, room in made.states.items():
            map_state(_fill, room, before[memory])
        return lambda: again.append(1) or work()

    made = Recorder(step, lambda: capture)
    return made, again


@pytest.fixture
def recorded(monkeypatch):
    """Backends take their steps from recorders; gives those, and how often work was done again."""
    init, seen = Vectorized.__init__, []

    def with_recorder(self, feed, model):
        init(self, feed, model)
        self.recorder, again = recorder(self.step)
        seen.append((self.recorder, again))

    def use():
        monkeypatch.setattr(Vectorized, "__init__", with_recorder)
        return seen

    return use


@pytest.mark.parametrize(("name", "algorithm", "overrides"), CASES)
def test_recorded_steps_are_the_steps(name, algorithm, overrides, recorded, prepared):
    prepared("cifar10")
    task = fedlib.load_task(name, **SMALL[name])
    common = {**COMMON, "overrides": overrides, "backend": "vectorized"}
    plain = fedlib.run(task, algorithm, **common)
    seen = recorded()
    run = fedlib.run(task, algorithm, **common)
    ((recorder, again),) = seen
    assert recorder.graphs and None not in recorder.graphs.values() and len(again) > 8
    for key, tensor in plain.params.items():
        assert torch.allclose(tensor, run.params[key], rtol=1e-12, atol=1e-14), key
    assert (plain.frame["value"] - run.frame["value"]).abs().max() < 1e-12


STEPS = {
    "keeps what clients share": lambda rate, x, y, of: {"x": x + rate * of * y, "y": y},
    "moves what they shared": lambda rate, x, y, of: {"x": x + y, "y": y + rate * of},
    "changes places": lambda rate, x, y, of: {"x": y, "y": x + rate * of},
    "adds to its state": lambda rate, x, y, of, z=0: {"x": x + z, "y": y, "z": rate * of + z},
}


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_of_any_kind_and_of_the_next_method_is_taken(kind):
    def step(method, state, batch):
        after = STEPS[kind](method.lr, **state, of=batch.x)
        return {**after, "loss": after["x"].sum(-1, keepdim=True)}

    batch = Batch(torch.arange(6.0).view(3, 1, 2), torch.zeros(3), torch.ones(3))
    take, again = recorder(step)
    for method in [fedlib.SGD(lr=0.1)] * 4 + [fedlib.SGD(lr=0.3)] * 4:  # rounds
        ours = theirs = {"x": torch.ones(3, 1, 2), "y": torch.ones(1, 1, 2).expand(3, 1, 2)}
        for _ in range(4):
            ours, theirs = take(method, ours, batch), step(method, theirs, batch)
            torch.testing.assert_close(ours, theirs)
            ours, theirs = ({k: v for k, v in s.items() if k != "loss"} for s in (ours, theirs))
    assert len(again) > 4


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is(recorded, monkeypatch):
    task = fedlib.load_task("synthetic", **SMALL["synthetic"])
    plain = fedlib.run(task, "fedavg", **COMMON)
    seen = recorded()

    def fail(*_):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("fedlib.engine.graphs._Graph", fail)
    run = fedlib.run(task, "fedavg", **COMMON)
    assert set(seen[0][0].graphs.values()) == {None}
    assert all(torch.equal(tensor, run.params[key]) for key, tensor in plain.params.items())


class Moving:
    """A loss of a user's that keeps its weights where they were last needed."""

    def __init__(self):
        self.weight = torch.tensor([0.2, 1.0, 3.0])

    def __call__(self, outputs, targets):
        self.weight = self.weight.to(outputs)
        return losses.cross_entropy(outputs, targets) * self.weight[targets]


def test_a_graph_holds_what_its_step_reads(monkeypatch):
    """A recorder that remembers, as CUDA does, where the weights were, and not the weights."""
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(40, 5, generator=draw), torch.randint(3, (40,), generator=draw)
    data = fedlib.ClientData(x, y, np.split(np.arange(40), 4))
    replays, init = [], Vectorized.__init__

    def run(weights):
        def capture(work):
            loss, places = work(), [weakref.ref(tensor) for tensor in weights()]

            def again():
                replays.append([place() is not None for place in places])
                return torch.zeros_like(loss)  # it was computed from memory without numbers

            return again

        def with_recorder(self, feed, model):
            init(self, feed, model)
            if not isinstance(feed, Sample):  # whose numbers are compared with the plain loop's
                self.recorder = Recorder(self.step, lambda: capture)

        def callback(history):  # when all is recorded
            if history.frame["round"].max() == 3:
                fedlib.evaluate(task, {name: p.double() for name, p in history.params.items()})

        monkeypatch.setattr(Vectorized, "__init__", with_recorder)
        fedlib.run(task, "fedavg", backend="vectorized", callback=callback, **common)

    common = {"rounds": 6, "clients_per_round": 4}
    moving = Moving()
    task = fedlib.Task("t", partial(Softmax, 5, 3), data, data, loss=moving, batch_size=5)
    run(lambda: [moving.weight])
    task = replace(task, loss=nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 3.0])))
    run(lambda: [part for copy in task.loss._placed.values() for part in copy.buffers()])
    assert len(replays) == 16 and all(there and all(there) for there in replays)
