"""Notebook kernels that are forked from a server which has PyTorch and fedlib imported already.

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
import weakref
from collections.abc import Mapping
from multiprocessing import connection, forkserver, resource_tracker
from typing import Any, ClassVar

from fedlib.errors import Error

try:
    from jupyter_client.connect import KernelConnectionInfo
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.provisioning import LocalProvisioner
except ImportError:
    raise Error("notebooks need Jupyter: pip install 'fedlib[notebooks]'") from None

# Elsewhere system libraries start threads of their own, and a fork may hang.
CAN_FORK = sys.platform == "linux"
# What the kernels find imported; fedlib.notebook brings the rest.
WARM = [
    "fedlib.notebook",
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_pdf",
    "sklearn.datasets",  # for a stand-in
]
# An argument of a kernel: what fails is told by the notebook, and its sockets are this machine's.
QUIET = f"--IPKernelApp.log_level={logging.CRITICAL}"


def start_server() -> None:
    """Start what the kernels are forked from, with this environment and deaf to interrupts."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(WARM)
    resource_tracker.ensure_running()  # otherwise the server starts it, and that lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class KernelManager(AsyncKernelManager):
    """Jupyter's; its kernels can all be killed at once."""

    made: ClassVar[weakref.WeakSet[KernelManager]] = weakref.WeakSet()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.made.add(self)

    @classmethod
    def kill_all(cls) -> None:
        """End all kernels that run."""
        for manager in list(cls.made):
            process = getattr(manager.provisioner, "process", None)
            if process is not None:
                process.kill()


class ForkedKernelManager(KernelManager):
    """Has its kernel forked from the server."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kernel_id = str(uuid.uuid4())
        self.provisioner = _Forked(
            kernel_id=self.kernel_id, kernel_spec=self.kernel_spec, parent=self
        )


class _Forked(LocalProvisioner):
    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        context = multiprocessing.get_context("forkserver")
        manager: Any = self.parent
        process = context.Process(
            target=_kernel, args=(manager.connection_file, kwargs["env"], kwargs["cwd"])
        )
        process.start()
        self.process: Any = _Process(process)
        self.pid = self.pgid = process.pid
        return self.connection_info


class _Process:
    """The part of ``subprocess.Popen`` that Jupyter uses, for a forked process."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self._process, self.pid = process, process.pid
        self.terminate, self.kill = process.terminate, process.kill

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int | None:
        self._process.join()
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)


def _kernel(connection_file: str, environment: Mapping[str, str], folder: str) -> None:
    """What ``python -m ipykernel_launcher -f connection_file`` does, in this process."""
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()  # as a started kernel: the terminal's interrupt is for the one who waits
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.chdir(folder)
    asyncio.set_event_loop(asyncio.new_event_loop())
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_follow, daemon=True).start()
    IPKernelApp.launch_instance(["-f", connection_file, QUIET])


def _follow() -> None:
    """End this process when the one that asked for it has ended, however it did."""
    parent = multiprocessing.parent_process()
    connection.wait([parent.sentinel] if parent else [])
    os._exit(1)
