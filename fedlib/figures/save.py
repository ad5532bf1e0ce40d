"""Writing a figure: the picture, its numbers, and their source."""

from __future__ import annotations

import io
import json
import os
import re
import textwrap
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from PIL import Image

from fedlib import paths
from fedlib.arguments import checked
from fedlib.engine.history import History, rounds_of
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.scale import note
from fedlib.figures.tables import drawn
from fedlib.files import write

NOTE = "fedlib-note"
IN_NOTE = ("task", "seeds", "rounds", "data", "preset")  # columns that repeat a table's note
# Height of a line of the note, and its capacity in letters.
STRIP_INCHES = 0.14
LETTERS_PER_INCH = 22
# For a PNG: the resolutions to try, the bytes that it should fit into, colours, and fewer colours.
DPIS, MOST, COLOURS, FEWER = (200, 150, 125, 110, 100), 150_000, 128, 92
_saved: WeakKeyDictionary[Figure, bytes] = WeakKeyDictionary()


@checked
def save(
    figure: Figure | None,
    id: str,
    data: pd.DataFrame,
    *,
    caption: str,
    histories: Sequence[History],
    missing: Sequence[str] = (),
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """Write ``<figures>/<id>.png``, ``.pdf`` (for a table ``.html``), ``.csv`` and ``.json``.

    The same figure gives the same PNG, PDF and CSV bytes. Missing tasks are named in the figure's
    corner. The panels themselves describe their runs.

    Args:
        figure: None for a table.
        id: ``<paper>/<name>``, for instance ``"fedopt/figure_1"``.
        data: the drawn data, one row per point or cell.
        caption: one or two sentences.
        histories: the runs of the figure. May be empty for a figure without runs.
        missing: tasks of the figure that were not run. The corner names them.
        root: folder of the figures. Default: ``FEDLIB_FIGURES``, else ``figures/own/``, so that
            your own picture never replaces a published one.

    Returns:
        The path of the PNG, or of the HTML for a table.

    Raises:
        Error: an id that is not ``<paper>/<name>``, or no data.
        Failure: the files cannot be written. Existing files stay.
    """
    if not re.fullmatch(r"[a-z0-9_]+/[a-z0-9_]+", id):
        raise Error(f"figure id is {id!r}, not <paper>/<name>, for instance 'fedopt/figure_1'")
    if data.empty:
        raise Error(f"figure {id}: no data to draw: check its runs")
    gone = "; ".join(map(style.name, missing))
    corner = f"Not shown, as there are no such runs: {gone}" if missing else ""
    configs = [history.config for history in histories]
    made_up = {bool(config.task["stand_in"]) for config in configs}
    kinds = {(): "none", (False,): "real", (True,): "stand-in"}
    record: dict[str, Any] = {
        "id": id,
        "caption": caption,
        "runs": [config.digest for config in configs],
        "tasks": sorted({config.task["name"] for config in configs}),
        "presets": sorted({config.task["preset"] for config in configs}),
        "data": kinds.get(tuple(made_up), "mixed"),
        "seeds": sorted({config.seeds["init"] for config in configs}),
        "rounds": sorted(set(map(rounds_of, histories))),
        "note": note(histories),
        "missing": list(missing),
        "versions": {name: version(name) for name in ("fedlib", "matplotlib", "pandas", "seaborn")},
    }
    folder = paths.preset_figures("own") if root is None else paths.figures_root(root)
    target = folder / id
    files = {"csv": data.to_csv(index=False, lineterminator="\n").encode()}
    if figure is None:
        # A comparison's cells say how the runs depart from the paper's settings.
        said = (caption.rstrip("."), "" if "note" in data else record["note"], corner)
        text = ". ".join(filter(None, said)) + "."
        noted = IN_NOTE if record["note"] and "note" not in data else ()
        alike = [name for name in noted if name in data and data[name].nunique() == 1]
        shown = drawn(data.drop(columns=alike), caption=text)
        files["html"] = shown.to_html(doctype_html=True).encode()
    else:
        files |= render(figure, corner)
        _saved[figure] = files["png"]
        figure.stale = False  # saving sets and resets its dpi, which counts as a change
    files["json"] = (json.dumps(record, indent=2) + "\n").encode()
    for suffix, content in files.items():
        write(target.with_name(f"{target.name}.{suffix}"), content)
    return target.with_name(f"{target.name}.{'html' if figure is None else 'png'}")


def picture(figure: Figure) -> bytes:
    """The saved PNG of a figure, or a new one if it was not saved or has changed since."""
    if not figure.stale and figure in _saved:
        return _saved[figure]
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


def render(figure: Figure, note: str) -> dict[str, bytes]:
    """PNG and PDF of a figure, with ``note`` in the corner. Equal figures give equal bytes.

    The PDF uses the PNG's layout, whose computation is a third of the work.
    """
    mark(figure, note)
    canvas, dpi, layout = figure.canvas, figure.dpi, figure.get_layout_engine()
    try:
        with style.context():
            png = _png(figure)
            figure.set_layout_engine("none")
            pdf = io.BytesIO()  # its dpi is for the parts that are not vectors
            figure.savefig(pdf, format="pdf", dpi=DPIS[0], metadata={"CreationDate": None})
            return {"png": png, "pdf": pdf.getvalue()}
    finally:
        figure.set_layout_engine(layout or "none")
        figure.set_dpi(dpi)  # while no window follows it
        figure.set_canvas(canvas)


def _png(figure: Figure) -> bytes:
    """A PNG with a palette. To fit into :data:`MOST` it has fewer dots, then fewer colours."""
    for dpi in DPIS:
        png, canvas = io.BytesIO(), FigureCanvasAgg(figure)
        figure.set_dpi(dpi)
        canvas.draw()
        plain = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
        # An octree keeps labels in the colours of their lines. A median cut would merge these.
        colours = FEWER if dpi == DPIS[-1] else COLOURS
        few = plain.quantize(colours, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        palette: Any = few.getpalette()
        white = 3 * int(few.getpixel((0, 0)))  # type: ignore[arg-type]  # an index
        if palette[white : white + 3] == [254, 254, 254]:  # the octree makes this of 255
            palette[white : white + 3] = [255, 255, 255]
        few.putpalette(palette)
        few.save(png, "PNG", optimize=True)
        if png.tell() <= MOST:
            break
    return png.getvalue()


def mark(figure: Figure, note: str) -> None:
    """Put a note into the lower right corner, replacing an earlier one."""
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
