"""The ``fedlib`` command.

Exit status 0: done. 1: it failed, or damaged runs were left out. 2: a mistake in the command. All
are explained in one line. 75: the time is over. 130 and 143: interrupted and terminated.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import NoReturn

from fedlib.errors import Error, Failure, first_line


class Terminated(BaseException):
    """SIGTERM. It is not an Exception, so that no ``except Exception`` catches it as a failure."""


def main() -> NoReturn:
    """Entry point of the ``fedlib`` command."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        status = _status()
        try:
            print(end="", flush=True)
        except OSError as problem:  # a full disk behind a redirection, or a closed pipe
            status = status or _fail(f"cannot print: {problem.strerror}", 1)
            with suppress(OSError, ValueError):  # or Python tries again at its end, and complains
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    """SIGTERM if nothing can be saved. A run with a checkpoint has its own handler."""
    raise Terminated


def _status() -> int:
    """Run the command. Returns its exit status, after printing any error in one line."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.ERROR)
    for name in ("fedlib.unstored", "fedlib.plainly"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        os.getcwd()
    except FileNotFoundError:  # PyTorch cannot even be imported then
        return _fail("the current folder has been deleted: change to another one", 2)
    from fedlib.cli.commands import Interrupted, UsageError, app

    try:
        return app(standalone_mode=False) or 0
    except Error as error:
        return _fail(str(error), 1 if isinstance(error, Failure) else 2)
    except UsageError as error:
        message = error.format_message()
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
            return 0
        return _fail(f"{message} Try --help.", 2)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except Terminated:
        return _fail("terminated", 143)
    except Interrupted as told:
        # A run that could save its state says where. The same command continues it.
        stop = told.__cause__
        status = getattr(stop, "status", 130)
        more = ". The same command continues" if type(stop).__name__ == "Paused" else ""
        return _fail(f"{stop}{more}" if str(stop) else "interrupted", status)
    except BrokenPipeError:  # the reader of the output has closed it
        return 1
    except OSError as problem:
        place = f"{problem.filename}: " if problem.filename else ""
        return _fail(f"{place}{problem.strerror or problem}", 1)
    except MemoryError as problem:
        return _fail(f"out of memory: {problem}. Give smaller numbers", 1)
    except Exception as problem:
        from fedlib.arguments import own_line

        place = own_line(problem)
        if not place:  # an error in fedlib itself
            raise
        return _fail(f"{type(problem).__name__}: {first_line(problem)}{place}", 2)


def _fail(message: str, status: int) -> int:
    line = " ".join(message.split()).encode(errors="backslashreplace").decode()
    with suppress(OSError):  # with a full disk behind a redirection no message is possible
        print(f"fedlib: {line}", file=sys.stderr, flush=True)
    return status
