"""What the four papers print: every table as a CSV, every stated setting as TOML.

The numbers were transcribed from the papers' texts and are kept as they were read, contradictions
included (the TOML files list those under ``consistency`` and ``versions``).
Columns that need a word:

``status``
    ``read`` is plainly legible. Other values say how an illegible cell was handled; its ``note``
    gives the evidence, and :func:`unclear_cells` lists them all. An empty value was not recovered.
``mean``, ``std`` (adafedadam)
    the printed ``a ± b``; the *metric* named ``std`` is the paper's spread over clients.
``accuracy``, ``diff_from_best`` (delta_sgd)
    their sum is the best accuracy of the column, to ±0.1: the paper took differences before
    rounding. ``accuracy_min`` and ``accuracy_max`` span the defensible readings; ``raw_cell``,
    ``acc_as_read`` and ``diff_as_read`` hold the characters of the text, ``?`` where illegible.
``SGD_decay``, ``SGDM_decay`` (delta_sgd)
    the paper's SGD and SGDM with a falling step size.

In the TOML files a key ending in ``_derived`` is arithmetic or inference, ``_raw`` the characters
of a damaged text, and 000 to 004 number the texts (000 and 001: two versions of the fedopt paper).
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import StringIO
from typing import Any

import pandas as pd

from fedlib.errors import Error, unknown

__all__ = ["claims", "figures", "papers", "printed", "settings", "table", "tables", "unclear_cells"]

_PAPERS = ("fedopt", "mime", "adafedadam", "delta_sgd")

# Texts that may look like numbers in one table and not in the next.
_TEXT = {"acc_as_read": str, "diff_as_read": str, "raw_cell": str, "raw": str, "note": str}

# The column that holds a table's printed number, by preference.
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
    return tuple(sorted(_stem(entry) for entry in _folder(paper).iterdir() if _is_csv(entry)))


def table(paper: str, name: str) -> pd.DataFrame:
    """A table as printed, one row per cell of the paper's table.

    Args:
        paper: one of :func:`papers`.
        name: one of :func:`tables`.

    Returns:
        a fresh frame. Numbers are NaN and texts ``""`` where the file has nothing.

    Raises:
        Error: unknown paper or table.

    Example:
        >>> from fedlib import papers
        >>> frame = papers.table("fedopt", "table9_tau")
        >>> len(frame)
        21
    """
    known = tables(paper)
    if name not in known:
        raise unknown(f"table of {paper}", name, known)
    return _read(f"{paper}/{name}.csv").copy()


def settings(paper: str) -> dict[str, Any]:
    """What a paper says about its experiments, as a fresh nested dict.

    Raises:
        Error: unknown paper.

    Example:
        >>> from fedlib import papers
        >>> papers.settings("fedopt")["rounds"]["CIFAR-10"]
        4000
    """
    return tomllib.loads(_folder(paper).joinpath("settings.toml").read_text(encoding="utf-8"))


def claims() -> list[dict[str, Any]]:
    """What the papers claim, in their order, as fresh dicts.

    Keys: id, paper, where (printed), quote (the paper's sentence), says (the claim in words), shows
    (the measurable statement, never stricter than the quote), in_print (what it says of the printed
    numbers), in some except (what the paper takes out), quick and laptop (whether a small problem,
    and whether real data can show it).

    Example:
        >>> from fedlib import papers
        >>> len(papers.claims()), papers.claims()[0]["id"]
        (26, 'fedopt-sparse-lr')
    """
    text = files(__name__).joinpath("claims.toml").read_text(encoding="utf-8")
    listed: list[dict[str, Any]] = tomllib.loads(text)["claim"]
    return listed


def figures() -> pd.DataFrame:
    """All figures and tables of the papers, one row each: paper, id, kind, shows, what it needs.

    Example:
        >>> from fedlib import papers
        >>> len(papers.figures())
        59
    """
    return _read("figures.csv").copy()


def unclear_cells() -> pd.DataFrame:
    """All cells that are not plainly legible in the papers' texts: file, cell, status, evidence.

    Example:
        >>> from fedlib import papers
        >>> "status" in papers.unclear_cells()
        True
    """
    return _read("unclear_cells.csv").copy()


def printed(paper: str, table_name: str, /, *, column: str | None = None, **where: object) -> float:
    """One printed number.

    Args:
        paper: one of :func:`papers`.
        table_name: one of :func:`tables`.
        column: the column that holds the number; by default ``value``, ``mean``, ``accuracy``,
            ``parameters``, ``batch_size`` or ``log10_tau``, whichever the table has.
        **where: what each named column must equal.

    Returns:
        the number in the table's own unit (accuracies in percent).

    Raises:
        Error: unknown paper, table, column or value; no row or several rows; an empty cell.

    Example:
        >>> printed("fedopt", "table1_validation", task="CIFAR-10", algorithm="FedAdam")
        77.4
    """
    frame = table(paper, table_name)
    source = f"{paper}/{table_name}"
    if column is None:
        column = next((name for name in _VALUES if name in frame.columns), None)
        if column is None:
            numeric = [str(name) for name in frame.select_dtypes("number").columns]
            choice = ", ".join(numeric) or "none is numeric"
            raise Error(f"{source} has no single number per row: set column= to one of: {choice}")
    if column not in frame.columns:
        raise unknown(f"column of {source}", column, map(str, frame.columns))
    if not pd.api.types.is_numeric_dtype(frame[column]):
        raise Error(f"column {column!r} of {source} holds text; read it with papers.table")

    rows = frame
    for key, wanted in where.items():
        if key not in frame.columns:
            raise unknown(f"column of {source}", key, map(str, frame.columns))
        if not (frame[key] == wanted).any():
            raise unknown(f"{key} of {source}", wanted, map(str, frame[key].unique()))
        rows = rows[rows[key] == wanted]
    asked = ", ".join(f"{key}={value!r}" for key, value in where.items()) or "all rows"
    if len(rows) != 1:
        remedy = "; name more columns" if len(rows) else ""
        raise Error(f"{source}: {asked} selects {len(rows)} cells, not one{remedy}")
    number = float(rows[column].iloc[0])
    if number != number:
        raise Error(f"{source}: {asked}: {column} could not be read in the paper's text")
    return number


def _folder(paper: str) -> Traversable:
    if paper not in _PAPERS:
        raise unknown("paper", paper, _PAPERS)
    return files(__name__).joinpath(paper)


def _is_csv(entry: Traversable) -> bool:
    return entry.name.endswith(".csv")


def _stem(entry: Traversable) -> str:
    return entry.name.removesuffix(".csv")


@cache
def _read(name: str) -> pd.DataFrame:
    # Only an empty field is missing: words such as "none" are data.
    text = files(__name__).joinpath(name).read_text(encoding="utf-8")
    frame = pd.read_csv(StringIO(text), keep_default_na=False, na_values=[""], dtype=_TEXT)
    for column in frame.columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            frame[column] = frame[column].fillna("")
    return frame
