"""Run the notebooks headlessly with papermill."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from fedlib.errors import Error, require, unknown
from fedlib.paths import project_root
from fedlib.reproduction import kernels
from fedlib.reproduction.experiments import quick

# Notebooks from this number on read what the others have made, and run after them.
LATE = 90
# A cell that trains longer than this is stuck; papermill itself has no limit.
CELL_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Executed:
    """One notebook's executed copy, seconds, and the error in one line if it failed."""

    name: str
    output: Path
    seconds: float
    error: str | None = None


def notebooks_folder() -> Path:
    """The folder of the notebook series.

    Raises:
        Error: there is none; the notebooks belong to a checkout, not to the installed package.
    """
    folder = project_root() / "notebooks"
    if not folder.is_dir():
        raise Error(f"no notebooks in {folder}; run this in a checkout of fedlib")
    return folder


def notebooks(names: Sequence[str] = ()) -> list[Path]:
    """The notebooks of these names (``10_cifar10``, ``10`` or a file name), or all, in order."""
    every = {path.stem: path for path in sorted(notebooks_folder().glob("[0-9][0-9]_*.ipynb"))}
    chosen = []
    for name in names:
        stem = Path(name).stem
        matches = [one for one in every if one == stem or one.split("_")[0] == stem]
        if not matches:
            raise unknown("notebook", name, every)
        chosen += matches
    return [every[stem] for stem in (sorted(set(chosen)) if names else every)]


def parameters(notebook: Path) -> dict[str, Any]:
    """The names and default values in a notebook's cell tagged ``parameters``: flat literals.

    Raises:
        Error: no such cell, or a line in it that is not ``name = literal``.
    """
    import ast

    for cell in nbformat.read(notebook, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            values = {}
            for statement in ast.parse(cell.source).body:
                try:
                    assert isinstance(statement, ast.Assign)
                    assert isinstance(statement.targets[0], ast.Name)
                    values[statement.targets[0].id] = ast.literal_eval(statement.value)
                except (AssertionError, ValueError):
                    raise Error(
                        f"{notebook.name}: line {statement.lineno} of the parameters cell is not "
                        "'name = literal'"
                    ) from None
            return values
    raise Error(f"{notebook.name}: no cell is tagged 'parameters'")


def check_parameters(notebook: Path, given: Mapping[str, Any]) -> None:
    """Refuse a parameter that the notebook does not have; papermill itself only logs it."""
    own = parameters(notebook)
    for name in given:
        if name not in own:
            raise unknown(f"parameter of {notebook.stem}", name, own)


def reproduce(
    names: Sequence[str] = (),
    *,
    preset: str = "quick",
    given: Mapping[str, Any] | None = None,
    output: Path | None = None,
    log: bool = False,
    jobs: int = 1,
) -> Iterator[Executed]:
    """Execute notebooks, all parameters checked before the first starts; yields them in order.

    Args:
        names: which; default all.
        preset: ``"quick"`` adds the notebooks' small numbers; ``"paper"`` runs at the papers'
            settings.
        given: parameters that override both.
        output: folder of the executed copies; default ``build/executed``.
        log: pass the notebooks' output on.
        jobs: how many run at once, each on one thread if they are several. Those that read what
            others have made (from number 90) run after the others.
    """
    require(isinstance(jobs, int) and jobs >= 1, "jobs", jobs, "a whole number >= 1")
    chosen = notebooks(names)
    output = output or project_root() / "build" / "executed"
    work = []
    for notebook in chosen:
        small = quick(notebook.stem) if preset == "quick" else {}
        values = {**small, "preset": preset, **(given or {})}
        check_parameters(notebook, values)
        work.append((notebook, output / notebook.name, values, log))
    output.mkdir(parents=True, exist_ok=True)
    if jobs == 1:
        for one in work:
            yield _execute(*one, None)
        return
    late = [one for one in work if int(one[0].stem.split("_")[0]) >= LATE]
    context = kernels.processes()
    manager = kernels.ForkedKernelManager if kernels.CAN_FORK else None
    pool = ThreadPoolExecutor(jobs)  # a thread only waits for a notebook's own process
    running: set[Any] = set()
    stopped = threading.Event()

    def submit(one: tuple[Any, ...]) -> Future[Executed]:
        return pool.submit(_in_own_process, context, running, stopped, *one, manager)

    try:
        for group in ([one for one in work if one not in late], late):
            for future in [submit(one) for one in group]:
                yield future.result()
    finally:
        stopped.set()
        for process in running.copy():
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _in_own_process(
    context: Any, running: set[Any], stopped: threading.Event, notebook: Path, *rest: Any
) -> Executed:
    receive, send = context.Pipe(duplex=False)
    environment = {**os.environ, **kernels.ONE_THREAD}
    process = context.Process(target=_send, args=(send, environment, notebook, *rest))
    process.start()
    running.add(process)
    if stopped.is_set():
        process.terminate()
    send.close()
    try:
        result = receive.recv()
    except EOFError:
        result = None
    process.join()
    running.remove(process)
    if result is None:
        raise Error(
            f"{notebook.stem}: its process ended with exit status {process.exitcode}; run again, "
            "with fewer jobs if memory is short"
        )
    if isinstance(result, Exception):
        raise result
    return result  # type: ignore[no-any-return]


def _send(send: Any, environment: Mapping[str, str], *work: Any) -> None:
    """In the notebook's process: execute it and send what became of it."""
    kernels.interruptible()
    os.environ.clear()
    os.environ.update(environment)
    try:
        send.send(_execute(*work))
    except KeyboardInterrupt:
        pass  # the one who waits has been interrupted too
    except Exception as problem:
        send.send(problem)


def _execute(
    notebook: Path,
    target: Path,
    values: Mapping[str, Any],
    log: bool,
    manager: type[kernels.ForkedKernelManager] | None,
) -> Executed:
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    started, error = time.perf_counter(), None
    try:
        with kernels.environment({"FEDLIB_PRESET": str(values["preset"])}):
            papermill.execute_notebook(
                str(notebook),
                str(target),
                parameters=dict(values),
                kernel_name="python3",
                cwd=str(notebook.parent),
                progress_bar=False,
                log_output=log,
                execution_timeout=CELL_SECONDS,
                **({} if manager is None else {"kernel_manager_class": manager}),
            )
    except PapermillExecutionError as failure:
        error = f"{failure.ename}: {failure.evalue}".strip().splitlines()[0]
    except DeadKernelError:
        error = "its kernel died; if memory was short, run fewer notebooks at once"
    return Executed(notebook.stem, target, time.perf_counter() - started, error)
