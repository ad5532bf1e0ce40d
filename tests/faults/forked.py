"""Commands in processes of their own that are forked with PyTorch and fedlib imported."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedlib.reproduction import kernels

SECONDS = 300  # more than any of these commands needs, on a busy machine


@dataclass(frozen=True)
class Ended:
    """What became of a command.

    Attributes:
        status: its exit status; that of a killed one is negative.
        output: standard output and standard error.
        moments: how often it touched files under the watched folder (-1 when it was killed).
    """

    status: int
    output: str
    moments: int


def fedlib(
    words: Sequence[str],
    environment: Mapping[str, str],
    watched: Path,
    *,
    moment: int = 0,
    seconds: float | None = None,
) -> Ended:
    """The command line; it leaves a checkpoint after every round.

    Args:
        watched: the folder whose file operations count.
        moment: kill -9 before it touches a file there for so-many-th time; 0 never.
        seconds: kill -9 after so long.
    """
    report = watched.with_name(f"{watched.name}.report")
    counted = watched.with_name(f"{watched.name}.moments")
    counted.unlink(missing_ok=True)
    with kernels.environment({"OMP_NUM_THREADS": "1"}):
        kernels.start_server()
    process = multiprocessing.get_context("forkserver").Process(
        target=_command, args=(list(words), dict(environment), watched, moment, report, counted)
    )
    process.start()
    process.join(SECONDS if seconds is None else seconds)
    if process.exitcode is None:
        process.kill()
        process.join()
        if seconds is None:
            raise TimeoutError(f"fedlib {' '.join(words)} took more than {SECONDS} s")
    moments = int(counted.read_text()) if counted.exists() else -1
    output = report.read_text() if report.exists() else ""
    return Ended(int(process.exitcode or 0), output, moments)


def _command(
    words: list[str],
    environment: dict[str, str],
    watched: Path,
    moment: int,
    report: Path,
    counted: Path,
) -> None:
    from fedlib import cli
    from fedlib.engine import checkpoint

    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the server blocks it
    os.environ.update(environment)
    with open(report, "wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    checkpoint.SECONDS = 0.0
    root, seen = str(watched), 0

    def touch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event.split(".")[0] in ("open", "os", "shutil") and any(
            isinstance(argument, (str, bytes, os.PathLike))
            and os.fsdecode(argument).startswith(root + os.sep)
            for argument in arguments
        ):
            seen += 1
            if seen == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(touch)
    sys.argv = ["fedlib", *words]
    status = 70
    try:
        cli.main()
    except SystemExit as stop:
        status = int(stop.code or 0)
    except BaseException:
        traceback.print_exc()
    counted.write_text(str(seen))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
