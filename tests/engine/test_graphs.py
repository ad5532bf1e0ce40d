"""Steps that are recorded go from a state to the next as others do.

What needs no GPU: which steps are recorded, and the memory that they read and write. Work is done
again here where a GPU would repeat its graph. Whether CUDA repeats it right, the tests on CUDA see.
"""

import copy

import pytest
import torch

import fedlib
from fedlib.engine.graphs import Recorder, _fill
from fedlib.engine.states import map_state
from fedlib.engine.vectorized import Vectorized

SMALL = {
    "synthetic": {"clients": 12},  # of unequal sizes
    "mnist": {"clients": 6, "network": "paper", "width": 0.3, "sizes": "20-90"},
    "cifar10_resnet18": {"clients": 4, "width": 1 / 32, "sizes": "5-20", "norm": "tracked"},
}
COMMON = {"rounds": 6, "dtype": "float64", "clients_per_round": 4, "chunk_clients": 3}
METHODS = [name for name in fedlib.list_algorithms() if name != "moon"]
OPTIMIZERS = ("sgdm", "adam", "adagrad", "delta_sgd", "sps")
CASES = [
    *(
        ("synthetic", name, {"batch_size": 10})
        for name in fedlib.list_algorithms()
        if name != "moon"
    ),
    ("mnist", "moon", {"batch_size": 16}),  # two chunks, the second of one client
    ("mnist", "scaffold", {"batch_size": 16}),
    *(("synthetic", "fedavg", {"client_optimizer": name}) for name in OPTIMIZERS),
    ("cifar10_resnet18", "fedavg", {"batch_size": 4}),  # with running statistics
]


@pytest.fixture
def recorded(monkeypatch):
    """Backends take their steps from recorders; gives those, and how often work was done again."""
    init, seen = Vectorized.__init__, []

    def with_recorder(self, feed, model):
        init(self, feed, model)
        again = []

        def capture(work):
            before = copy.deepcopy(self.recorder.states)
            try:
                work()  # CUDA computes nothing when it records
            finally:
                for memory, room in self.recorder.states.items():
                    map_state(_fill, room, before[memory])
            return lambda: again.append(1) or work()

        self.recorder = Recorder(self.step, lambda: capture)
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


def test_graphs_of_configurations_that_have_left_are_forgotten(recorded):
    """One of three rates diverges at once."""
    task = fedlib.load_task("synthetic", **SMALL["synthetic"])
    common = {key: COMMON[key] for key in ("dtype", "clients_per_round")}
    common |= {"client_lr": [0.01, 1e308, 0.02], "backend": "vectorized", "rounds": 12}
    plain = fedlib.grid(task, "fedavg", **common)
    seen = recorded()
    runs = fedlib.grid(task, "fedavg", **common)
    assert plain["diverged"].notna().any() and runs["diverged"].equals(plain["diverged"])
    assert (plain["value"] - runs["value"]).abs().max() < 1e-12 and seen[0][1]


def test_a_step_that_cannot_be_recorded_is_taken_as_it_is(recorded, monkeypatch):
    task = fedlib.load_task("synthetic", **SMALL["synthetic"])
    plain = fedlib.run(task, "fedavg", **COMMON)
    seen = recorded()

    def fail(self, *_):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(Recorder, "_graph", fail)
    run = fedlib.run(task, "fedavg", **COMMON)
    assert set(seen[0][0].graphs.values()) == {None}
    assert all(torch.equal(tensor, run.params[key]) for key, tensor in plain.params.items())
