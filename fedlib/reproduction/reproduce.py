"""Run the notebooks headlessly with papermill."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from fedlib import files, plans
from fedlib.errors import require_known, unknown
from fedlib.paths import data_root, folder, notebook_figures, project_root
from fedlib.plans import parameters
from fedlib.reproduction import kernels
from fedlib.tasks.presets import require_preset

# Notebooks from this number on read what those with a plan have made, and run after them.
LATE = 90
# A cell that trains longer than this is stuck; papermill itself has no limit.
CELL_SECONDS = 6 * 3600
# How Jupyter's client says that a kernel ended before it could be talked to.
NOT_STARTED = "Kernel died before replying"


@dataclass(frozen=True)
class Executed:
    """One notebook's executed copy, seconds, and the error in one line if it failed."""

    name: str
    output: Path
    seconds: float
    error: str | None = None


def notebooks(names: Sequence[str] = ()) -> list[Path]:
    """The notebooks of these names, or all, in order; see :func:`named`.

    Raises:
        Error: an unknown name, or no notebooks here: they belong to a checkout, not to the
            installed package.
    """
    known = plans.notebooks()
    return [known[name] for name in sorted(named(names, known))]


def named(names: Sequence[str], known: Iterable[str], kind: str = "notebook") -> list[str]:
    """The known notebooks that names mean, each once; all without names.

    Args:
        names: ``10_cifar10``, ``10`` or a file name.
        kind: what the known ones are, for the message.

    Raises:
        Error: a name that means none of them.

    Example:
        >>> named(["notebooks/10_cifar10.ipynb", "02"], ["02_theory", "10_cifar10", "11_cifar100"])
        ['10_cifar10', '02_theory']
    """
    known = list(known)
    chosen: list[str] = [] if names else known
    for name in names:
        stem = Path(name).stem
        meant = [notebook for notebook in known if stem in (notebook, notebook.split("_")[0])]
        if not meant:
            raise unknown(kind, name, known)
        chosen += meant
    return list(dict.fromkeys(chosen))


def check_parameters(known: Iterable[Path], given: Iterable[str]) -> None:
    """Refuse a parameter that none of some notebooks has, which papermill itself only logs."""
    notebooks = list(known)
    everywhere = {name for notebook in notebooks for name in parameters(notebook)}
    for name in given:
        whose = "any of these notebooks" if len(notebooks) > 1 else notebooks[0].stem
        require_known(f"parameter of {whose}", name, everywhere)


def reproduce(
    names: Sequence[str] = (),
    preset: str = "quick",
    given: Mapping[str, Any] | None = None,
    output: Path | None = None,
    *,
    jobs: int = 1,
) -> Iterator[Executed]:
    """Execute notebooks, their parameters' names checked before; yields them as they were begun.

    Args:
        names: which; default all.
        preset: ``"quick"``, ``"laptop"`` or ``"paper"``: which of their plans' numbers.
        given: parameters in their place, in the notebooks that have them.
        output: folder of the executed copies; default ``build/executed``.
        jobs: how many run at once, each on one thread if they are several. Those with a plan come
            first, then those that read what these have made (from number 90), then the others.
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
    files.require_writable(notebook_figures(preset), "FEDLIB_FIGURES")
    makers = set(plans.planned())
    early = [task for task in work if task[0].stem in makers]
    # First those that read, of which 90 takes longest: work that waits for nothing goes beside it.
    late = sorted(
        (task for task in work if task not in early),
        key=lambda task: int(task[0].stem.split("_")[0]) < LATE,
    )
    forked = kernels.CAN_FORK and jobs > 1
    manager = kernels.ForkedKernelManager if forked else kernels.KernelManager
    execute = partial(_execute, manager=manager, stopped=(stopped := threading.Event()))
    # A thread only waits for its notebook's kernel.
    pool = ThreadPoolExecutor(min(jobs, len(work)))
    futures: list[Future[Executed]] = []
    # What fails is told by the series, a line a notebook.
    logging.getLogger("papermill").setLevel(logging.CRITICAL)
    variables = {"FEDLIB_PRESET": preset, **({"OMP_NUM_THREADS": "1"} if jobs > 1 else {})}
    # An executed copy has a progress bar's start and end, not its every step.
    variables["TQDM_MININTERVAL"] = "3600"
    for name in ("FEDLIB_DATA", "FEDLIB_FIGURES"):
        if given_folder := os.environ.get(name):  # from here, not from a kernel's working directory
            variables[name] = str(folder(given_folder).absolute())
    with patch.dict(os.environ, variables):
        if forked:
            kernels.start_server()
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
                kernels.KernelManager.kill_all()


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
        # Again, if a kernel ended before the first cell: Jupyter chooses a kernel's ports before
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
                    extra_arguments=[kernels.QUIET],
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
