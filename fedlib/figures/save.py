"""Writing a figure: the picture, the numbers in it, and where they come from."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pandas as pd
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from fedlib import paths
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.tables import table

NOTE = "fedlib-note"
# Height of a line of the note, and how much fits into it.
STRIP_INCHES = 0.14
LETTERS_PER_INCH = 22
_saved: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()
# More tasks than these share one note where they can.
MANY_TASKS = 3


def save(
    figure: Figure | None,
    id: str,
    data: pd.DataFrame,
    *,
    caption: str,
    histories: Sequence[History],
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Write ``<figures>/<id>.png``, ``.pdf`` (for a table ``.html``), ``.csv`` and ``.json``.

    The same figure gives the same PNG, PDF and CSV bytes; a PDF that lies there and belongs to just
    this PNG, these numbers and these versions is kept. When a run used stand-in data or not the
    paper's settings, a note in the figure's corner says so.

    Args:
        figure: None for a table.
        id: ``<paper>/<name>``, for instance ``"fedopt/figure_1"``.
        data: what is drawn, one row per point or cell.
        caption: one or two sentences.
        histories: the runs it was made from; may be empty for a figure without any.
        root: of the figures; default ``FEDLIB_FIGURES``, else ``figures/``.

    Returns:
        the PNG, for a table the HTML.

    Raises:
        Error: an id that is not ``<paper>/<name>``, or no data.
    """
    if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+", id):
        raise Error(f"figure id is {id!r}; it is <paper>/<name>, for instance 'fedopt/figure_1'")
    if data.empty:
        raise Error(f"figure {id}: no data to draw; check the runs it is made from")
    about = provenance(histories)
    record = {
        "id": id,
        "caption": caption,
        **about,
        "versions": {name: version(name) for name in ("fedlib", "matplotlib", "pandas")},
        "created": _now(),
    }
    files: dict[str, bytes] = {}
    if figure is None:
        text = caption + (f" ({about['note']})" if about["note"] else "")
        files["html"] = table(data, caption=text).to_html(doctype_html=True).encode()
    target = paths.figures_root(root) / id
    files["csv"] = data.to_csv(index=False, lineterminator="\n").encode()
    if figure is not None:
        files["png"] = _saved[figure] = render(figure, about["note"])
        record["drawn"] = _fingerprint(files["png"], files["csv"], record["versions"])
        files["pdf"] = _same(target, record["drawn"]) or render(figure, about["note"], "pdf")
        record["pdf"] = hashlib.sha256(files["pdf"]).hexdigest()
        figure.stale = False  # saving sets and resets its dpi, which counts as a change
    files["json"] = (json.dumps(record, indent=2) + "\n").encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    for suffix, content in files.items():
        write(target.with_name(f"{target.name}.{suffix}"), content)
    return target.with_name(f"{target.name}.{'html' if figure is None else 'png'}")


def picture(figure: Figure) -> bytes | None:
    """The PNG that was saved of a figure; None if there is none or the figure changed since."""
    return None if figure.stale else _saved.get(figure)


def write(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def render(figure: Figure, note: str = "", kind: str = "png") -> bytes:
    """PNG or PDF of a figure, with ``note`` in the corner; equal figures give equal bytes."""
    mark(figure, note)
    metadata = {"png": {"Software": None}, "pdf": {"CreationDate": None}}[kind]
    buffer = io.BytesIO()
    with style.context():
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def _fingerprint(png: bytes, csv: bytes, versions: dict[str, str]) -> str:
    """Changes whenever the PDF does."""
    with style.context():
        options = rcParams.find_all(r"^pdf\.")  # a PNG does not show these
    parts = (png, csv, json.dumps([versions, dict(options)], sort_keys=True).encode())
    return hashlib.sha256(b"".join(parts)).hexdigest()


def _same(target: Path, drawn: str) -> bytes | None:
    """The PDF that lies there if it shows just this: embedding its fonts is the slowest part."""
    try:
        record = json.loads(target.with_name(f"{target.name}.json").read_text(encoding="utf-8"))
        pdf = target.with_name(f"{target.name}.pdf").read_bytes()
        sound = hashlib.sha256(pdf).hexdigest() == record["pdf"]
        return pdf if sound and record["drawn"] == drawn else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def mark(figure: Figure, note: str) -> None:
    """Put a note into the lower right corner, in place of an earlier one."""
    for old in [text for text in figure.texts if text.get_gid() == NOTE]:
        old.remove()
    if not note:
        return
    lines = textwrap.wrap(note, int(figure.get_figwidth() * LETTERS_PER_INCH))
    engine = figure.get_layout_engine()
    if isinstance(engine, ConstrainedLayoutEngine):
        strip = STRIP_INCHES * len(lines) / figure.get_figheight()
        engine.set(rect=(0, strip, 1, 1 - strip))
    text = figure.text(0.995, 0.005, "\n".join(lines), gid=NOTE, ha="right", va="bottom")
    text.set(fontsize=6, color="0.35", style="italic")


def provenance(histories: Sequence[History]) -> dict[str, Any]:
    """Of some runs: digests, tasks, presets, data, seeds, rounds, and the figure's note."""
    configs = [history.config for history in histories]
    stand_ins = {bool(config.task["stand_in"]) for config in configs}
    data = {(): "none", (False,): "real", (True,): "stand-in"}.get(tuple(stand_ins), "mixed")
    return {
        "runs": [config.digest for config in configs],
        "tasks": sorted({config.task["name"] for config in configs}),
        "presets": sorted({config.task["preset"] for config in configs}),
        "data": data,
        "seeds": sorted({config.seeds["init"] for config in configs}),
        "rounds": sorted({config.rounds for config in configs}),
        "note": note(histories),
    }


def note(histories: Sequence[History]) -> str:
    """What a reader must know about the runs; empty for the papers' settings and data.

    Tasks have words of their own; many tasks that are reduced alike share them.
    """
    tasks: dict[str, list[History]] = {}
    for history in sorted(histories, key=lambda history: history.config.task["name"]):
        tasks.setdefault(history.config.task["name"], []).append(history)
    kinds = {
        (any(run.stand_in for run in runs), *sorted({run.config.task["preset"] for run in runs}))
        for runs in tasks.values()
    }
    if len(tasks) > MANY_TASKS and len(kinds) == 1 and "paper" not in next(iter(kinds)):
        return ", ".join(_words(histories))
    words = {name: ", ".join(_words(runs)) for name, runs in tasks.items()}
    return "; ".join(
        (f"{name}: " if len(tasks) > 1 else "") + text for name, text in words.items() if text
    )


def _words(runs: Sequence[History]) -> list[str]:
    """How some runs differ from the papers' settings and data."""
    words = []
    if any(history.stand_in for history in runs):
        words.append("stand-in data")
    quick = [history for history in runs if history.config.task["preset"] != "paper"]
    if quick:
        presets = "/".join(sorted({history.config.task["preset"] for history in quick}))
        words.append(f"{presets} preset: {_numbers(h.config.rounds for h in quick)} rounds")
        clients = {h.config.task["options"].get("clients") for h in quick} - {None}
        if clients:
            words[-1] += f", {_numbers(clients)} clients"
    own = [history for history in runs if history.config.task["preset"] == "paper"]
    cut = [history for history in own if history.config.rounds < _own_rounds(history)]
    if cut:
        rounds = _numbers(history.config.rounds for history in cut)
        words.append(f"{rounds} of {_numbers(_own_rounds(h) for h in cut)} rounds")
    narrow = {h.config.task["options"].get("width", 1.0) for h in runs} - {1.0}
    if narrow:
        words.append(f"{_numbers(narrow)} of the network's width")
    return words


def _own_rounds(history: History) -> int:
    """The task's own rounds, if the run comes from the store."""
    return int(history.meta.get("settings", {}).get("rounds", 0))


def _numbers(values: Any) -> str:
    return "/".join(str(value) for value in sorted(set(values)))


def _now() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.fromtimestamp(int(epoch), UTC) if epoch else datetime.now(UTC)
    return moment.isoformat(timespec="seconds")
