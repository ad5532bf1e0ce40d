"""Notebook kernels that are forked from a process which has PyTorch and fedlib imported already.

Importing them takes longer than most notebooks need for the rest. A forked kernel is as fresh as
one that was started: it shares imported modules, no variables, and ends with its notebook.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.manager import AsyncKernelManager
from jupyter_client.provisioning import LocalProvisioner

# Elsewhere system libraries start threads of their own, and a fork may hang.
CAN_FORK = sys.platform == "linux"
# What the kernels find imported; fedlib.notebook brings the rest.
WARM = (
    "fedlib.notebook",
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_pdf",
    "papermill",
    "sklearn.datasets",  # for a stand-in
)
# Read by OpenMP when PyTorch is loaded.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def processes() -> Any:
    """Makes processes with one thread for PyTorch and, where they can be forked, warm imports.

    Returns:
        a context of ``multiprocessing``; all contexts of a process share what they fork from.
    """
    if not CAN_FORK:
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(WARM))
    # It keeps this mask: an interrupt is for the processes that work, see interruptible().
    resource_tracker.ensure_running()  # otherwise the server starts it, and that lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with environment(ONE_THREAD):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def interruptible() -> None:
    """To be called first in a process of :func:`processes`."""
    if CAN_FORK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class ForkedKernelManager(AsyncKernelManager):
    """Starts its kernel as a fork of this process; everything else is Jupyter's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kernel_id = str(uuid.uuid4())
        self.provisioner = _Forked(
            kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self
        )


class _Forked(LocalProvisioner):
    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        fork = multiprocessing.get_context("fork")
        manager: Any = self.parent
        process = fork.Process(target=_kernel, args=(manager.connection_file, kwargs["env"]))
        process.start()
        self.process: Any = _Process(process)
        self.pid = self.pgid = process.pid
        return self.connection_info


class _Process:
    """The part of ``subprocess.Popen`` that Jupyter uses, for a forked process."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self._process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def _kernel(connection_file: str, environment: Mapping[str, str]) -> None:
    """What ``python -m ipykernel_launcher -f connection_file`` does, in this process."""
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()  # as a started kernel: the terminal's interrupt is for the one who waits
    asyncio.set_event_loop(asyncio.new_event_loop())  # the other one is the parent's
    os.environ.clear()
    os.environ.update(environment)
    options = {"parent_handle": os.getppid(), "log_level": logging.CRITICAL}  # ends with its parent
    own = [f"--IPKernelApp.{name}={value}" for name, value in options.items()]
    IPKernelApp.launch_instance(["-f", connection_file, *own])
