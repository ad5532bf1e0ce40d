"""Tables for notebooks and for the figures' folder."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from pandas.io.formats.style import Styler


def table(
    frame: pd.DataFrame,
    *,
    caption: str = "",
    digits: int = 2,
    labels: Mapping[str, str] | None = None,
    bold_max: str | None = None,
    by: str | None = None,
) -> Styler:
    """A frame as a compact HTML table: numbers right-aligned, missing ones as a dash.

    Args:
        frame: as it should be shown.
        caption: above the table.
        digits: after the point, for floats.
        labels: columns to show under another name.
        bold_max: the column whose largest number is bold.
        by: the column within whose groups the largest number is looked for; default the whole
            frame.

    Returns:
        a pandas Styler; a notebook shows it, ``.to_html()`` gives text that is the same for the
        same frame.
    """
    frame = frame.reset_index(drop=True)
    floats = [name for name in frame.columns if pd.api.types.is_float_dtype(frame[name])]
    styler = frame.style.hide(axis="index").set_uuid("fedlib").set_caption(caption)
    styler = styler.format(
        dict.fromkeys(floats, f"{{:.{digits}f}}".format), na_rep="–", escape="html"
    )
    numbers = [n for n in frame.columns if pd.api.types.is_numeric_dtype(frame[n])]
    styler = styler.set_properties(subset=numbers, **{"text-align": "right"})
    styler = styler.set_table_styles(
        [
            {"selector": "caption", "props": "text-align: left; padding: 0.4em 0"},
            {"selector": "th", "props": "text-align: left; border-bottom: 1px solid #888"},
            {"selector": "td, th", "props": "padding: 0.15em 0.7em; font-size: 90%"},
        ]
    )
    if bold_max is not None:
        groups = frame.groupby(by, sort=False).groups.values() if by else [frame.index]
        for rows in groups:
            styler = styler.highlight_max((rows, [bold_max]), props="font-weight: bold")
    return styler.format_index(lambda name: str((labels or {}).get(name, name)), axis="columns")
