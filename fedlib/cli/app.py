"""The commands together."""

from __future__ import annotations

import signal
from typing import Any

import typer
import typer.core

from fedlib.cli import data, doctor, reports, runs, sweep


class Interrupted(Exception):
    """Ctrl-C, with what there is to say about it."""


class _Group(typer.core.TyperGroup):
    """Typer ends silently on Ctrl-C; here it reaches :func:`fedlib.cli.main`, with its message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            raise Interrupted(str(stop) or "interrupted") from None


class _Command(typer.core.TyperCommand):
    """A command whose words are understood: only then what takes seconds is imported."""

    def invoke(self, ctx: Any) -> Any:
        import fedlib.engine  # noqa: F401

        # What is half-imported cannot be interrupted in order; what runs can.
        for number, handler in (ctx.obj or {}).items():
            signal.signal(number, handler)
        return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    help="Federated optimization in PyTorch, and four papers reproduced with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command("list", cls=_Command)(reports.list_)
app.add_typer(data.app, name="data")
for registered in data.app.registered_commands:
    registered.cls = _Command
for command in (
    *(runs.run, runs.grid, sweep.sweep, sweep.publish, sweep.restore),
    *(reports.reproduce, reports.figures, reports.compare, reports.claims),
    doctor.doctor,
):
    app.command(cls=_Command)(command)

# Typer exports only the leaves of its error classes; every usage error derives from this one.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]
