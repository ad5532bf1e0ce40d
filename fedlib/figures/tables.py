"""Tables for notebooks and for the figures' folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from fedlib.arguments import checked
from fedlib.errors import Error

COMPARED = ("task", "method", "printed", "ours")
CELLS = "Each cell: ours ± standard deviation over the seeds; below it the printed number."


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
    return _compact(styler)


@checked
def comparison(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """Our numbers over the printed ones, laid out as a paper prints them.

    Args:
        frame: a row a number, with the columns ``task``, ``method``, ``printed`` and ``ours``;
            ``column`` and ``metric`` (of the printed table), ``ours_std``, ``note`` (how ours
            departs) and ``unclear`` (of the printed number) are shown if they are there, other
            columns are not.
        caption: above the table.

    Returns:
        a pandas Styler: a row a method, a column for each task, printed column and metric. What
        departs from the paper is said once, with a number at the task or the cell; how unclear
        printed numbers were read is folded away.

    Raises:
        Error: a column is missing, or there are no rows.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> row = {"task": "mnist", "method": "FedAvg", "printed": 98.0, "ours": 97.51}
        >>> "97.5" in figures.comparison(pd.DataFrame([row])).to_html()
        True
    """
    if missing := [name for name in COMPARED if name not in frame]:
        raise Error(f"comparison: the frame has no column {missing[0]!r}; it needs {COMPARED}")
    if frame.empty:
        raise Error("comparison: the frame has no rows; give a row a number")
    columns = ("column", "metric", "note", "unclear")
    frame = frame.assign(**{name: "" for name in columns if name not in frame})
    shown, said, read = _as_printed(frame.fillna({"note": "", "unclear": ""}))
    lines = [escape(caption), CELLS, *_listed(said)]
    text = "<br>".join(lines)
    if read:
        how = "<br>".join(_listed(read))
        text += f"<details><summary>How unclear printed numbers were read</summary>{how}</details>"
    styler = shown.style.set_uuid("fedlib").set_caption(text).format(na_rep="–")
    return _compact(styler.set_properties(**{"white-space": "nowrap"}))


def _as_printed(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """The cells as HTML, laid out as printed; the notes, and how numbers were read, with marks."""
    said: dict[str, str] = {}
    read: dict[str, str] = {}
    lowest = 1 if frame["metric"].nunique() > 1 else 0  # of column and metric
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for task, of_task in frame.groupby("task", sort=False):
        every = _shared(of_task["note"])
        head = escape(str(task)) + _raised(_marks(["; ".join(every)], said))
        for (column, metric), part in of_task.groupby(["column", "metric"], sort=False):
            alike = [text for text in _shared(part["note"]) if text not in every]
            below = [escape(str(column)), escape(str(metric))]
            below[lowest] += _raised(_marks(alike, said))
            cells[head, *below] = {
                escape(str(row["method"])): _cell(row, [*every, *alike], said, read)
                for row in part.to_dict("records")
            }
    shown = pd.DataFrame(cells, index=pd.unique(frame["method"].map(str).map(escape)))
    for level in reversed(range(3)):
        if shown.columns.nlevels > 1 and len(shown.columns.unique(level)) == 1:
            shown.columns = shown.columns.droplevel(level)
    return shown, said, read


def _listed(marks: Mapping[str, str]) -> list[str]:
    return [f"<sup>{mark}</sup> {escape(text)}" for text, mark in marks.items()]


@checked
def drawn(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """A frame as :func:`comparison` if it holds ours and printed numbers by method, else as
    :func:`table`.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> "0.50" in figures.drawn(pd.DataFrame({"accuracy": [0.5]})).to_html()
        True
    """
    compared = set(COMPARED) <= set(frame) and not frame.empty
    return comparison(frame, caption=caption) if compared else table(frame, caption=caption)


def _clauses(note: str) -> list[str]:
    return [text for text in note.split("; ") if text]


def _shared(notes: pd.Series) -> list[str]:
    """The clauses that all of some notes have."""
    every = [_clauses(note) for note in notes.unique()]
    return [text for text in every[0] if all(text in others for others in every)]


def _marks(
    texts: Sequence[str], said: dict[str, str], mark: Callable[[int], str] = str
) -> list[str]:
    """The marks of some footnotes; ``said`` learns those that are new."""
    return [said.setdefault(text, mark(len(said) + 1)) for text in texts if text]


def _raised(marks: Sequence[str]) -> str:
    return f"<sup>{', '.join(marks)}</sup>" if marks else ""


def _letters(number: int) -> str:
    """1 -> ``a``, 26 -> ``z``, 27 -> ``aa``, ..."""
    more, last = divmod(number - 1, 26)
    return (_letters(more) if more else "") + chr(ord("a") + last)


def _cell(
    row: Mapping[str, Any], known: Sequence[str], said: dict[str, str], read: dict[str, str]
) -> str:
    """Ours with its spread and marks of what is not known already, below it the printed number."""
    ours = "–" if pd.isna(row["ours"]) else f"{row['ours']:.1f}"
    spread = row.get("ours_std", float("nan"))
    spread = "" if pd.isna(spread) else f" ± {spread:.1f}"
    particular = [text for text in _clauses(row["note"]) if text not in known]
    raised = _raised([*_marks(particular, said), *_marks([row["unclear"]], read, _letters)])
    printed = "–" if pd.isna(row["printed"]) else f"{row['printed']:g}"
    return f"{ours}{spread}{raised}<br><span style='color: #777'>{printed}</span>"


def _compact(styler: Styler) -> Styler:
    return styler.set_table_styles(
        [
            {"selector": "caption", "props": "text-align: left; padding: 0.4em 0; font-size: 90%"},
            {"selector": "th", "props": "text-align: left; border-bottom: 1px solid #888"},
            {"selector": "td, th", "props": "padding: 0.15em 0.4em; font-size: 85%"},
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
