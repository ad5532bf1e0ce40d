"""Tables for notebooks and for the figures' folder."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import pandas as pd
from pandas.io.formats.style import Styler

from fedlib.arguments import checked


@checked
def table(
    frame: pd.DataFrame, *, caption: str = "", footnotes: Sequence[str] = ("note", "unclear")
) -> Styler:
    """A frame as a compact HTML table: numbers right-aligned, missing ones as a dash.

    Floats have two digits after the point.

    Args:
        frame: as it should be shown.
        caption: above the table.
        footnotes: columns whose texts are said once, under the caption, each with a number; a
            column of numbers takes their place.

    Returns:
        a pandas Styler; a notebook shows it, ``.to_html()`` gives text that is the same for the
        same frame.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> "0.50" in figures.table(pd.DataFrame({"accuracy": [0.5]})).to_html()
        True
    """
    frame, said = _with_footnotes(frame.reset_index(drop=True), footnotes)
    lines = [escape(caption), *(f"<sup>{n}</sup> {escape(text)}" for n, text in enumerate(said, 1))]
    floats = [name for name in frame.columns if pd.api.types.is_float_dtype(frame[name])]
    styler = frame.style.hide(axis="index").set_uuid("fedlib").set_caption("<br>".join(lines))
    styler = styler.format(dict.fromkeys(floats, "{:.2f}".format), na_rep="–", escape="html")
    numbers = [n for n in frame.columns if pd.api.types.is_numeric_dtype(frame[n])]
    styler = styler.set_properties(subset=numbers, **{"text-align": "right"})
    return styler.set_table_styles(
        [
            {"selector": "caption", "props": "text-align: left; padding: 0.4em 0"},
            {"selector": "th", "props": "text-align: left; border-bottom: 1px solid #888"},
            {"selector": "td, th", "props": "padding: 0.15em 0.7em; font-size: 90%"},
        ]
    )


def _with_footnotes(
    frame: pd.DataFrame, columns: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The frame with numbers in place of the columns' texts, and the texts with their numbers."""
    columns = [name for name in columns if name in frame]
    said: dict[str, int] = {}
    marks = []
    for texts in frame[columns].itertuples(index=False):
        numbers = [said.setdefault(text, len(said) + 1) for text in texts if text]
        marks.append(", ".join(map(str, numbers)))
    frame = frame.drop(columns=columns)
    return (frame.assign(notes=marks) if said else frame), said
