"""Tables for notebooks and for the folder of figures."""

from __future__ import annotations

import hashlib
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from html import escape, unescape
from numbers import Integral
from typing import Any

import pandas as pd
from pandas.io.formats.style import Styler

from fedlib.arguments import checked
from fedlib.errors import Error
from fedlib.figures import style

COMPARED = ("task", "method", "printed", "ours")
MORE = ("column", "metric", "note", "unclear", "outcome", "preset")  # "" if they are missing
SHOWN = (*COMPARED, *MORE, "ours_std", "beside")
THEIRS = "; in grey the printed number, where the data are the paper's"
BEST = "Bold: the best of a column"
LEADS = "; of ours only if it leads by more than the seeds' spread"
SIGNS = "=: agrees; ≠: differs; ~: cannot be told, as chance alone gives more; none: not compared"
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
    r"<small>(.+?)</small>": r"\1",
    GREY.format("", "\u2007*(.+?)"): r" (\1)",
    "<br>": " ",
}
# A clause of a note, shorter: the same words as under a picture.
SHORTER: dict[str, str | Callable[[re.Match[str]], str]] = {
    r"data set (.+) instead of (.+)": r"\1 for \2",
    r"width ([\d.]+) instead of 1\.0": r"\1 of the width",
    r"network (.+) instead of paper": r"\1 network",
    r"sizes (.+) instead of (.+)": r"\1 instead of \2 examples per client",
    r"a reading: (.+) \(paper: (.+)\)": r"as the paper's numbers suggest, \1 (its text: \2)",
    r"client rates times ([\d.]+?)(?:\.0)? instead of 1\.0": r"client rates × \1",
    r"(clients(?: per round)?|(?:test )?examples|words|tags) (\d+) (instead of) (\d+)": (
        lambda m: f"{m[2]} {'of' if int(m[2]) < int(m[4]) else m[3]} {m[4]} {m[1]}"
    ),
}
# Columns of one quantity, which share a column if a table is drawn.
PRINTED, OURS = ", printed", ", ours"
ALL_EQUAL = "{}: ours all equal the printed ones."
NUMBERS = re.compile(r"[\d.,+−→± ]*")
ALONE = r"(.+) not tuned, (\S+) alone"

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
    written = dict.fromkeys(floats, lambda value: _written(value, digits))
    words = {name: _raised for name in frame.columns if name not in numbers}
    styler = styler.format({**words, **written}, na_rep="–", thousands=",")
    texts = frame[[*words]].astype(str)
    right = [*numbers, *(name for name in texts if all(map(NUMBERS.fullmatch, texts[name])))]
    short = [*numbers, *(name for name in texts if texts[name].str.len().max() <= 50)]
    heads = [f"th.col{at}" for at, name in enumerate(frame.columns) if name in right]
    aligned = [{"selector": head, "props": "text-align: right"} for head in heads]
    styler = styler.set_table_styles(aligned, overwrite=False)
    styler = styler.set_properties(subset=short, **{"white-space": "nowrap"})
    return styler.set_properties(subset=right, **{"text-align": "right"})


def _written(value: Any, digits: int = 1) -> str:
    """A value in words: a float with these digits after the point, a dash if it is missing.

    >>> _written(-0.5), _written(3500), _written("MLP"), _written(None)
    ('−0.5', '3,500', 'MLP', '–')
    """
    if isinstance(value, str):
        return value or "–"
    whole = isinstance(value, Integral)
    text = "–" if pd.isna(value) else f"{value:,}" if whole else f"{value:,.{digits}f}"
    return text.replace("-", "−")


def _raised(word: object) -> str:
    """A cell's words in HTML, with exponents after a ^ raised.

    >>> _raised("(N/S)^(2/3) L/(ε^1.5) < 1")
    '(N/S)<sup>2/3</sup> L/(ε<sup>1.5</sup>) &lt; 1'
    """
    power = r"\^(?:\(([\d./]+)\)|([\d./]+))"
    raised = re.sub(power, lambda m: f"<sup>{m[1] or m[2]}</sup>", escape(str(word)))
    return raised.replace(" - ", " − ")


@checked
def comparison(frame: pd.DataFrame, *, caption: str = "") -> Styler:
    """Our numbers above the paper's, in the layout of the paper.

    Args:
        frame: one row per number, with the columns ``task``, ``method``, ``printed`` and ``ours``.
            Optional columns are ``column`` and ``metric`` (of the paper's table), ``ours_std``,
            ``window`` (the number of last rounds in our mean), ``splits`` (of the clients' data,
            over which ours is a mean), ``note`` (departures from the paper), ``unclear`` (about
            the paper's number), ``outcome`` (see ``fedlib.reproduction.compare.outcome``) and
            ``preset``. Other columns are not shown. With a column ``beside`` (whether ours has the
            paper's data) only these numbers share a cell, and the paper's other numbers are in a
            table of their own below.
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
    shown, common, said, read = _as_printed(together)
    printed = _printed_alone(frame[~beside], read)
    alone = "" if printed is None else printed.to_html(escape=False, na_rep="–", border=0)
    legend = _legend(together, shown.to_string())
    text = "<br>".join([escape(caption), legend, *map(escape, common), *_listed(said)])
    if alone:
        bold = f". {BEST}" if "<b>" in alone else ""
        text += f"<details open><summary>{APART}{bold}</summary>{alone}</details>"
    if read:
        how = "<br>".join(_listed(read))
        what = "How numbers that are unclear in our text copy of the paper were read"
        text += f"<details><summary>{what}</summary>{how}</details>"
    tasks = shown.columns.get_level_values(0)
    first = [f".col{n}" for n in range(1, len(tasks)) if tasks[n] != tasks[n - 1]]
    apart = [{"selector": name, "props": "padding-left: 1.5em"} for name in first]
    styler = _compact(_flat(shown).style, text).set_table_styles(apart, overwrite=False)
    return styler.format(na_rep="–").set_properties(**{"white-space": "nowrap"})


def _legend(frame: pd.DataFrame, cells: str) -> str:
    """What a comparison's cells have, in words."""
    over = averaged(frame)
    words = [f"Each cell: ours{f', {over}' if over else ''}"]
    if "ours_std" in frame:
        one = frame.loc[frame["ours"].notna(), "ours_std"].isna()
        some = " (without ±: one seed)" if one.any() else ""
        words[0] += ", of one seed" if one.all() else f", ± standard deviation over the seeds{some}"
    words[0] += THEIRS if frame["beside"].any() else ""
    words += [SIGNS] if frame.loc[frame["beside"], "outcome"].any() else []
    if "<b>" in cells:
        below = " (↓: the lowest)" if frame["metric"].isin(SMALLER).any() else ""
        words += [f"{BEST}{LEADS}{below}"]
    return f"{'. '.join(words)}.{_over_splits(frame)}"


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
    known = frame[frame.groupby(["task", "column", "metric"])["printed"].transform("count") > 0]
    if known.empty:
        return None
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for names, part in known.groupby(["task", "column", "metric"], sort=False):
        task, column, metric = map(str, names)
        best = _best(part["printed"], metric, pd.Series(0.0, part.index))
        head = (_name(task), _name(column), _name(metric) + _lowest(metric))
        for row in part.to_dict("records"):
            text = _bold(row["printed"], metric, best) + _mark(row["unclear"], read, _letters)
            cells.setdefault(head, {})[_name(row["method"])] = text
    return _flat(pd.DataFrame(cells, index=pd.unique(known["method"].map(_name))))


def averaged(frame: pd.DataFrame) -> str:
    """The number of last rounds in our means of a comparison, in words, or "" if it is unknown.

    >>> tasks = ["mnist", "cifar10", "cifar100", "femnist"]
    >>> averaged(pd.DataFrame({"task": tasks, "window": [100, 100, 300, None]}))
    'the mean of the last 100 rounds (CIFAR-100: 300)'
    >>> averaged(pd.DataFrame({"task": tasks[0], "column": ["a", "b", "b"], "window": [1, 9, 9]}))
    'the mean of the last 9 rounds (a: after the last)'
    """
    known = frame.dropna(subset="window") if "window" in frame else frame[:0]
    if known.empty:
        return ""
    usual = int(known["window"].mode()[0])
    by = "column" if known["task"].nunique() == 1 and "column" in known else "task"
    others = [
        f"{style.listed([style.name(str(name)) for name in part[by].unique()])}: "
        + ("after the last" if window == 1 else f"{window:.0f}")
        for window, part in known[known["window"] != usual].groupby("window")
    ]
    text = "after the last round" if usual == 1 else f"the mean of the last {usual} rounds"
    return f"{text} ({'; '.join(others)})" if others else text


def _over_splits(frame: pd.DataFrame) -> str:
    """What our means over splits of the clients' data are, in words, or "" if there is one split.

    >>> rows = [("synthetic", "fedavg", 3), ("synthetic", "fedprox", 1), ("mnist", "fedavg", 1)]
    >>> _over_splits(pd.DataFrame(rows, columns=["task", "method", "splits"]))
    ' On Synthetic ours is a mean over 3 splits of the data, but for FedProx; ± is for one split.'
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
    return f" On {tasks} ours is a mean over {most} splits of the data{but}; ± is for one split."


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
    shown, common, said, _ = _as_printed(_complete(frame))
    shown = shown.fillna("–").map(_in_text).rename(index=_in_text, columns=_in_text)
    cells = shown.apply(lambda column: column.str.ljust(column.str.len().max()))
    written = cells.to_string(line_width=width, justify="left", sparsify=False).splitlines()
    lines = [text for line in written if (text := line.rstrip(" \\"))]  # without heads that are ""
    lines += [line for text in common for line in textwrap.wrap(text, width)]
    for text, mark in said.items():
        lines += textwrap.wrap(f"[{mark}] {text}", width, subsequent_indent="    ")
    return "\n".join(lines)


def _in_text(cell: str) -> str:
    for pattern, text in IN_TEXT.items():
        cell = re.sub(pattern, text, cell)
    return unescape(cell)


def _complete(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with all columns that a comparison shows, empty if they are missing."""
    frame = frame.assign(**{name: "" for name in MORE if name not in frame})
    frame = frame.fillna(dict.fromkeys(MORE, ""))
    # Without the code word for how an unclear number was read.
    return frame.assign(unclear=frame["unclear"].str.replace(r"^[a-z_]+: ", "", regex=True))


def _as_printed(
    frame: pd.DataFrame,
) -> tuple[pd.DataFrame, list[str], dict[str, str], dict[str, str]]:
    """The cells in the paper's layout, what is true of all of them, the notes, and how numbers were
    read, with marks.
    """
    said: dict[str, str] = {}
    read: dict[str, str] = {}
    names = [name for name in SHOWN if name in frame]
    frame = frame[names].assign(note=frame["note"].map(_in_words))
    lowest = 1 if frame["metric"].map(_name).nunique() > 1 else 0  # level of column or metric
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    noted = {
        str(task): of_task.assign(note=_values_listed(of_task))
        for task, of_task in frame.groupby("task", sort=False)
    }
    everywhere = _shared(pd.concat([*noted.values()])["note"]) if len(noted) > 1 else []
    common = [f"All columns: {'; '.join(everywhere)}."] if everywhere else []
    for task, every in noted.items():
        own = every["note"].map(lambda note: [c for c in _clauses(note) if c not in everywhere])
        of_task = every.assign(note=own.map("; ".join))
        shared = _shared(of_task["note"])
        small = "small problem for<br>" if {*of_task["preset"]} - {""} == {"quick"} else ""
        head = small + _name(task) + _mark("; ".join(shared), said)
        for (column, metric), part in of_task.groupby(["column", "metric"], sort=False):
            alike = [text for text in _shared(part["note"]) if text not in shared]
            below = [_name(column), _name(metric) + _lowest(metric)]
            below[lowest] += _mark("; ".join(alike), said)
            spreads = part["ours_std"] if "ours_std" in part else pd.Series(0.0, part.index)
            best = [
                _best(part["ours"], metric, spreads),
                _best(part["printed"], metric, pd.Series(0.0, part.index)),
            ]
            numbers = pd.concat([part["ours"], part["printed"]])
            wide = max(len(_shown(number, metric)) for number in numbers)
            cells[head, *below] = {
                _name(row["method"]): _cell(row, [*shared, *alike], said, read, best, wide)
                for row in part.to_dict("records")
            }
    shown = pd.DataFrame(cells, index=pd.unique(frame["method"].map(_name)))
    return shown, common, said, read


def _name(word: object) -> str:
    return escape(style.name(str(word)))


def _lowest(metric: str) -> str:
    return " ↓" if metric in SMALLER else ""


def digits_of(metric: str) -> int:
    """The number of digits after the point in a comparison. Errors, about 1, need two."""
    return 2 if metric == "mse_x1000" else 1


def _shown(number: float, metric: str, wide: int = 0) -> str:
    """A number of a comparison, with spaces as wide as digits before it, or a dash if it is NaN."""
    return "–" if pd.isna(number) else f"{number:.{digits_of(metric)}f}".rjust(wide, "\u2007")


def _bold(number: float, metric: str, best: float, wide: int = 0) -> str:
    text = _shown(number, metric, wide)
    return f"<b>{text}</b>" if number == best else text


def _best(numbers: pd.Series, metric: str, spreads: pd.Series) -> float:
    """The best of several numbers. NaN if it is alone, or if another has the same shown digits or
    is within the spreads of both over the seeds. With one seed nothing is best.
    """
    known = pd.to_numeric(numbers).dropna()
    if len(known) < 2:
        return float("nan")
    best = known.idxmin() if metric in SMALLER else known.idxmax()
    known_spreads = pd.to_numeric(spreads)
    for other in known.index.drop(best):
        alike = _shown(known[other], metric) == _shown(known[best], metric)
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
    words = [name for name in ("task", "setup", "prepared", "method") if name in frame]
    frame = frame.assign(**{name: frame[name].map(style.name) for name in words})
    said = [caption]
    if pairs := [name.removesuffix(PRINTED) for name in frame if name.endswith(PRINTED)]:
        for name in pairs:
            both = zip(frame[name + PRINTED], frame.pop(name + OURS), strict=True)
            cells = [_from_to(*pair) for pair in both]
            frame = frame.assign(**{name + PRINTED: cells}).rename(columns={name + PRINTED: name})
        equal = ALL_EQUAL.format(style.listed(pairs).capitalize())
        differ = frame[pairs].stack().str.contains("→").any()
        said.append("→: from the printed to ours, where they differ." if differ else equal)
    if {"mean", "std"} <= {*frame}:
        both = zip(frame["mean"], frame.pop("std"), strict=True)
        frame["mean"] = [" ± ".join(map(_written, filter(pd.notna, pair))) for pair in both]
        frame = frame.rename(columns={"mean": "mean ± std"})
    for name in (name for name in ABOUT if name in frame and frame[name].nunique() == 1):
        said.append(f"{name.capitalize()}: {frame[name].iloc[0]}.")
        frame = frame.drop(columns=name)
    frame = frame.replace("", "–")
    for name in (name for name in ("task", "data set", "group") if name in frame):
        frame[name] = frame[name].where(frame[name].ne(frame[name].shift()), "")  # only once
    return table(frame, caption=" ".join(said), digits=1)


def _from_to(printed: Any, ours: Any) -> str:
    """A cell with both values if they differ, with ours alone if it only says more.

    >>> _from_to(5, 50.0), _from_to("MLP", "MLP, 12 units")
    ('5 → 50.0', 'MLP, 12 units')
    """
    words = [_written(value) for value in dict.fromkeys((printed, ours))]
    return words[-1] if words[-1].startswith(f"{words[0]}, ") else " → ".join(words)


def _in_words(note: str) -> str:
    """A note with the usual names of data sets and hyperparameters, commas in numbers, and in the
    words that the pictures have.

    >>> _in_words("data set femnist instead of emnist; clients 1914 instead of 342477; mu 0.0001")
    'FEMNIST for EMNIST; 1,914 of 342,477 clients; μ 0.0001'
    >>> _in_words("run: fedlib reproduce 77_of_my_own")
    'run: fedlib reproduce 77_of_my_own'
    """
    # A notebook's name, which begins with its number, stays, as it is part of a command.
    words = r"\b[^\W\d]\w*"
    named = re.sub(words, lambda word: style.NAMES.get(word[0], word[0].replace("_", " ")), note)
    clauses = named.split("; ")
    if clauses[0] == "quick preset":  # options that a small problem lacks
        clauses = [text for text in clauses if not re.fullmatch(r"[\w ]+ not \S+", text)]
    for pattern, text in SHORTER.items():
        clauses = [re.sub(f"^{pattern}$", text, clause) for clause in clauses]
    named = "; ".join(clauses)
    return re.sub(r"(?<![\d.])\d{4,}", lambda number: f"{int(number[0]):,}", named)


def _clauses(note: str) -> list[str]:
    return [text for text in note.split("; ") if text]


def _shared(notes: pd.Series) -> list[str]:
    """The clauses that all of the notes have."""
    clauses = [_clauses(note) for note in notes.unique()]
    return [text for text in clauses[0] if all(text in others for others in clauses)]


def _values_listed(cells: pd.DataFrame) -> pd.Series:
    """The notes of a task's cells. The values of a hyperparameter that is not tuned are listed by
    column or method in one clause, if they differ.

    >>> notes = [f"μ not tuned, {mu} alone" for mu in (1, 2, 1)]
    >>> _values_listed(pd.DataFrame({"note": notes, "method": "SGD", "column": list("abc")}))[0]
    'μ not tuned, only 1 for a and c, 2 for b'
    """
    notes = cells["note"].map(_clauses)
    told = notes.explode().dropna().str.extract(ALONE).dropna()
    for what, value in told.groupby(0)[1]:
        if value.nunique() > 1:
            own = cells.loc[value.index]
            by = "column" if value.groupby(own["column"]).nunique().max() == 1 else "method"
            names = own[by].map(lambda name: style.name(str(name))).groupby(value, sort=False)
            only = [f"{each} for {style.listed([*of.unique()])}" for each, of in names]
            said = f"{what} not tuned, only {', '.join(only)}"
            ones = [f"{what} not tuned, {each} alone" for each in value.unique()]
            notes = notes.map(
                lambda own, ones=ones, said=said: [said if c in ones else c for c in own]
            )
    return notes.map("; ".join)


def _mark(text: str, said: dict[str, str], mark: Callable[[int], str] = str) -> str:
    """The mark of a footnote, or "" without a text. New texts are added to ``said``."""
    return f"<sup>{said.setdefault(text, mark(len(said) + 1))}</sup>" if text else ""


def _cell(
    row: Mapping[str, Any],
    known: Sequence[str],
    said: dict[str, str],
    read: dict[str, str],
    best: Sequence[float],
    wide: int,
) -> str:
    """Our number with spread and marks of new notes, and the paper's number."""
    ours, printed = (
        _bold(row[name], row["metric"], top, wide)
        for name, top in zip(("ours", "printed"), best, strict=True)
    )
    spread = row.get("ours_std", float("nan"))
    spread = "" if pd.isna(spread) else f"<small> ± {_shown(spread, row['metric'])}</small>"
    particular = "; ".join(text for text in _clauses(row["note"]) if text not in known)
    ours += spread + _mark(particular, said)
    if not row.get("beside", True):
        return ours
    printed += _mark(row["unclear"], read, _letters)
    return GREY.format(ours, printed) + JUDGED.get(row["outcome"], "")


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
        ("table", "border-collapse: collapse"),
        ("thead th", f"border-bottom: {rule}"),
        ("th", "text-align: left"),
        ("td, th", "vertical-align: top; padding: 0.2em 0.5em; font-size: 85%"),
        ("caption td, caption th", "font-size: 100%; white-space: nowrap"),
        ("sup", "line-height: 0; font-size: 70%"),
    )
    return styler.set_table_styles([{"selector": name, "props": rule} for name, rule in rules])
