"""The process around a run: its settings and random numbers, which a run fixes and restores.

torch's default type and device, its precision, number of threads and generators belong to the
process, and a program that imports fedlib may have set them. No run's numbers depend on them, so
runs of several Python threads take turns.
"""

import os
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.backends import mha

from fedlib.errors import Error

_turn = threading.RLock()
_held = False  # whether some run's settings are in force


@contextmanager
def alone(tf32: bool = False) -> Iterator[None]:
    """In this context torch's and NumPy's settings are the usual ones, and no other run is active.

    At the end settings and random states are restored.

    Args:
        tf32: whether CUDA's products and convolutions may use this format.
    """
    with _turn, _products(tf32), nullcontext() if _held else _fixed():
        yield


@contextmanager
def _products(tf32: bool) -> Iterator[None]:
    """The precision in which CUDA computes products and convolutions of float32."""
    try:
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    except RuntimeError:
        raise Error(
            "torch.backends' fp32_precision is set, so torch does not say in which precision "
            "products are computed: leave it at its default, and give dtype='tf32' for TF32"
        ) from None
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    torch.backends.cudnn.allow_tf32 = tf32
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


@contextmanager
def _fixed() -> Iterator[None]:
    """The other settings, and the random states, for the outermost :func:`alone`."""
    global _held
    with ExitStack() as stack:
        devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
        stack.enter_context(torch.random.fork_rng(devices))
        stack.callback(np.random.set_state, np.random.get_state())
        stack.callback(random.setstate, random.getstate())
        stack.callback(torch.set_default_dtype, torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
        stack.enter_context(torch.inference_mode(False))
        stack.callback(mha.set_fastpath_enabled, mha.get_fastpath_enabled())
        mha.set_fastpath_enabled(False)  # under torch.func.vmap it is used for gradients, too
        stack.enter_context(np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"))
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        flushed = not torch.tensor(1e-40).mul(1).item()  # torch has no other way to read it
        stack.callback(torch.set_flush_denormal, flushed)
        torch.set_flush_denormal(False)
        _held = True
        try:
            yield
        finally:
            _held = False


def random_states() -> list[Any]:
    """The states of torch's, NumPy's and Python's random numbers."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [torch.get_rng_state(), cuda, np.random.get_state(), random.getstate()]


def drawn_since(states: list[Any]) -> list[str]:
    """The libraries whose random numbers were drawn since the states were these."""
    (cpu, cuda, numpy, python), now = states, random_states()
    same = {
        "torch": all(map(torch.equal, [cpu, *cuda], [now[0], *now[1]])),
        "NumPy": np.array_equal(numpy[1], now[2][1]) and numpy[2:] == now[2][2:],
        "Python": python == now[3],
    }
    return [whose for whose, is_same in same.items() if not is_same]


def seed(number: int) -> None:
    """Seed torch's, NumPy's and Python's random numbers, inside :func:`alone`."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    np.random.seed(number % 2**32)
    random.seed(number)


@contextmanager
def threads(count: int, others: bool = True) -> Iterator[None]:
    """Use ``count`` threads for this thread's torch kernels, and end the process's pools after it.

    Args:
        others: whether other threads that compute for the first time meanwhile keep the number from
            before. This takes as long as a small round.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    if others and count != before:  # the call was for this thread and for all new ones
        other = threading.Thread(target=torch.set_num_threads, args=(before,))
        other.start()
        other.join()
    try:
        yield
    finally:
        torch.set_num_threads(before)
        end_threads()


def usual_threads() -> int:
    """torch's number for threads that have not computed yet, whatever this one uses."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(torch.get_num_threads).result()


_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def one_core_each(count: int) -> ThreadPoolExecutor:
    """The process's pool of ``count`` threads in which torch's operations use one thread each.

    torch takes a thread's number from a setting of the whole process when that thread first
    computes. So every thread computes here, before the caller's number is set again. Otherwise each
    would start its own team, and more teams than cores make all of them several times slower.
    """
    key = os.getpid(), count  # no pool survives a fork
    if key not in _pools:
        before = torch.get_num_threads()
        pool = ThreadPoolExecutor(count, "fedlib")
        everyone = threading.Barrier(count)

        def start(_: int) -> None:
            everyone.wait()  # so that each thread of the pool is here once
            torch.set_num_threads(1)
            torch.get_num_threads()
            everyone.wait()

        list(pool.map(start, range(count)))
        torch.set_num_threads(before)
        _pools[key] = pool
    return _pools[key]


def end_threads() -> None:
    """End the threads of this process's pools."""
    for key in [key for key in _pools if key[0] == os.getpid()]:
        _pools.pop(key).shutdown()
