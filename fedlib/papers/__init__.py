"""The four papers' numbers: every table as a CSV, every stated setting as TOML.

The numbers were transcribed from text copies of the papers and are kept as they were read there,
including contradictions (the TOML files list those under ``consistency`` and ``versions``). Numbers
that such a copy has lost are complete in the paper.
Columns that need a word:

``status``
    ``read`` is plainly legible in our copy. Other values say how another cell was handled. Its
    ``note`` gives the evidence, and ``unclear_cells.csv`` lists them all. An empty value was not
    recovered.
``mean``, ``std`` (adafedadam)
    the paper's ``a ± b``. The *metric* named ``std`` is the paper's spread over clients.
``accuracy``, ``diff_from_best`` (delta_sgd)
    their sum is the best accuracy of the column, to ±0.1: the paper took differences before
    rounding. ``accuracy_min`` and ``accuracy_max`` are the range of possible readings.
    ``raw_cell``, ``acc_as_read`` and ``diff_as_read`` hold the characters of our copy, ``?`` if
    illegible.
``nonconvex_text``, ``pl_text``, ``needs`` (mime)
    the rates as plain text, and the conditions in the footnotes, in words.
``SGD_decay``, ``SGDM_decay`` (delta_sgd)
    the paper's SGD and SGDM with a falling step size.

In the TOML files a key ending in ``_derived`` is arithmetic or inference, ``_raw`` the characters
of our copy, and 000 to 004 number the copies (000 and 001: two versions of the fedopt paper).
"""

import math
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import StringIO
from typing import Any

import pandas as pd

from fedlib.errors import Error, require_known, unknown
from fedlib.paths import read_toml

__all__ = [
    "cells",
    "claims",
    "figures",
    "papers",
    "printed",
    "settings",
    "table",
    "tables",
]

_PAPERS = ("fedopt", "mime", "adafedadam", "delta_sgd")

# Texts that may look like numbers in one table and not in the next.
_TEXT = {"acc_as_read": str, "diff_as_read": str, "raw_cell": str, "raw": str, "note": str}

# The column with a table's number, in order of preference.
_VALUES = ("value", "mean", "accuracy", "parameters", "batch_size", "log10_tau")


def papers() -> tuple[str, ...]:
    """The papers' short names, oldest first: fedopt, mime, adafedadam, delta_sgd.

    Example:
        >>> from fedlib import papers
        >>> papers.papers()
        ('fedopt', 'mime', 'adafedadam', 'delta_sgd')
    """
    return _PAPERS


def tables(paper: str) -> tuple[str, ...]:
    """Names of a paper's tables, for instance ``"table1_validation"`` of ``"fedopt"``.

    Raises:
        Error: unknown paper.

    Example:
        >>> from fedlib import papers
        >>> papers.tables("mime")
        ('table1_rates', 'table2_accuracy')
    """
    names = (entry.name for entry in _folder(paper).iterdir())
    return tuple(sorted(name.removesuffix(".csv") for name in names if name.endswith(".csv")))


def table(paper: str, name: str) -> pd.DataFrame:
    """A table of a paper, one row per cell.

    Args:
        paper: one of :func:`papers`.
        name: one of :func:`tables`.

    Returns:
        A fresh frame. Missing numbers are NaN and missing texts ``""``.

    Raises:
        Error: unknown paper or table.

    Example:
        >>> from fedlib import papers
        >>> frame = papers.table("fedopt", "table9_tau")
        >>> len(frame)
        21
    """
    known = tables(paper)
    require_known(f"table of {paper}", name, known)
    return _read(f"{paper}/{name}.csv").copy()


def settings(paper: str) -> dict[str, Any]:
    """A paper's statements about its experiments, as a fresh nested dict.

    Raises:
        Error: unknown paper.

    Example:
        >>> from fedlib import papers
        >>> papers.settings("fedopt")["rounds"]["CIFAR-10"]
        4000
    """
    _folder(paper)
    return read_toml(f"papers/{paper}/settings.toml")


def claims() -> list[dict[str, Any]]:
    """The papers' claims, in their order, as fresh dicts.

    Keys: id, paper, where (in the paper), quote (the paper's sentence), says (the claim in words),
    shows (the measurable statement, never stricter than the quote), in_print (the same about the
    paper's numbers), quick and laptop (whether a small problem, and whether real data can show it).
    Some have except (the paper's own exceptions) and exceptions (preset -> why it does not hold on
    our runs).

    Example:
        >>> from fedlib import papers
        >>> len(papers.claims()), papers.claims()[0]["id"]
        (26, 'fedopt-sparse-lr')
    """
    return list(read_toml("papers/claims.toml")["claim"])


def figures() -> pd.DataFrame:
    """All figures and tables of the papers, one row each: paper, id, kind, shows, what it needs.

    Example:
        >>> from fedlib import papers
        >>> len(papers.figures())
        59
    """
    return _read("figures.csv").copy()


def cells() -> pd.DataFrame:
    """The papers' numbers that fedlib's runs can be compared with, and the runs of each.

    The tables' transcriptions hold the numbers, and ``cells.toml`` the rest.

    Returns:
        A fresh frame, one row per number: paper, item (``"Table 1"``), task (fedlib's) and label
        (the paper's), row and column (as in the paper, "" if a table has one column per task),
        algorithm (fedlib's), overrides (override key -> value, replacing the task's), options (task
        options that a run must have), given (options of the paper, replacing the defaults of the
        task's paper preset, where a list means any of these), metric (ours), printed and
        printed_spread (its ±, in the paper's unit, NaN without), unclear (the uncertainty about
        it), tuned and either (override keys that may have any value; the run that is best by
        ``chosen_by`` counts. The paper tunes the keys in ``tuned``. For those in ``either`` it
        prints a value that differs from its authors' record), seeds, rounds, clients_per_round and
        budget (model sizes a round, which pay for the
        cohort). The last four are None if they are the task's own.

    Example:
        >>> from fedlib import papers
        >>> cells = papers.cells()
        >>> cells[cells["task"] == "cifar10"].iloc[1][["item", "algorithm", "row"]].tolist()
        ['Table 1', 'fedadam', 'FedAdam']
    """
    return _cells().copy()


@cache
def _cells() -> pd.DataFrame:
    known = read_toml("papers/cells.toml")
    rows = []
    for stated in known["table"]:
        paper = stated["paper"]
        stated = {**known["shared"].get(paper, {}), **stated}
        read, only = _read(f"{paper}/{stated['file']}.csv"), stated.get("only", {})
        entries = [e for e in read.to_dict("records") if all(e[k] == only[k] for k in only)]
        of_table = [_cell(entry, stated, known) for entry in entries]
        order = list(known["tasks"][paper])
        rows += sorted(of_table, key=lambda cell: order.index(cell["label"]))
    frame = pd.DataFrame(rows, dtype=object)
    return frame.astype({"printed": float, "printed_spread": float, "seeds": int})


def _cell(entry: dict[Any, Any], stated: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """A row of :func:`cells`: a table's declaration applied to an entry of its file."""
    label = stated.get("label") or " ".join(entry[column] for column in stated["task"])
    task, metrics = known["tasks"][stated["paper"]][label], stated["metrics"]
    methods = stated.get("methods", [{}])
    method = next(
        method
        for method in (known["methods"][methods] if isinstance(methods, str) else methods)
        if all(entry[key] == value for key, value in method.get("when", {}).items())
    )
    row = entry[stated.get("row", "algorithm")]
    algorithm = method.get("algorithm", stated.get("algorithm", algorithm_name(row)))
    overrides = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in method.get("overrides", {}).items()
    }
    options = {**known["needed"].get(task, {}), **stated.get("options", {})}
    given = {**known["given"].get(task, {}), **stated.get("given", {})}
    tuned, budget = stated.get("tuned", []), stated.get("budget", {})
    number = next(name for name in _VALUES if name in entry)
    return {
        "paper": stated["paper"],
        "item": stated["item"],
        "task": task,
        "label": label,
        "row": row,
        "column": stated.get("column", "").format(**entry),
        "algorithm": algorithm,
        "overrides": overrides,
        # A text names the column of the file with the value.
        "options": {k: entry[v] if isinstance(v, str) else v for k, v in options.items()},
        "given": {key: value for key, value in given.items() if value != ""},
        "metric": metrics if isinstance(metrics, str) else metrics[entry["metric"]],
        "printed": float(entry[number]),
        "printed_spread": float(entry["std"]) if number == "mean" else math.nan,
        "unclear": _unclear(entry),
        "tuned": tuple(tuned.get(algorithm, []) if isinstance(tuned, dict) else tuned),
        "either": tuple(method.get("either", ())),
        "chosen_by": stated.get("chosen_by", "training_loss"),
        "seeds": stated.get("seeds", 1),
        "rounds": stated.get("rounds"),
        "clients_per_round": stated.get("clients_per_round"),
        "budget": budget.get(label, budget.get("")),
    }


def algorithm_name(label: str) -> str:
    """fedlib's name of an algorithm from the papers': ``"q-FedAvg"`` -> ``"qfedavg"``."""
    return label.lower().replace("-", "").replace(" ", "")


def _unclear(entry: dict[Any, Any]) -> str:
    """The uncertainty about a paper's number, in words."""
    status, note = entry.get("status", "read"), entry.get("note", "")
    return "" if status in ("", "read") else f"{status}: {note}" if note else str(status)


def printed(paper: str, table_name: str, /, *, column: str | None = None, **where: object) -> float:
    """One number of a paper.

    Args:
        paper: one of :func:`papers`.
        table_name: one of :func:`tables`.
        column: the column that holds the number. By default ``value``, ``mean``, ``accuracy``,
            ``parameters``, ``batch_size`` or ``log10_tau``, whichever the table has.
        **where: the values of named columns.

    Returns:
        The number in the table's own unit (accuracies in percent).

    Raises:
        Error: unknown paper, table, column or value, no row or several rows, or an empty cell.

    Example:
        >>> printed("fedopt", "table1_validation", task="CIFAR-10", algorithm="FedAdam")
        77.4
    """
    frame, source = table(paper, table_name), f"{paper}/{table_name}"
    column = column or next((name for name in _VALUES if name in frame), "")
    for name in (column, *where):
        require_known(f"column of {source}", name, map(str, frame.columns))
    rows = frame
    for name, wanted in where.items():
        if not (frame[name] == wanted).any():
            raise unknown(f"{name} of {source}", wanted, map(str, frame[name].unique()))
        rows = rows[rows[name] == wanted]
    asked = ", ".join(f"{name}={value!r}" for name, value in where.items()) or "all rows"
    if len(rows) != 1:
        remedy = "; name more columns" if len(rows) else ""
        raise Error(f"{source}: {asked} selects {len(rows)} cells, not one{remedy}")
    number = float(pd.to_numeric(rows[column], errors="coerce").iloc[0])
    if math.isnan(number):
        raise Error(f"{source}: {asked}: no number {column} could be read in the paper's text")
    return number


def _folder(paper: str) -> Traversable:
    require_known("paper", paper, _PAPERS)
    return files(__name__).joinpath(paper)


@cache
def _read(name: str) -> pd.DataFrame:
    # Only an empty field is missing, as words such as "none" are data.
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    frame = pd.read_csv(StringIO(text), keep_default_na=False, na_values=[""], dtype=_TEXT)
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].fillna("")
    return frame
