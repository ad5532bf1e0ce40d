"""How a run is executed decides no bit of it, where the kernels that compute it do not.

A quadratic's kernels compute each client alone. Those of a network's matrix products depend on how
many clients they are given, so there the clients that train together are the same in both runs.
An evaluation's sum over examples is of all configurations of a grid together.
"""

import tempfile

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fedlib
from fedlib import process
from fedlib.engine import configure, execute
from fedlib.engine.checkpoint import Deadline, Paused

# Every way in which clients and server exchange something: weighted sums of one or several fields,
# sums that other clients' work waits for, memories, other weights, clients' own numbers of steps.
METHODS = ["fedavg", "scaffold", "mime", "mime_mvr", "fednova", "qfedavg", "adafedadam"]
HOW = {
    "name": st.sampled_from(METHODS),
    "dtype": st.sampled_from(["float32", "float64"]),
    "chunk_clients": st.integers(1, 6),
}
OTHERWISE = {
    "backend": st.sampled_from(["vectorized", "parallel"]),
    "threads": st.integers(1, 3),
    "stop": st.none() | st.integers(1, 3),
}
DRAWN = settings(max_examples=25, deadline=None, derandomize=True)


class After(Deadline):
    """The end of the time for so many rounds."""

    def __init__(self, rounds):
        super().__init__(float("inf"))
        self.left = rounds

    def allows(self, evaluated, next_evaluated):
        self.left -= 1
        return self.left > 0


def executed(task, name, dtype, rates=(0.1,), threads=1, stop=None, **how):
    """The last of runs with these learning rates, which pause after ``stop`` rounds."""
    common = {"rounds": 4, "seed": 1, "clients_per_round": 5, "dtype": dtype}
    runs = [configure(task, name, overrides={"client_lr": rate}, **common) for rate in rates]
    with process.threads(threads, others=False), tempfile.TemporaryDirectory() as folder:
        if stop is not None:
            with pytest.raises(Paused):
                execute(runs, checkpoint=folder, deadline=After(stop), **how)
        return execute(runs, checkpoint=folder, **how)[-1]


def same_bits(a, b, evaluations=True):
    """Whether two runs, none of which diverges, have the same parameters and numbers by round."""
    frames = [h.frame if evaluations else h.frame[h.frame["split"] == "train"] for h in (a, b)]
    same = [torch.equal(a.params[name], b.params[name]) for name in a.params]
    return all(same) and frames[0].equals(frames[1])


@DRAWN
@given(beside=st.integers(0, 2), **HOW, **OTHERWISE)
def test_a_quadratic_is_trained_to_the_same_bits(name, dtype, beside, **how):
    task = fedlib.load_task("quadratic")
    rates = [*(0.05, 0.2)[:beside], 0.1]
    grid = executed(task, name, dtype, rates, **how)
    assert same_bits(executed(task, name, dtype), grid, evaluations=not beside)


@DRAWN
@given(**HOW, **OTHERWISE)
def test_a_network_whose_clients_train_with_the_same_others_is(name, dtype, chunk_clients, **how):
    task = fedlib.load_task("synthetic", clients=8)
    usual = executed(task, name, dtype, chunk_clients=chunk_clients)
    assert same_bits(usual, executed(task, name, dtype, chunk_clients=chunk_clients, **how))
