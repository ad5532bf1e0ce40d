"""The ``fedlib`` command.

Exit status 0: done; 1: it failed, or damaged runs were left out; 2: a mistake in what was asked;
each told in one line. 75: the time that was given is over. 130 and 143: interrupted and terminated.
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
    """SIGTERM. No ``except Exception`` on the way may take it for a failure."""


def main() -> NoReturn:
    """Entry point of the ``fedlib`` command."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        status = _status()
        try:
            print(end="", flush=True)
        except OSError as problem:  # a full disk behind a redirection, or nobody reads any more
            status = status or _fail(f"cannot print: {problem.strerror}", 1)
            with suppress(OSError, ValueError):  # else Python tries again at its end, and says so
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.exit(status)


def _terminate(number: int, frame: FrameType | None) -> None:
    """SIGTERM where nothing can be saved. A run with a checkpoint has its own handler."""
    raise Terminated


def _status() -> int:
    """Run the command. Its exit status, after the line that tells what went wrong."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.ERROR)
    for name in ("fedlib.unstored", "fedlib.plainly"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        os.getcwd()
    except FileNotFoundError:  # without it PyTorch cannot even be imported
        return _fail("the current folder has been deleted; change to another one", 2)
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
        # A run that could save its state says where; the same command continues it.
        stop = told.__cause__
        status = getattr(stop, "status", 130)
        more = "; the same command goes on" if type(stop).__name__ == "Paused" else ""
        return _fail(f"{stop}{more}" if str(stop) else "interrupted", status)
    except BrokenPipeError:  # whoever read the output has read enough
        return 1
    except OSError as problem:
        place = f"{problem.filename}: " if problem.filename else ""
        return _fail(f"{place}{problem.strerror or problem}", 1)
    except MemoryError as problem:
        return _fail(f"out of memory: {problem}; give smaller numbers", 1)
    except Exception as problem:
        from fedlib.arguments import own_line

        place = own_line(problem)
        if not place:  # a mistake of fedlib's
            raise
        return _fail(f"{type(problem).__name__}: {first_line(problem)}{place}", 2)


def _fail(message: str, status: int) -> int:
    line = " ".join(message.split()).encode(errors="backslashreplace").decode()
    with suppress(OSError):  # of a full disk behind a redirection nobody can be told
        print(f"fedlib: {line}", file=sys.stderr, flush=True)
    return status
