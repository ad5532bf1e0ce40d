"""Checkpoints: a program's whole state in one file, so that a stopped run goes on as if it had not.

Every draw is a function of the seed and the round, so the state holds tensors and numbers only.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedlib.algorithms.base import State
from fedlib.engine.config import RunConfig
from fedlib.errors import Error

if TYPE_CHECKING:
    from fedlib.engine.program import Program, Progress

SECONDS = 60.0  # between checkpoints, unless rounds were asked for
FORMAT = 1


class Stopped(KeyboardInterrupt):
    """The process was asked to end; what was computed is in a checkpoint."""


class Checkpoint:
    """Where the state of one program is kept.

    Args:
        folder: may hold checkpoints of several programs.
        configs: the program's configurations; only their own state is ever loaded.
        every: rounds between checkpoints; default one a minute.
    """

    def __init__(self, folder: Path, configs: Sequence[RunConfig], every: int | None) -> None:
        self.digests = [config.digest for config in configs]
        name = hashlib.sha256(" ".join(self.digests).encode()).hexdigest()[:16]
        self.path = folder / f"{name}.safetensors"
        self.every = every
        self._last = time.monotonic()

    def offer(self, program: Program, now: Progress, asked: bool) -> None:
        """Save if it is time, or if the process was asked to end; then raise :class:`Stopped`."""
        if self.every is None:
            due = time.monotonic() - self._last >= SECONDS
        else:
            due = now.done % self.every == 0
        if due or asked:
            self.save(program, now)
        if asked:
            raise Stopped(f"stopped after round {now.done}; the state is in {self.path}")

    def save(self, program: Program, now: Progress) -> None:
        """Write the state aside and put it in the place of the last one."""
        memory = program.kept.memory
        tensors: dict[str, Tensor] = {"final": now.final}
        tensors.update(_flat("server", now.server))
        tensors.update(_flat("memory", memory.tensors))
        tensors["slots"] = torch.from_numpy(memory.slots)
        record, recorded = program.record.state()
        tensors.update(recorded)
        about = {
            "format": FORMAT,
            "digests": self.digests,
            "done": now.done,
            "alive": now.alive,
            "training": now.training,
            "remembered": memory.count,
            "record": record,
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            aside = self.path.with_suffix(f".{os.getpid()}.part")
            own = {name: _copy(tensor) for name, tensor in tensors.items()}
            save_file(own, aside, metadata={"fedlib": json.dumps(about)})
            os.replace(aside, self.path)
        except OSError as error:
            raise Error(f"cannot write a checkpoint in {self.path.parent}: {error}") from None
        self._last = time.monotonic()

    def load(self, program: Program) -> Progress | None:
        """The saved state, put into ``program``; None if there is none.

        Raises:
            Error: the file is damaged or of another format.
        """
        from fedlib.engine.program import Progress

        if not self.path.is_file():
            return None
        again = "delete it to start again"
        try:
            with safe_open(self.path, framework="pt") as file:
                about = json.loads((file.metadata() or {})["fedlib"])
                tensors = {name: file.get_tensor(name) for name in file.keys()}
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise Error(f"checkpoint {self.path} is damaged ({reason}); {again}") from None
        if about["format"] != FORMAT or about["digests"] != self.digests:
            raise Error(f"checkpoint {self.path} belongs to another run or version; {again}")
        memory = program.kept.memory
        memory.tensors = _nested("memory", tensors, program.device)
        memory.slots = tensors["slots"].numpy()
        memory.count = about["remembered"]
        program.record.restore(about["record"], tensors)
        return Progress(
            done=about["done"],
            alive=about["alive"],
            server=_filled(program.initial_server(about["alive"]), "server", tensors),
            final=tensors["final"].to(program.device),
            training=about["training"],
        )

    def discard(self) -> None:
        """Remove the state of a finished run."""
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir() and not any(self.path.parent.iterdir()):
            self.path.parent.rmdir()


def _flat(prefix: str, state: State) -> dict[str, Tensor]:
    """The tensors of nested states by path, for instance ``server/optimizer/m``."""
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        if isinstance(value, dict):
            found.update(_flat(f"{prefix}/{name}", value))
        else:
            found[f"{prefix}/{name}"] = value
    return found


def _copy(tensor: Tensor) -> Tensor:
    """On the CPU with memory of its own: the file format has no tensors that share any."""
    return tensor.detach().cpu().clone(memory_format=torch.contiguous_format)


def _filled(template: State, prefix: str, tensors: dict[str, Tensor]) -> State:
    """``template`` with the tensors that :func:`_flat` named."""
    return {
        name: _filled(value, f"{prefix}/{name}", tensors)
        if isinstance(value, dict)
        else tensors[f"{prefix}/{name}"].to(value.device)
        for name, value in template.items()
    }


def _nested(prefix: str, tensors: dict[str, Tensor], device: torch.device) -> State:
    """The inverse of :func:`_flat`, for states without empty parts."""
    state: State = {}
    for path, tensor in tensors.items():
        if not path.startswith(f"{prefix}/"):
            continue
        _, *middle, last = path.split("/")
        inner = state
        for name in middle:
            inner = inner.setdefault(name, {})
        inner[last] = tensor.to(device)
    return state


@contextmanager
def stop_requests(listen: bool) -> Iterator[list[int]]:
    """Collects SIGTERM and the first interrupt, so that the current round can end in order.

    The list is empty until one comes. A second interrupt acts at once. Without ``listen``, and
    outside the main thread, signals act as ever.
    """
    asked: list[int] = []
    if not listen or threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)

    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, note)
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
