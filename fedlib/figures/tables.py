"""Tables for notebooks and for the figures' folder."""

from __future__ import annotations

import pandas as pd
from pandas.io.formats.style import Styler

from fedlib.arguments import checked


@checked
def table(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """A frame as a compact HTML table: numbers right-aligned, missing ones as a dash.

    Floats have two digits after the point.

    Args:
        frame: as it should be shown.
        caption: above the table.

    Returns:
        a pandas Styler; a notebook shows it, ``.to_html()`` gives text that is the same for the
        same frame.
    """
    frame = frame.reset_index(drop=True)
    floats = [name for name in frame.columns if pd.api.types.is_float_dtype(frame[name])]
    styler = frame.style.hide(axis="index").set_uuid("fedlib").set_caption(caption)
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
