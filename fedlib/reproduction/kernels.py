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
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import connection, forkserver, resource_tracker
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
# An argument of a kernel: what fails is told by the notebook, and its sockets are this machine's.
QUIET = f"--IPKernelApp.log_level={logging.CRITICAL}"


def processes(several: bool = True) -> Any:
    """Makes processes with one thread for PyTorch and, where they can be forked, warm imports.

    Args:
        several: otherwise for one process at a time, which has as many threads as this one.

    Returns:
        a context of ``multiprocessing``; all contexts of a process share what they fork from.
    """
    if not CAN_FORK:
        return multiprocessing.get_context("spawn")
    if not several:
        return multiprocessing.get_context("fork")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(WARM))
    # It keeps this mask: an interrupt is for the one who waits, see obedient().
    resource_tracker.ensure_running()  # otherwise the server starts it, and that lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with environment(ONE_THREAD):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return context


def obedient() -> None:
    """To be called first in a process of :func:`processes`.

    It ends when the one who waits for it terminates it, or has been killed. The terminal's
    interrupt, which reaches both, would tear it out of Jupyter's event loop instead, which says so
    at length.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if CAN_FORK:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_follow, args=(parent.sentinel,), daemon=True).start()


def _follow(parent: int) -> None:
    """End this process when its parent has ended."""
    connection.wait([parent])
    os.kill(os.getpid(), signal.SIGTERM)


def deaf() -> None:
    """To be called first in a thread that makes processes of :func:`processes`: no interrupt can
    come before they are obedient.
    """
    if CAN_FORK:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


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
    parent = f"--IPKernelApp.parent_handle={os.getppid()}"  # it ends with its parent
    IPKernelApp.launch_instance(["-f", connection_file, parent, QUIET])
