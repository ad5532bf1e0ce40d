"""Run the notebooks headlessly with papermill."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection, forkserver, resource_tracker
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

from fedlib import files, plans
from fedlib.errors import Error
from fedlib.paths import data_root, folder, preset_figures, project_root
from fedlib.plans import check_parameters, named, parameters
from fedlib.tasks.presets import require_preset

try:
    from jupyter_client.connect import KernelConnectionInfo
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_client.provisioning import LocalProvisioner
except ImportError:
    raise Error("notebooks need Jupyter: in a checkout, pip install '.[notebooks]'") from None

# Notebooks from this number on read the others' results, and run after them.
LATE = 90
# A cell that trains longer than this is stuck. papermill itself has no limit.
CELL_SECONDS = 6 * 3600
# The message of Jupyter's client if a kernel ended before the connection.
NOT_STARTED = "Kernel died before replying"


@dataclass(frozen=True)
class Executed:
    """One notebook's executed copy, seconds, and the error in one line if it failed."""

    name: str
    output: Path
    seconds: float
    error: str | None = None


def notebooks(names: Sequence[str] = ()) -> list[Path]:
    """The notebooks of these names, or all, in order. See :func:`named`.

    Raises:
        Error: an unknown name, or no notebooks, as they belong to a checkout and not to the
            installed package.
    """
    known = plans.notebooks()
    return [known[name] for name in sorted(named(names, known))]


def reproduce(
    names: Sequence[str] = (),
    preset: str = "quick",
    given: Mapping[str, Any] | None = None,
    output: Path | None = None,
    *,
    jobs: int = 1,
) -> Iterator[Executed]:
    """Execute notebooks, after checking their parameters' names. Yields them in starting order.

    Args:
        names: names of notebooks. Default: all.
        preset: ``"quick"``, ``"laptop"`` or ``"paper"``, which sets their plans' numbers.
        given: parameters that replace these, in the notebooks that have them.
        output: folder of the executed copies. Default: ``build/executed``.
        jobs: number of notebooks at once, each on one thread if there are several. Those that train
            most come first, so that no long one is left alone at the end. Those that read the
            others' results (from number 90) start when all others have ended.
    """
    require_preset(preset)
    output = output or project_root() / "build" / "executed"
    given, chosen = given or {}, notebooks(names)
    check_parameters(chosen, given)
    work = []
    for notebook in chosen:
        names_here = parameters(notebook)
        values = {"preset": preset, **{name: given[name] for name in given if name in names_here}}
        work.append((notebook, output / notebook.name, values))
    files.require_writable(output, "--output")
    files.require_writable(data_root() / "runs")
    files.require_writable(preset_figures(preset), "FEDLIB_FIGURES")
    late = [task for task in work if int(task[0].stem.split("_")[0]) >= LATE]
    early = [task for task in work if task not in late]
    if jobs > 1:
        rounds = _rounds({notebook.stem: values for notebook, _, values in early})
        early.sort(key=lambda task: -rounds.get(task[0].stem, 0))
    forked = CAN_FORK and jobs > 1
    manager = ForkedKernelManager if forked else KernelManager
    execute = partial(_execute, manager=manager, stopped=(stopped := threading.Event()))
    # A thread only waits for its notebook's kernel.
    pool = ThreadPoolExecutor(min(jobs, len(work)))
    futures: list[Future[Executed]] = []
    # The series reports failures, one line per notebook.
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    variables = {"FEDLIB_PRESET": preset, **({"OMP_NUM_THREADS": "1"} if jobs > 1 else {})}
    # An executed copy has the start and end of a progress bar, not its every step.
    variables["TQDM_MININTERVAL"] = "3600"
    for name in ("FEDLIB_DATA", "FEDLIB_FIGURES"):
        if given_folder := os.environ.get(name):  # relative to here, not to a kernel's folder
            variables[name] = str(folder(given_folder).absolute())
    with patch.dict(os.environ, variables):
        if forked:
            start_server()
        try:
            for group in (early, late):
                futures = [pool.submit(execute, *task) for task in group]
                for future in futures:
                    yield future.result()
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            begun = [future for future in futures if not future.cancelled()]
            while wait(begun, timeout=0.2).not_done:
                KernelManager.kill_all()


def _rounds(values: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """The rounds that each notebook's plan trains, without runs of notebooks before it.

    Args:
        values: the parameters of notebooks, by name.
    """
    seen: set[str] = set()
    rounds = {}
    for name in [name for name in plans.planned() if name in values]:
        asked = {str(replace(run, part="")): run for run in plans.requests(name, **values[name])}
        rounds[name] = sum(run.rounds or 0 for key, run in asked.items() if key not in seen)
        seen |= asked.keys()
    return rounds


def _execute(
    notebook: Path,
    target: Path,
    values: Mapping[str, Any],
    manager: type[Any],
    stopped: threading.Event,
) -> Executed:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    started, error = time.perf_counter(), None
    with files.replacing(target) as aside:
        # Try again if a kernel ended before the first cell. Jupyter chooses a kernel's ports before
        # the kernel opens them, and another program may open one of them in between.
        for _ in range(3):
            try:
                papermill.execute_notebook(
                    str(notebook),
                    str(aside),
                    parameters=dict(values),
                    kernel_name="python3",
                    progress_bar=False,
                    execution_timeout=CELL_SECONDS,
                    extra_arguments=[QUIET],
                    kernel_manager_class=manager,
                    resources={"metadata": {"path": str(notebook.parent)}},
                )
                error = None
            except PapermillExecutionError as failure:
                error = f"{failure.ename}: {failure.evalue}".strip().splitlines()[0]
            except RuntimeError as problem:
                died = isinstance(problem, DeadKernelError)
                if stopped.is_set() or not (died or NOT_STARTED in str(problem)):
                    raise
                error = "its kernel died; if memory was short, run fewer notebooks at once"
                if not died:
                    continue
            break
    return Executed(notebook.stem, target, time.perf_counter() - started, error)


# ---------------------------------------------------------------------------------------- kernels
# Importing PyTorch and fedlib takes longer than all else in most notebooks, so the kernels of
# several are forked from a server that has imported them. A forked kernel is as fresh as a started
# one: it shares imported modules, no variables, and ends with its notebook.

# On other systems libraries start threads of their own, and a fork may hang.
CAN_FORK = sys.platform == "linux"
# The modules that kernels find imported. fedlib.notebook imports the rest.
WARM = [
    "fedlib.notebook",
    "ipykernel.kernelapp",
    "matplotlib.backends.backend_pdf",
    "sklearn.datasets",  # for a stand-in
]
# Arguments of a kernel: the notebook reports failures, and the sockets are this machine's.
QUIET = f"--IPKernelApp.log_level={logging.CRITICAL}"


def start_server() -> None:
    """Start the server that kernels are forked from, with this environment, ignoring interrupts."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(WARM)
    resource_tracker.ensure_running()  # otherwise the server starts it, and that lifts the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class KernelManager(AsyncKernelManager):
    """Jupyter's kernel manager. All of its kernels can be killed at once."""

    managers: ClassVar[weakref.WeakSet[KernelManager]] = weakref.WeakSet()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.managers.add(self)

    @classmethod
    def kill_all(cls) -> None:
        """End all kernels that run."""
        for manager in list(cls.managers):
            process = getattr(manager.provisioner, "process", None)
            if process is not None:
                process.kill()


class ForkedKernelManager(KernelManager):
    """A manager whose kernels are forked from the server."""

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
    """Do the same as ``python -m ipykernel_launcher -f connection_file``, in this process."""
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()  # as for a started kernel: the terminal's interrupt is for the waiting process
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.chdir(folder)
    asyncio.set_event_loop(asyncio.new_event_loop())
    os.environ.clear()
    os.environ.update(environment)
    threading.Thread(target=_follow, daemon=True).start()
    IPKernelApp.launch_instance(["-f", connection_file, QUIET])


def _follow() -> None:
    """End this process when its parent has ended, for whatever reason."""
    parent = multiprocessing.parent_process()
    connection.wait([parent.sentinel] if parent else [])
    os._exit(1)
