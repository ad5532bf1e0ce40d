"""The backend for large models on a CPU: one chunk of clients per core, one thread each.

Stacked convolutions and large matrices gain nothing on a CPU, where a few rows fill its cache; and
inside one such operation a second thread gains little. Independent clients on separate cores do.
torch's kernels release Python's interpreter lock, so threads can serve; between short operations
they wait for it, which is why small models without convolutions are stacked instead.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch

from fedlib.engine.backend import Backend, Sums, Work
from fedlib.engine.feed import Feed
from fedlib.engine.rows import FlatModel
from fedlib.engine.vectorized import Vectorized
from fedlib.threads import one_core_each


class Parallel(Backend):
    """Vectorized workers, each with a copy of the model.

    Worker w of W does the chunks w, w + W, ... in order, and the workers' sums are added in order,
    so a result does not depend on which ends first.

    Args:
        workers: default torch's number of threads when the backend is made.
    """

    def __init__(self, feed: Feed, model: FlatModel, workers: int | None = None) -> None:
        count = workers or torch.get_num_threads()
        models = [model, *(copy.deepcopy(model) for _ in range(count - 1))]
        self.workers = [Vectorized(feed, own) for own in models]
        self.pool = one_core_each(count, "fedlib")

    def total(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Sums:
        """The sums of one phase over several chunks, a share of them per core."""
        shares = [chunks[number :: len(self.workers)] for number in range(len(self.workers))]
        jobs = [
            self.pool.submit(worker.total, phase, work, share)
            for worker, share in zip(self.workers, shares, strict=True)
            if share
        ]
        first, *others = [job.result() for job in jobs]
        for sums in others:
            first += sums
        return first
