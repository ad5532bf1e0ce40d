"""Formulas as MathML, which browsers draw themselves: no script, no fonts, no network.

docutils translates LaTeX. Commands of the notebooks that it does not know are rewritten first.
"""

from __future__ import annotations

import re

from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

from fedlib.errors import Error

# In this order: pattern -> replacement.
REWRITTEN = {
    r"\\[bB]igg?[lr]?(?![a-zA-Z])": "",  # parentheses stretch by themselves
    r"\\dots(?![a-zA-Z])": r"\\ldots ",
    r"\\textstyle(?![a-zA-Z])": "",
    r"\\[dt]?frac\s*(\d)(\d)": r"\\frac{\1}{\2}",
    r"\\[dt]?frac\s*(\d|\\[a-zA-Z]+)\s*(\d|\\[a-zA-Z]+)": r"\\frac{\1}{\2}",
    r"(\\frac\{(?:[^{}]|\{[^{}]*\})*\})\s*(\d)": r"\1{\2}",
}


def mathml(latex: str, block: bool = False) -> str:
    """A formula as MathML.

    Args:
        latex: without its dollars.
        block: set on a line of its own.

    Raises:
        Error: LaTeX that cannot be translated.
    """
    known = latex
    for pattern, replacement in REWRITTEN.items():
        known = re.sub(pattern, replacement, known)
    try:
        return str(tex2mathml(known, as_block=block))
    except (MathError, IndexError, AttributeError) as problem:
        raise Error(f"formula {latex!r} cannot be translated: {problem}") from problem
