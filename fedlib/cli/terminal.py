"""What the commands share: values from words, and printing for people and programs."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import typer

from fedlib.errors import Error


def parse_value(text: str) -> Any:
    """A number, true, false, none, a JSON list, or else the text itself.

    >>> [parse_value(text) for text in ("1", "1e-3", "true", "None", "[1, 2]", "sgdm")]
    [1, 0.001, True, None, [1, 2], 'sgdm']
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for convert in (int, float, json.loads):
        try:
            return convert(text)
        except (ValueError, RecursionError):  # json: brackets nested by the thousand
            continue
    return text


def parse_pairs(
    pairs: list[str] | None, option: str, parse: Callable[[str], Any] = parse_value
) -> dict[str, Any]:
    """``["client_lr=0.03"]`` -> ``{"client_lr": 0.03}``.

    Args:
        parse: makes a value of its text.

    Raises:
        Error: not KEY=VALUE, or a key twice.
    """
    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise Error(f"{option} {pair!r} is not KEY=VALUE; for instance {option} client_lr=0.03")
        if key.strip() in values:
            raise Error(f"{option} {key.strip()} is given twice; give it once")
        values[key.strip()] = parse(value.strip())
    return values


def parse_axes(axes: list[str], fixed: Collection[str], names: Collection[str]) -> dict[str, Any]:
    """``["client_lr=0.01,0.1"]`` -> ``{"client_lr": [0.01, 0.1]}``.

    Args:
        fixed: keys that have one value already.
        names: of the settings that are no hyperparameters.

    Raises:
        Error: not KEY=V1,V2,..., a key twice or among the fixed ones, or a setting.
    """
    values: dict[str, Any] = {}
    for axis in axes:
        key, sign, listed = axis.partition("=")
        if not sign or not key or not listed:
            raise Error(f"axis {axis!r} is not KEY=V1,V2,...; for instance client_lr=0.01,0.1")
        if key in values or key in fixed:
            other = "axis" if key in values else "--set"
            raise Error(f"axis {key} is given twice, the other time as {other}; give it once")
        if key in names:
            raise Error(f"axis {key} is no hyperparameter; a grid has one {key} for all its runs")
        values[key] = [parse_value(value) for value in listed.split(",")]
    return values


def show(value: Any, as_json: bool, text: str) -> None:
    """Print a value for programs or its text for people."""
    typer.echo(json.dumps(_plain(value), indent=2, default=str) if as_json else text)


def _plain(value: Any) -> Any:
    """A value as JSON can have it: numbers that are not finite become null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Damage(logging.Handler):
    """Collects the damaged runs that are logged and left out inside: message by place."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.places: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        place = next((a.place for a in record.args or () if hasattr(a, "place")), None)
        if place is not None:
            self.places[place] = record.getMessage()

    def __enter__(self) -> Damage:
        logging.getLogger("fedlib").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("fedlib").removeHandler(self)

    def tell(self) -> None:
        """If there were any, how many and where, in a line; then the exit status is 1."""
        if self.places:
            many = f"{len(self.places)} damaged files of runs were left out: "
            typer.echo("fedlib: " + many + "; ".join(self.places), err=True)
            raise typer.Exit(1)


def columns(rows: list[tuple[Any, ...]]) -> str:
    """Rows as aligned columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells
    )


def progress(as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def store_root(data_root: Path | None) -> Path:
    from fedlib.paths import data_root as resolve

    return resolve(data_root) / "runs"
