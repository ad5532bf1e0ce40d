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
    with _signals() as handlers:
        status = _status(handlers)
        try:
            sys.stdout.flush()
        except OSError as problem:  # a full disk behind a redirection
            status = _fail(f"cannot print: {problem.strerror}", status or 1)
            _unflushed()
    sys.exit(status)


def _status(handlers: dict[signal.Signals, Any]) -> int:
    """Run the command; its exit status, after the line that tells what went wrong.

    Args:
        handlers: of signals, as soon as all is imported.
    """
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.ERROR)
    logging.getLogger("fedlib.unstored").setLevel(logging.WARNING)
    usage: type[Exception] | tuple[()] = ()
    interrupted: tuple[type[BaseException], ...] = (KeyboardInterrupt,)
    try:
        # Nothing that takes long is imported before the signals are handled.
        from fedlib.cli.app import Interrupted, UsageError, app

        usage, interrupted = UsageError, (KeyboardInterrupt, Interrupted)
        return app(standalone_mode=False, obj=handlers) or 0
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

    Gives the handlers for the time when all is imported: until then a signal ends the process, as
    an exception in the midst of PyTorch's import would be told at length, or abort it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    later: dict[signal.Signals, Any] = {signal.SIGTERM: _terminate}
    # Not where interrupts are ignored, or another program has its own way with them.
    if before[signal.SIGINT] is signal.default_int_handler:
        later[signal.SIGINT] = signal.default_int_handler
    begun = "torch" in sys.modules
    for number, handler in later.items():
        signal.signal(number, handler if begun else _end)
    try:
        yield later
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    """An interrupt or SIGTERM when nothing has been begun."""
    interrupted = number == signal.SIGINT
    os.write(2, b"fedlib: interrupted\n" if interrupted else b"fedlib: terminated\n")
    os._exit(128 + number)


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
