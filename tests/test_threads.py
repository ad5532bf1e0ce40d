"""Threads that compute on one core each."""

from __future__ import annotations

import threading

import pytest
import torch

from fedlib.engine.strategy import threads
from fedlib.models.layers import real_examples
from fedlib.threads import one_core_each


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
def test_workers_stay_on_one_core_whatever_the_caller_sets(many: int) -> None:
    with threads(many):
        pool = one_core_each(3, "test")
        assert torch.get_num_threads() == many
        # The first large operation is where torch would take over the process's number.
        in_all(pool, 3, lambda: torch.ones(2**20).exp().sum().item())
        with threads(4):
            assert in_all(pool, 3, torch.get_num_threads) == [1, 1, 1]
        pool.shutdown()


def test_a_threads_mask_of_real_examples_is_its_own() -> None:
    mask = torch.ones(1, 2, dtype=torch.bool)
    pool = one_core_each(2, "test")
    with real_examples(mask):
        assert in_all(pool, 2, real_examples.active) == [None, None]
        assert real_examples.active() is mask
    pool.shutdown()
