"""The ``fedlib`` command.

Exit status 0: done; 1: it failed, or damaged runs were left out; 2: a mistake in what was asked;
each told in one line. 130 and 143: interrupted and terminated.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

from fedlib.errors import Error, Failure


class _Terminated(BaseException):
    """SIGTERM; no ``except Exception`` on the way may take it for a failure."""


def main() -> NoReturn:
    """Entry point of the ``fedlib`` command."""
    with _signals() as interrupt:
        status = _status(interrupt)
        try:
            sys.stdout.flush()
        except OSError as problem:  # a full disk behind a redirection
            status = _fail(f"cannot print: {problem.strerror}", status or 1)
            _unflushed()
    sys.exit(status)


def _status(interrupt: Any) -> int:
    """Run the command; its exit status, after the line that tells what went wrong."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.ERROR)
    usage: type[Exception] | tuple[()] = ()
    interrupted: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
    try:
        # Nothing that takes long is imported before the signals are handled.
        from fedlib.cli.app import Interrupted, UsageError, app

        usage, interrupted = UsageError, (KeyboardInterrupt, Interrupted)
        return app(standalone_mode=False, obj=interrupt) or 0
    except Failure as error:
        return _fail(str(error), 1)
    except Error as error:
        return _fail(str(error), 2)
    except usage as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":
            print(message)
            return 0
        return _fail(f"{message} Try --help.", 2)
    except interrupted as stop:
        # A run that could save its state says where; the same command continues it.
        return _fail(str(stop) or "interrupted", 130)
    except _Terminated:
        return _fail("terminated", 143)
    except BrokenPipeError:  # whoever read the output has read enough
        _unflushed()
        return 1
    except OSError as problem:
        place = f"{problem.filename}: " if problem.filename else ""
        return _fail(f"{place}{problem.strerror or problem}", 1)
    except MemoryError as problem:
        return _fail(f"out of memory: {problem}; give smaller numbers", 1)


@contextmanager
def _signals() -> Iterator[Any]:
    """Handlers for the time of a command, where signals can be handled.

    Gives what handles an interrupt as soon as all is imported: until then it ends the process, as
    an exception in the midst of PyTorch's import would be told at length.
    """
    if threading.current_thread() is not threading.main_thread():
        yield None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, _terminate)
    later = before[signal.SIGINT]
    # Not where interrupts are ignored, or another program has its own way with them.
    if later is signal.default_int_handler and "torch" not in sys.modules:
        signal.signal(signal.SIGINT, _end)
    else:
        later = None
    try:
        yield later
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """An interrupt when nothing has been begun."""
    os.write(2, b"fedlib: interrupted\n")
    os._exit(130)


def _terminate(number: int, frame: FrameType | None) -> None:
    """SIGTERM where nothing can be saved; a run with a checkpoint has its own handler."""
    raise _Terminated


def _unflushed() -> None:
    """Let the interpreter not try again, at its end, to print what cannot be printed."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(message: str, status: int) -> int:
    line = " ".join(message.split()).encode(errors="backslashreplace").decode()
    print(f"fedlib: {line}", file=sys.stderr)
    return status
