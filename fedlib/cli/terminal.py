"""What the commands share: values from words, and printing for people and programs."""

from __future__ import annotations

import json
import sys
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
        except ValueError:
            continue
    return text


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """``["client_lr=0.03"]`` -> ``{"client_lr": 0.03}``."""
    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise Error(f"{option} {pair!r} is not KEY=VALUE; for instance {option} client_lr=0.03")
        values[key.strip()] = parse_value(value.strip())
    return values


def show(value: Any, as_json: bool, text: str) -> None:
    """Print a value for programs or its text for people."""
    typer.echo(json.dumps(value, indent=2, default=str) if as_json else text)


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
