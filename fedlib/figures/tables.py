"""Tables for notebooks and for the figures' folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from fedlib.arguments import checked
from fedlib.errors import Error
from fedlib.figures import style

COMPARED = ("task", "method", "printed", "ours")
CELLS = (
    "Each cell: ours ± standard deviation over the seeds; in grey the printed number. Bold: the "
    "best of a column."
)
ABOUT = ("seeds", "rounds", "data", "preset")  # said once where all rows have the same
SMALLER = ("mse_x1000", "std")  # metrics of which little is good


@checked
def table(
    frame: pd.DataFrame,
    *,
    caption: str = "",
    footnotes: Sequence[str] = ("note", "unclear"),
    digits: int = 2,
) -> Styler:
    """A frame as a compact HTML table: numbers right-aligned, missing ones as a dash.

    Args:
        frame: as it should be shown.
        caption: below the table.
        footnotes: columns whose texts are said once, after the caption, each with a number; a
            column of numbers takes their place.
        digits: of floats, after the point.

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
    numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])]
    styler = _compact(frame.style.hide(axis="index"), "<br>".join(lines))
    styler = styler.format(
        dict.fromkeys(floats, f"{{:.{digits}f}}".format), na_rep="–", escape="html"
    )
    return styler.set_properties(subset=numbers, **{"text-align": "right"})


@checked
def comparison(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """Our numbers over the printed ones, laid out as a paper prints them.

    Args:
        frame: a row a number, with the columns ``task``, ``method``, ``printed`` and ``ours``;
            ``column`` and ``metric`` (of the printed table), ``ours_std``, ``note`` (how ours
            departs) and ``unclear`` (of the printed number) are shown if they are there, other
            columns are not.
        caption: below the table.

    Returns:
        a pandas Styler: a row a method, a column for each task, printed column and metric; the best
        number of each is bold, ours and the printed one. What departs from the paper is said once,
        with a number at the task or the cell; how unclear printed numbers were read is folded away.

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
    styler = _compact(shown.style, text).format(na_rep="–")
    return styler.set_properties(**{"white-space": "nowrap"})


def _as_printed(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """The cells as HTML, laid out as printed; the notes, and how numbers were read, with marks."""
    said: dict[str, str] = {}
    read: dict[str, str] = {}
    lowest = 1 if frame["metric"].nunique() > 1 else 0  # of column and metric
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for task, of_task in frame.groupby("task", sort=False):
        every = _shared(of_task["note"])
        head = escape(style.name(str(task))) + _raised(_marks(["; ".join(every)], said))
        for (column, metric), part in of_task.groupby(["column", "metric"], sort=False):
            alike = [text for text in _shared(part["note"]) if text not in every]
            worse = " (lower is better)" if metric in SMALLER else ""
            below = [escape(str(column)), escape(style.name(str(metric)) + worse)]
            below[lowest] += _raised(_marks(alike, said))
            best = [_best(part[name], metric in SMALLER) for name in ("ours", "printed")]
            cells[head, *below] = {
                _method(row["method"]): _cell(row, [*every, *alike], said, read, best)
                for row in part.to_dict("records")
            }
    shown = pd.DataFrame(cells, index=pd.unique(frame["method"].map(_method)))
    for level in reversed(range(3)):
        if shown.columns.nlevels > 1 and len(shown.columns.unique(level)) == 1:
            shown.columns = shown.columns.droplevel(level)
    return shown, said, read


def _method(label: object) -> str:
    return escape(style.name(str(label)))


def _best(numbers: pd.Series, smaller: bool) -> float:
    """The best of several numbers; NaN of one alone."""
    known = pd.to_numeric(numbers).dropna()
    return float("nan") if len(known) < 2 else float(known.min() if smaller else known.max())


def _listed(marks: Mapping[str, str]) -> list[str]:
    return [f"<sup>{mark}</sup> {escape(text)}" for text, mark in marks.items()]


@checked
def drawn(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """A frame as :func:`comparison` if it holds ours and printed numbers by method, else as
    :func:`table` with one digit; what all its rows share stands in the caption.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> "0.5" in figures.drawn(pd.DataFrame({"accuracy": [0.5]})).to_html()
        True
    """
    if set(COMPARED) <= set(frame) and not frame.empty:
        return comparison(frame, caption=caption)
    said = [caption]
    for name in (name for name in ABOUT if name in frame and frame[name].nunique() == 1):
        said.append(f"{name.capitalize()}: {frame[name].iloc[0]}.")
        frame = frame.drop(columns=name)
    words = [name for name in ("task", "method", "algorithm") if name in frame]
    frame = frame.assign(**{name: frame[name].map(style.name) for name in words})
    return table(frame, caption=" ".join(said), digits=1)


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
    row: Mapping[str, Any],
    known: Sequence[str],
    said: dict[str, str],
    read: dict[str, str],
    best: Sequence[float],
) -> str:
    """Ours with its spread and marks of what is not known already, below it the printed number."""
    ours, printed = (
        "–" if pd.isna(value) else f"<b>{value:.1f}</b>" if value == top else f"{value:.1f}"
        for value, top in zip((row["ours"], row["printed"]), best, strict=True)
    )
    spread = row.get("ours_std", float("nan"))
    spread = "" if pd.isna(spread) else f" ± {spread:.1f}"
    particular = [text for text in _clauses(row["note"]) if text not in known]
    ours += spread + _raised(_marks(particular, said))
    printed += _raised(_marks([row["unclear"]], read, _letters))
    return f"{ours}<br><span style='color: #777'>{printed}</span>"


def _compact(styler: Styler, caption: str) -> Styler:
    """The house's look, under an id of the table's own: styles of one must not reach another."""
    content = caption + styler.data.to_csv()  # type: ignore[attr-defined]
    styler = styler.set_uuid(hashlib.sha256(content.encode()).hexdigest()[:10])
    # A negative margin keeps a caption of fixed width from stretching a narrow table.
    wide = "width: 46rem; max-width: 92vw; margin-right: -46rem"
    styler = styler.set_caption(f"<div style='{wide}'>{caption}</div>" if caption else "")
    rule = "1px solid #888"
    return styler.set_table_styles(
        [
            {"selector": "", "props": "font-family: sans-serif; border-collapse: collapse"},
            {
                "selector": "caption",
                "props": "caption-side: bottom; text-align: left; padding: 0.6em 0",
            },
            {"selector": "caption", "props": "font-size: 85%"},
            {"selector": "th", "props": f"text-align: left; border-bottom: {rule}"},
            {"selector": "td, th", "props": "padding: 0.2em 0.5em; font-size: 85%"},
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
