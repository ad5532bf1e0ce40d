"""The process around a run: its settings, random numbers and threads."""

import os
import random
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import cache

import matplotlib
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.backends import mha

import fedlib
from fedlib import process
from fedlib.losses import correct, cross_entropy
from fedlib.models.layers import REAL, real_examples
from fedlib.process import one_core_each, threads
from tests.refusals import refused


def in_all(pool, count, what):
    """What each thread of the pool answers."""
    everyone = threading.Barrier(count)

    def ask(_):
        everyone.wait()
        return threading.get_ident(), what()

    answers = dict(pool.map(ask, range(count)))
    assert len(answers) == count
    return list(answers.values())


@pytest.mark.parametrize("many", [2, 3])
def test_workers_stay_on_one_core_whatever_the_caller_sets(many):
    with threads(many):
        pool = one_core_each(3)
        assert torch.get_num_threads() == many
        # The first large operation is where torch would take over the process's number.
        in_all(pool, 3, lambda: torch.ones(2**20).exp().sum().item())
        with threads(4):
            assert in_all(pool, 3, torch.get_num_threads) == [1, 1, 1]


def test_a_threads_mask_of_real_examples_is_its_own():
    mask = torch.ones(1, 2, dtype=torch.bool)
    pool = one_core_each(2)
    with real_examples(mask):
        assert in_all(pool, 2, REAL.get) == [None, None]
        assert REAL.get() is mask


@contextmanager
def set_as(get, put, value):
    before = None if put is torch.set_default_device else get()  # None: no mode of torch's own
    put(value)
    try:
        yield
        assert get() == value  # as it was found
    finally:
        put(before)


def flushing():
    return not torch.tensor(1e-40).mul(1).item()


PRECISION = torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
DEVICE = torch.get_default_device, torch.set_default_device
SETTINGS = {
    "nothing": nullcontext,
    "float64": lambda: set_as(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "meta device": lambda: torch.device("meta"),
    "default device": lambda: set_as(*DEVICE, torch.device("meta")),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "precision": lambda: set_as(*PRECISION, "medium"),
    "fast path": lambda: set_as(mha.get_fastpath_enabled, mha.set_fastpath_enabled, True),
    "flush": lambda: set_as(flushing, torch.set_flush_denormal, True),
    "three threads": lambda: set_as(torch.get_num_threads, torch.set_num_threads, 3),
    "anomalies": torch.autograd.detect_anomaly,
    "errors of NumPy": lambda: np.errstate(all="raise"),
    "warnings": lambda: warnings.catch_warnings(action="error"),
    "seeds": lambda: process.seed(7) or nullcontext(),
}
X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
DATA = fedlib.ClientData(X, (X[:, 0] > 0).long(), np.array_split(np.arange(60), 3))


class Drawn(nn.Sequential):
    """A model whose values come from all generators there are, with dropout of torch's own."""

    def __init__(self):
        super().__init__(nn.Linear(4, 32), nn.AlphaDropout(0.3), nn.Linear(32, 2))
        with torch.no_grad():
            self[0].weight[0, 0] = np.random.rand() + random.random() + torch.full((), 1.0)


def tiny(outputs, targets):
    """A number that a process which flushes denormal ones has for 0."""
    return torch.full_like(outputs[..., 0], 1e-38) / 100


def numbers(model=Drawn, **given):
    metrics = {"accuracy": correct, "tiny": tiny}
    task = fedlib.Task("mine", model, DATA, DATA, metrics=metrics)
    history = fedlib.run(task, "fedavg", rounds=2, **given)
    params = np.concatenate([each.numpy().ravel() for each in history.params.values()])
    return np.concatenate([params, history.frame["value"].to_numpy()])


@cache
def plain():
    """As where nothing is set."""
    return numbers()


@pytest.mark.parametrize("name", SETTINGS)
def test_what_the_process_has_set_decides_nothing_and_stays(name):
    alone = plain()
    running = threading.active_count()
    environment, styles = dict(os.environ), dict(matplotlib.rcParams)
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with SETTINGS[name]():
        states = process.random_states()
        grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        assert np.array_equal(numbers(), alone)
        assert not process.drawn_since(states)
        assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == (grad, inference)
    assert threading.active_count() == running
    assert (os.environ, dict(matplotlib.rcParams)) == (environment, styles)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_one_more_draw_of_numpy_is_noticed():
    np.random.rand()  # the first after a seed fills its whole state, the others move its place
    states = process.random_states()
    assert not process.drawn_since(states)
    np.random.rand()
    assert process.drawn_since(states) == ["NumPy"]


@pytest.mark.parametrize("tf32", [False, True])
def test_products_are_computed_in_tf32_only_where_that_was_asked_for(tf32):
    before = torch.backends.cudnn.allow_tf32
    with process.alone(tf32):
        assert torch.backends.cudnn.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 == tf32
    assert torch.backends.cudnn.allow_tf32 == before


def test_runs_in_threads_are_those_of_one():
    """Of two backends, with dropout; each thread's first operation falls into others' runs."""

    def own(turn):
        return numbers(backend="vectorized" if turn % 2 else "parallel")

    with threads(2, others=False):
        alone = [own(0), own(1)]
        with ThreadPoolExecutor(4) as pool:
            for turn, each in enumerate(pool.map(own, range(8))):
                assert np.array_equal(each, alone[turn % 2])
        assert torch.get_num_threads() == process.usual_threads() == 2
    assert not [one for one in threading.enumerate() if one.name.startswith("fedlib")]


def test_a_thread_that_begins_to_compute_during_a_run_has_the_usual_number():
    seen = set()
    with threads(2, others=False):
        numbers(backend="vectorized", callback=lambda *_: seen.add(process.usual_threads()))
    assert seen == {2}


SHARED = {
    "a module": lambda net: net,
    "a function that gives it again": lambda net: lambda: net,
    "a part of it": lambda net: lambda: nn.Sequential(net, nn.Linear(2, 2)),
    "its layers": lambda net: lambda: nn.Sequential(nn.Linear(4, 4), *net),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_module_that_is_handed_over_stays_as_it_is(name):
    net = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.2), nn.Linear(32, 2)).eval()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    first = numbers(SHARED[name](net), dtype="float64")
    assert not net.training and type(net[1]) is nn.Dropout
    assert all(value.dtype == torch.float32 for value in net.state_dict().values())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(each.is_leaf and each.grad is None for each in net.parameters())
    assert np.array_equal(first, numbers(SHARED[name](net), dtype="float64"))


DRAWS = {
    "transform, torch": {"transform": lambda x, keys: x + torch.randn_like(x)},
    "transform, Python": {"transform": lambda x, keys: x * random.random()},
    "loss": {"loss": lambda o, y: F.dropout(cross_entropy(o, y), 0.5)},
    "metric": {"metrics": {"noise": lambda o, y: correct(o, y) * torch.rand(())}},
}


class Noisy(nn.Linear):
    def __init__(self, draw, always=True):
        super().__init__(4, 2)
        self.draw, self.always = draw, always

    def forward(self, input):
        noise = self.draw() if self.always or self.training else 0.0
        return super().forward(input) + noise


DRAWS |= {
    "forward, NumPy": {"model": lambda: Noisy(lambda: float(np.random.rand()), False)},
    "forward, torch, when evaluated": {"model": lambda: Noisy(lambda: torch.rand(2))},
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_that_only_the_process_decides_are_refused(name):
    task = fedlib.Task(**{"name": "m", "model": Drawn, "train": DATA, "test": DATA, **DRAWS[name]})
    refused("random numbers, whose state is not the run's", fedlib.run, task, "fedavg", rounds=1)
