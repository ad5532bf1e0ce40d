"""Python threads that each compute on one core."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch


def one_core_each(count: int, name: str) -> ThreadPoolExecutor:
    """A pool of ``count`` threads in which torch's operations use one thread each.

    torch takes a thread's number from a setting of the whole process when that thread first
    computes. So every thread asks for it here, before the caller's number is set again: else each
    would start a team of its own, and more teams than cores make all of them several times slower.
    """
    before = torch.get_num_threads()
    pool = ThreadPoolExecutor(count, name)
    everyone = threading.Barrier(count)

    def start(_: int) -> None:
        everyone.wait()  # each thread of the pool is here once
        torch.set_num_threads(1)
        torch.get_num_threads()
        everyone.wait()

    list(pool.map(start, range(count)))
    torch.set_num_threads(before)
    return pool
