"""Tables for notebooks and for the folder of figures."""

from __future__ import annotations

import hashlib
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape, unescape
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from fedlib.arguments import checked
from fedlib.errors import Error
from fedlib.figures import style

COMPARED = ("task", "method", "printed", "ours")
SHOWN = (*COMPARED, "column", "metric", "ours_std", "note", "unclear", "judged", "beside")
CELLS = "Each cell: ours ± standard deviation over the seeds (without ±: one seed)"
THEIRS = "; in grey the printed number, where the data are the paper's"
BEST = "Bold: the best of a column; of ours only if it leads by more than the seeds' spread"
APART = "Printed, on the paper's own data and at its settings"
# Columns that the caption gives once if all rows have the same value.
ABOUT = ("task", "sizes", "settings tried", "seeds", "rounds", "data", "preset")
SMALLER = ("mse_x1000", "std")  # metrics for which less is better


def _letters(number: int) -> str:
    """1 -> ``a``, 26 -> ``z``, 27 -> ``aa``, ..."""
    more, last = divmod(number - 1, 26)
    return (_letters(more) if more else "") + chr(ord("a") + last)


JUDGED = {"agrees": " =", "differs": " ≠", "cannot be told": " ~"}
GREY = "{}<br><span style='color: #777'>{}</span>"
# Markup of cells in HTML, and its replacement in a terminal.
IN_TEXT = {
    r"<sup>[a-z]+</sup>": "[?]",
    r"<sup>(.+?)</sup>": r"[\1]",
    r"<b>(.+?)</b>": r"\1*",
    GREY.format("", "(.+?)"): r" (\1)",
}
LEGEND = (
    "ours ± std over seeds (printed); * best, beyond the spread; ↓ low is best; [?] unclear in\n"
    "    our text copy of the paper\n"
    "[n] how ours departs from the paper, or diverged. = agrees, ≠ differs, ~ cannot be told:\n"
    "    chance alone puts more between the two than would count as agreement. More: --json, --csv"
)


@checked
def table(frame: pd.DataFrame, *, caption: str = "", digits: int = 2) -> Styler:
    """A frame as a compact HTML table: numbers right-aligned, missing ones as a dash.

    Args:
        frame: the table.
        caption: text below the table.
        digits: digits of floats after the point.

    Returns:
        A pandas Styler. A notebook shows it. ``.to_html()`` gives the same text for the same frame.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> "0.50" in figures.table(pd.DataFrame({"accuracy": [0.5]})).to_html()
        True
    """
    frame = frame.reset_index(drop=True)
    floats = [name for name in frame.columns if pd.api.types.is_float_dtype(frame[name])]
    numbers = [name for name in frame.columns if pd.api.types.is_numeric_dtype(frame[name])]
    styler = _compact(frame.style.hide(axis="index"), escape(caption))
    written = dict.fromkeys(floats, f"{{:,.{digits}f}}".format)
    words = {name: _raised for name in frame.columns if name not in numbers}
    styler = styler.format({**words, **written}, na_rep="–", thousands=",")
    return styler.set_properties(subset=numbers, **{"text-align": "right"})


def _raised(word: object) -> str:
    """A cell's words in HTML, with exponents after a ^ raised.

    >>> _raised("(N/S)^(2/3) L/ε^1.5 < 1")
    '(N/S)<sup>2/3</sup> L/ε<sup>1.5</sup> &lt; 1'
    """
    return re.sub(r"\^\(?([\d./]+)\)?", r"<sup>\1</sup>", escape(str(word)))


@checked
def comparison(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """Our numbers above the paper's, in the layout of the paper.

    Args:
        frame: one row per number, with the columns ``task``, ``method``, ``printed`` and ``ours``.
            Optional columns are ``column`` and ``metric`` (of the paper's table), ``ours_std``,
            ``window`` (the number of last rounds in our mean), ``splits`` (of the clients' data,
            over which ours is a mean), ``note`` (departures from the paper) and ``unclear`` (about
            the paper's number). Other columns are not shown. With a column
            ``beside`` (whether ours has the paper's data) only these numbers share a cell, and the
            paper's other numbers are in a table of their own, folded away.
        caption: text below the table.

    Returns:
        A pandas Styler with a row per method, and a column per task, column and metric of the
        paper's table. The best number of each is bold, ours and the paper's. A departure from the
        paper is described once, with a footnote mark at the task or the cell. How unclear numbers
        of the paper were read is folded away.

    Raises:
        Error: a column is missing, there are no rows, or a cell has two numbers.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> row = {"task": "mnist", "method": "FedAvg", "printed": 98.0, "ours": 97.51}
        >>> "97.5" in figures.comparison(pd.DataFrame([row])).to_html()
        True
    """
    if missing := [name for name in COMPARED if name not in frame]:
        raise Error(f"comparison: the frame has no column {missing[0]!r}, but needs {COMPARED}")
    if frame.empty:
        raise Error("comparison: the frame has no rows: give one row per number")
    frame = _complete(frame)
    if (twice := frame.duplicated(["task", "method", "column", "metric"])).any():
        method, task = frame.loc[twice, ["method", "task"]].iloc[0]
        raise Error(f"comparison: {method} has two numbers in a cell of {task}: give their mean")
    beside = frame.get("beside", pd.Series(True, frame.index)).astype(bool)
    together = frame.assign(printed=frame["printed"].where(beside), beside=beside)
    shown, said, read = _as_printed(together)
    printed = _printed_alone(frame[~beside & frame["printed"].notna()], read)
    lowest = " (↓: the lowest)" if frame["metric"].isin(SMALLER).any() else ""
    over = averaged(frame)
    over = f" Ours is {over}." if over else ""
    cells = f"{CELLS}{THEIRS if beside.any() else ''}. {BEST}{lowest}.{over}{_over_splits(frame)}"
    lines = [escape(caption), cells, *_listed(said)]
    text = "<br>".join(lines)
    if read:
        how = "<br>".join(_listed(read))
        what = "How numbers that are unclear in our text copy of the paper were read"
        text += f"<details><summary>{what}</summary>{how}</details>"
    if printed is not None:
        alone = printed.to_html(escape=False, na_rep="–", border=0)
        text += f"<details><summary>{APART}</summary>{alone}</details>"
    styler = _compact(_flat(shown).style, text).format(na_rep="–")
    return styler.set_properties(**{"white-space": "nowrap"})


def _flat(shown: pd.DataFrame) -> pd.DataFrame:
    """The cells without uninformative levels of columns. The task stays, with its notes."""
    for level in (2, 1):
        if len(shown.columns.unique(level)) == 1:
            shown.columns = shown.columns.droplevel(level)
    return shown


def _printed_alone(frame: pd.DataFrame, read: dict[str, str]) -> pd.DataFrame | None:
    """The paper's numbers of columns with only our cells, in the same layout. None if there are
    none. ``read`` collects how they were read.
    """
    if frame.empty:
        return None
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in frame.to_dict("records"):
        column = tuple(_name(row[name]) for name in ("task", "column", "metric"))
        text = f"{row['printed']:.{digits_of(row['metric'])}f}"
        text += _mark(row["unclear"], read, _letters)
        cells.setdefault(column, {})[_name(row["method"])] = text
    return _flat(pd.DataFrame(cells, index=pd.unique(frame["method"].map(_name))))


def averaged(frame: pd.DataFrame) -> str:
    """The number of last rounds in our means of a comparison, in words, or "" if it is unknown.

    >>> averaged(pd.DataFrame({"window": [100, 300, None]}))
    'the mean over the last 100 to 300 rounds'
    """
    windows = frame["window"].dropna() if "window" in frame else pd.Series()
    if windows.empty:
        return ""
    least, most = int(windows.min()), int(windows.max())
    if most == 1:
        return "of the last round"
    return f"the mean over the last {f'{least} to {most}' if least < most else most} rounds"


def _over_splits(frame: pd.DataFrame) -> str:
    """What our means over splits of the clients' data are, in words, or "" if there is one split.

    >>> rows = [("synthetic", "fedavg", 3), ("synthetic", "fedprox", 1), ("mnist", "fedavg", 1)]
    >>> _over_splits(pd.DataFrame(rows, columns=["task", "method", "splits"]))
    ' On Synthetic it is a mean over 3 splits of the data, but for FedProx, and ± is for one split.'
    """
    splits = frame["splits"].fillna(1) if "splits" in frame else pd.Series(1, frame.index)
    most = int(splits.max())
    if most == 1:
        return ""
    several = frame["task"].isin(frame.loc[splits > 1, "task"])
    tasks, fewer = (
        style.listed([style.name(str(word)) for word in frame.loc[rows, column].unique()])
        for rows, column in ((several, "task"), (several & (splits < most), "method"))
    )
    but = f", but for {fewer}" if fewer else ""
    return f" On {tasks} it is a mean over {most} splits of the data{but}, and ± is for one split."


def in_text(frame: pd.DataFrame, *, width: int = 100) -> str:
    """The cells of :func:`comparison` for a terminal, with as many columns side by side as fit.

    Args:
        frame: see :func:`comparison`.
        width: length of the longest line.

    Returns:
        Lines of ``ours (printed)``, followed by numbered departures from the paper.

    Example:
        >>> import pandas as pd
        >>> from fedlib.figures.tables import in_text
        >>> row = {"task": "mnist", "method": "fedavg", "printed": 98.0, "ours": 97.51}
        >>> print(in_text(pd.DataFrame([{**row, "metric": "accuracy", "note": "1 of 3 seeds"}])))
               MNIST[1]
               accuracy
        FedAvg  97.5 (98.0)
        [1] 1 of 3 seeds
    """
    if "outcome" in frame:
        frame = frame.assign(judged=frame["outcome"].map(JUDGED).fillna(""))
    shown, said, _ = _as_printed(_complete(frame))
    shown = shown.fillna("–").map(_in_text).rename(index=_in_text, columns=_in_text)
    cells = shown.apply(lambda column: column.str.ljust(column.str.len().max()))
    written = cells.to_string(line_width=width, justify="left", sparsify=False).splitlines()
    lines = [text for line in written if (text := line.rstrip(" \\"))]  # without heads that are ""
    for text, mark in said.items():
        lines += textwrap.wrap(f"[{mark}] {text}", width, subsequent_indent="    ")
    return "\n".join(lines)


def _in_text(cell: str) -> str:
    for pattern, text in IN_TEXT.items():
        cell = re.sub(pattern, text, cell)
    return unescape(cell)


def _complete(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with all columns that a comparison shows, empty if they are missing."""
    columns = ("column", "metric", "note", "unclear")
    frame = frame.assign(**{name: "" for name in columns if name not in frame})
    return frame.fillna(dict.fromkeys(columns, ""))


def _as_printed(frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str], dict[str, str]]:
    """The cells in the paper's layout, the notes, and how numbers were read, with marks."""
    said: dict[str, str] = {}
    read: dict[str, str] = {}
    shown = [name for name in SHOWN if name in frame]
    frame = frame[shown].assign(note=frame["note"].map(_in_words))
    lowest = 1 if frame["metric"].nunique() > 1 else 0  # level of column or metric
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for task, of_task in frame.groupby("task", sort=False):
        shared = _shared(of_task["note"])
        head = _name(task) + _mark("; ".join(shared), said)
        for (column, metric), part in of_task.groupby(["column", "metric"], sort=False):
            alike = [text for text in _shared(part["note"]) if text not in shared]
            worse = " ↓" if metric in SMALLER else ""
            below = [_name(column), _name(metric) + worse]
            below[lowest] += _mark("; ".join(alike), said)
            spreads = part["ours_std"] if "ours_std" in part else pd.Series(0.0, part.index)
            best = [
                _best(part["ours"], metric, spreads),
                _best(part["printed"], metric, pd.Series(0.0, part.index)),
            ]
            cells[head, *below] = {
                _name(row["method"]): _cell(row, [*shared, *alike], said, read, best)
                for row in part.to_dict("records")
            }
    return pd.DataFrame(cells, index=pd.unique(frame["method"].map(_name))), said, read


def _name(word: object) -> str:
    return escape(style.name(str(word)))


def digits_of(metric: str) -> int:
    """The number of digits after the point in a comparison. Errors, about 1, need two."""
    return 2 if metric == "mse_x1000" else 1


def _best(numbers: pd.Series, metric: str, spreads: pd.Series) -> float:
    """The best of several numbers. NaN if it is alone, or if another has the same shown digits or
    is within the spreads of both over the seeds. With one seed nothing is best.
    """
    known = pd.to_numeric(numbers).dropna()
    if len(known) < 2:
        return float("nan")
    best = known.idxmin() if metric in SMALLER else known.idxmax()
    digits, known_spreads = digits_of(metric), pd.to_numeric(spreads)
    for other in known.index.drop(best):
        alike = f"{known[other]:.{digits}f}" == f"{known[best]:.{digits}f}"
        spread = math.hypot(known_spreads[best], known_spreads[other])
        if alike or not abs(known[best] - known[other]) > spread:
            return float("nan")
    return float(known[best])


def _listed(marks: Mapping[str, str]) -> list[str]:
    return [f"<sup>{mark}</sup> {escape(text)}" for text, mark in marks.items()]


@checked
def drawn(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """A frame as :func:`comparison` if it has our and the paper's numbers by method, else as
    :func:`table` with one digit. The caption gives the values that all rows share.

    Example:
        >>> import pandas as pd
        >>> from fedlib import figures
        >>> "0.5" in figures.drawn(pd.DataFrame({"accuracy": [0.5]})).to_html()
        True
    """
    if set(COMPARED) <= set(frame) and not frame.empty:
        return comparison(frame, caption=caption)
    words = [name for name in ("task", "setup", "sizes", "method", "algorithm") if name in frame]
    frame = frame.assign(**{name: frame[name].map(style.name) for name in words})
    said = [caption]
    for name in (name for name in ABOUT if name in frame and frame[name].nunique() == 1):
        said.append(f"{name.capitalize()}: {frame[name].iloc[0]}.")
        frame = frame.drop(columns=name)
    for name in (name for name in ("task", "data set", "group") if name in frame):
        frame[name] = frame[name].where(frame[name].ne(frame[name].shift()), "")  # only once
    return table(frame, caption=" ".join(said), digits=1)


def _in_words(note: str) -> str:
    """A note with the usual names of data sets and hyperparameters, and commas in numbers.

    >>> _in_words("data set femnist instead of emnist; clients 1914 instead of 342477; mu 0.0001")
    'data set FEMNIST instead of EMNIST; clients 1,914 instead of 342,477; μ 0.0001'
    >>> _in_words("run: fedlib reproduce 77_of_my_own")
    'run: fedlib reproduce 77_of_my_own'
    """
    # A notebook's name, which begins with its number, stays, as it is part of a command.
    words = r"\b[^\W\d]\w*"
    named = re.sub(words, lambda word: style.NAMES.get(word[0], word[0].replace("_", " ")), note)
    return re.sub(r"(?<![\d.])\d{4,}", lambda number: f"{int(number[0]):,}", named)


def _clauses(note: str) -> list[str]:
    return [text for text in note.split("; ") if text]


def _shared(notes: pd.Series) -> list[str]:
    """The clauses that all of the notes have."""
    clauses = [_clauses(note) for note in notes.unique()]
    return [text for text in clauses[0] if all(text in others for others in clauses)]


def _mark(text: str, said: dict[str, str], mark: Callable[[int], str] = str) -> str:
    """The mark of a footnote, or "" without a text. New texts are added to ``said``."""
    return f"<sup>{said.setdefault(text, mark(len(said) + 1))}</sup>" if text else ""


def _cell(
    row: Mapping[str, Any],
    known: Sequence[str],
    said: dict[str, str],
    read: dict[str, str],
    best: Sequence[float],
) -> str:
    """Our number with spread and marks of new notes, and the paper's number."""
    digits = digits_of(row["metric"])
    shown = [
        "–" if pd.isna(value) else f"{value:.{digits}f}" for value in (row["ours"], row["printed"])
    ]
    ours, printed = (
        f"<b>{text}</b>" if row[name] == top else text
        for name, text, top in zip(("ours", "printed"), shown, best, strict=True)
    )
    spread = row.get("ours_std", float("nan"))
    spread = "" if pd.isna(spread) else f" ± {spread:.{digits}f}"
    particular = "; ".join(text for text in _clauses(row["note"]) if text not in known)
    ours += spread + _mark(particular, said)
    if not row.get("beside", True):
        return ours
    printed += _mark(row["unclear"], read, _letters)
    return GREY.format(ours, printed) + str(row.get("judged", ""))


def _compact(styler: Styler, caption: str) -> Styler:
    """The common look, under a separate id, so that no table's styles affect another."""
    content = caption + styler.data.to_csv()  # type: ignore[attr-defined]
    styler = styler.set_uuid(hashlib.sha256(content.encode()).hexdigest()[:10])
    # A negative margin keeps a caption of fixed width from stretching a narrow table.
    wide = "width: 46rem; max-width: 92vw; margin-right: -46rem"
    styler = styler.set_caption(f"<div style='{wide}'>{caption}</div>" if caption else "")
    rule = "1px solid #888"
    rules = (
        ("", f"font-family: sans-serif; border-collapse: collapse; border-bottom: {rule}"),
        ("caption", "caption-side: bottom; text-align: left; padding: 0.6em 0"),
        ("caption", "font-size: 85%"),
        ("thead th", f"border-bottom: {rule}"),
        ("th", "text-align: left"),
        ("td, th", "vertical-align: top; padding: 0.2em 0.5em; font-size: 85%"),
        ("sup", "line-height: 0; font-size: 70%"),
    )
    return styler.set_table_styles([{"selector": name, "props": rule} for name, rule in rules])
