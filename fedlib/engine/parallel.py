"""The backend for large models on a CPU: one chunk of clients per core, one thread each.

Stacked convolutions and large matrices gain nothing on a CPU, where a few rows fill its cache; and
inside one such operation a second thread gains little. Independent clients on separate cores do.
Threads suffice: torch's kernels release Python's interpreter lock.
"""

from __future__ import annotations

import copy
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from fedlib.engine.backend import Backend, Sums, Work
from fedlib.engine.feed import Feed
from fedlib.engine.rows import FlatModel
from fedlib.engine.vectorized import Vectorized


class Parallel(Backend):
    """Vectorized workers, each with a copy of the model.

    Results are added in the order of the chunks, so they do not depend on which one ends first.

    Args:
        workers: default torch's number of threads when the backend is made.
    """

    def __init__(self, feed: Feed, model: FlatModel, workers: int | None = None) -> None:
        count = workers or torch.get_num_threads()
        models = [model, *(copy.deepcopy(model) for _ in range(count - 1))]
        self.workers: queue.SimpleQueue[Vectorized] = queue.SimpleQueue()
        for own in models:
            self.workers.put(Vectorized(feed, own))
        self.pool = ThreadPoolExecutor(
            count, "fedlib", initializer=torch.set_num_threads, initargs=(1,)
        )

    def each(self, phase: str, work: Work, chunks: Sequence[np.ndarray]) -> Iterator[Sums]:
        """One phase of several chunks: results in order, work in any."""

        def run(clients: np.ndarray) -> Sums:
            worker = self.workers.get()
            try:
                done: Sums = getattr(worker, phase)(work, clients)
                return done
            finally:
                self.workers.put(worker)

        yield from self.pool.map(run, chunks)
