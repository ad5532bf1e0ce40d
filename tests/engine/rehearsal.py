"""The CUDA path rehearsed without a GPU: rounds on torch's device ``meta``, every operation seen.

A tensor on ``meta`` has a shape and a type but no numbers. What the host computes is really
computed; what the device would compute is only named. So a round goes through the same calls as on
CUDA, and what would be wrong there is an error here: an operation that mixes devices, or the host
asking for a number of the device, or for what is sized by one, for which it would have to wait.
"""

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedlib.engine import batches as feed
from fedlib.engine import strategy
from fedlib.engine.program import Program

DEVICE = torch.device("meta")
ATEN = torch.ops.aten
INDEXING = {ATEN.index, ATEN.index_put, ATEN.index_put_, ATEN._index_put_impl_}


class Mistake(RuntimeError):
    """What would fail on CUDA, or wait for it; most of it torch refuses itself on ``meta``."""


@dataclass
class Seen:
    """Where a round asked for copies from the host: in all, and in each of its local steps."""

    uploads: list[str] = field(default_factory=list)
    steps: list[list[str]] = field(default_factory=list)


class Operations(TorchDispatchMode):
    """Sees every operation; those of the device must neither mix devices nor wait."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        hosts = [tensor for tensor in tensors if tensor.device != DEVICE]
        if len(hosts) < len(tensors) or kwargs.get("device") == DEVICE:
            self._look(func.overloadpacket, args, hosts)
        return func(*args, **kwargs)

    def _look(self, packet, args, hosts):
        if packet in (ATEN._to_copy, ATEN.copy_, ATEN.to):  # the last of what inference made
            self.seen.uploads += [_place()] * bool(hosts)
            return
        if packet in INDEXING:
            indices = [index for index in args[1] if index is not None]
            if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
                raise Mistake(f"host sync: the ones of a mask are counted at {_place()}")
            sent = [index for index in indices if index.device != DEVICE]
            self.seen.uploads += [_place()] * len(sent)
            hosts = [host for host in hosts if not any(host is index for index in sent)]
        if any(host.dim() for host in hosts):  # a number may be an argument of the device's
            raise Mistake(f"two devices: {packet} at {_place()}")


class Python(TorchFunctionMode):
    """Sees the uploads that torch does not dispatch: those of Python's numbers and lists."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        before, sent = len(self.seen.uploads), False
        result = func(*args, **(kwargs or {}))
        if func in (torch.tensor, torch.as_tensor):
            sent = result.device == DEVICE
        elif func in (Tensor.__getitem__, Tensor.__setitem__) and args[0].device == DEVICE:
            parts = args[1] if isinstance(args[1], tuple) else (args[1],)
            sent = any(isinstance(part, list) for part in parts)
        if sent and len(self.seen.uploads) == before:
            self.seen.uploads.append(_place())
        return result


def _place():
    """The innermost line of fedlib that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "/fedlib/" not in frame.f_code.co_filename:
        frame = frame.f_back
    name = frame.f_code.co_filename.rpartition("/fedlib/")[2]
    return f"{name}:{frame.f_lineno} ({frame.f_code.co_name})"


@contextmanager
def as_on_cuda():
    """The engine's limits for the device as they are for CUDA, whatever memory is free here.

    Small data are transformed in the round, as large ones are.
    """
    limits = {DEVICE.type: strategy.CHUNK_NUMBERS["cuda"]}
    with (
        mock.patch.dict(strategy.CHUNK_NUMBERS, limits),
        mock.patch.object(strategy, "free_bytes", lambda device: None),
        mock.patch.object(feed, "KEPT_BYTES", 0),
        mock.patch.object(torch, "is_autocast_enabled", lambda device: False),
    ):
        yield


@contextmanager
def watched(seen):
    """What happens inside is noted in ``seen``."""
    with Python(seen), Operations(seen):
        yield


def rehearse(configured, rounds=1, chunk_clients=None):
    """Some rounds of a program, and the evaluation after them, as they would go on CUDA.

    Returns:
        what each round did. In the first one clients that remember something make it.

    Raises:
        RuntimeError: torch's or a :class:`Mistake`: an operation mixes devices, or the host waits.
    """
    alive, every, now = list(range(len(configured))), [], Seen()
    with as_on_cuda():
        program = Program(configured, DEVICE, chunk_clients=chunk_clients)
        backend = program.training.backend
        step = backend.step

        def watched_step(*args):
            before = len(now.uploads)
            result = step(*args)
            now.steps.append(now.uploads[before:])
            return result

        backend.step = watched_step
        server = program._initial_server(alive)
        for number in range(rounds):
            now = Seen()
            every.append(now)
            with watched(now):
                server, _ = program.training.round(alive, server, number)
        with watched(Seen()), program.model.statistics.tracking(server.get("statistics")):
            program.evaluators["test"](server["x"])
    return every
