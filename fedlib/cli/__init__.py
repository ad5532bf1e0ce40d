"""The ``fedlib`` command.

Exit status 0: done; 1: it failed, or damaged runs were left out; 2: a mistake in what was asked;
each told in one line.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import Any, NoReturn

import typer
import typer.core

from fedlib.cli import data, doctor, reports, runs, sweep
from fedlib.errors import Error, Failure


class _Interrupted(Exception):
    """Ctrl-C, with what there is to say about it."""


class _Terminated(BaseException):
    """SIGTERM; no ``except Exception`` on the way may take it for a failure."""


class _Group(typer.core.TyperGroup):
    """Typer ends silently on Ctrl-C; here it reaches :func:`main`, with its message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise _Interrupted(str(stop) or "interrupted") from None


app = typer.Typer(
    cls=_Group,
    help="Federated optimization in PyTorch, and four papers reproduced with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("list")(reports.list_)
app.add_typer(data.app, name="data")
for command in (
    *(runs.run, runs.grid, sweep.sweep, sweep.publish),
    *(reports.reproduce, reports.figures, reports.compare, reports.bench, doctor.doctor),
):
    app.command()(command)

# Typer exports only the leaves of its error classes; every usage error derives from this one.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def main() -> NoReturn:
    """Entry point of the ``fedlib`` command."""
    import logging

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.ERROR)
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        status = app(standalone_mode=False)
    except Failure as error:
        status = _fail(str(error), 1)
    except Error as error:
        status = _fail(str(error), 2)
    except _UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message)
            status = 0
        else:
            status = _fail(f"{message} Try --help.", 2)
    except (KeyboardInterrupt, _Interrupted, typer.Abort) as stop:
        # A run that could save its state says where; the same command continues it.
        status = _fail(str(stop) or "interrupted", 130)
    except _Terminated:
        status = _fail("terminated", 143)
    finally:
        signal.signal(signal.SIGTERM, before)
    sys.exit(status or 0)


def _terminate(number: int, frame: FrameType | None) -> None:
    """SIGTERM where nothing can be saved; a run with a checkpoint has its own handler."""
    raise _Terminated


def _fail(message: str, status: int) -> int:
    typer.echo("fedlib: " + " ".join(message.split()), err=True)
    return status
