"""The figures and tables of Mime; Table 1, the rounds that theory promises, is written here."""

from __future__ import annotations

import re

import pandas as pd

from fedlib import papers
from fedlib.reproduction import tables
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.mime.ablation import mime_figure_1, mime_figure_5
from fedlib.reproduction.mime.base_optimizers import mime_table_5
from fedlib.reproduction.mime.table_2 import mime_table_2

SYMBOLS = {
    r"\epsilon": "ε",
    r"\delta": "δ",
    r"\sigma": "σ",
    r"\mu": "μ",
    r"\Omega": "Ω",
    r"\left(": "(",
    r"\right)": ")",
    r"^{3/2}": "^1.5",
    r"^{\frac{2}{3}}": "^(2/3)",
    "^2": "²",
}


def readable(formula: str) -> str:
    r"""A rate of Table 1 as plain text: ``\frac{LG^2}{S\epsilon^2}`` becomes ``LG²/(Sε²)``.

    Args:
        formula: LaTeX with fractions, square roots of one letter and the letters of the table.

    >>> readable(r"\frac{\delta G}{\sqrt{S}\epsilon^{3/2}}")
    'δG/(√S ε^1.5)'
    """
    for latex, text in SYMBOLS.items():
        formula = formula.replace(latex, text)
    formula = re.sub(r"\\sqrt\{(\w)\}", r"√\1", formula.replace(" ", ""))
    fraction = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
    while match := fraction.search(formula):
        above, below = match.groups()
        outside = re.sub(r"\([^()]*\)", "", above)
        above = f"({above})" if set("+-") & set(outside) else above
        below = f"({below})" if len(below) > 1 else below
        formula = formula[: match.start()] + f"{above}/{below}" + formula[match.end() :]
    formula = re.sub(r"(√\w|\^\([^)]*\))(?=\w)", r"\1 ", formula)
    return re.sub(r"([+-])", r" \1 ", formula)


def mime_table_1() -> tuple[None, pd.DataFrame]:
    """Communication rounds until ||grad f||^2 <= epsilon, as printed.

    Returns:
        None, and group, algorithm, non-convex, mu-PL ("–" where nothing is printed), note.
    """
    frame = papers.table("mime", "table1_rates")
    rates = {name: frame[name].map(readable) for name in ("nonconvex_rate", "pl_rate")}
    frame = frame.assign(**rates).replace("", "–")
    frame["algorithm"] = frame["algorithm"].str.replace("==", "≡")
    return None, frame.rename(columns={"nonconvex_rate": "non-convex", "pl_rate": "μ-PL"})


_ABLATION = {"emnist_mlp": "38_mime_ablation"}

ENTRIES: tuple[Entry, ...] = (
    Entry("mime/table_1", {"": "04_mimicking_centralized"}, lambda _: mime_table_1()),
    Entry("mime/table_2", tables.notebooks("mime", "Table 2"), mime_table_2, clients=True),
    Entry("mime/table_5", {"": "24_mime_emnist"}, lambda _: mime_table_5()),
    Entry("mime/figure_1", _ABLATION, mime_figure_1, parts=("curves",)),
    Entry("mime/figure_5", _ABLATION, mime_figure_5, parts=("prox",)),
)
