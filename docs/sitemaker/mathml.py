"""Formulas as MathML, which browsers draw themselves: no script, no fonts, no network.

docutils translates LaTeX; what it does not know of the notebooks' LaTeX is written otherwise first.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

log = logging.getLogger(__name__)

# In this order: pattern -> replacement.
REWRITTEN = (
    (re.compile(r"\\[bB]igg?[lr]?(?![a-zA-Z])"), ""),  # parentheses stretch by themselves
    (re.compile(r"\\dots(?![a-zA-Z])"), r"\\ldots "),
    (re.compile(r"\\textstyle(?![a-zA-Z])"), ""),
    (re.compile(r"\\[dt]?frac\s*(\d)(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\\[dt]?frac\s*(\d|\\[a-zA-Z]+)\s*(\d|\\[a-zA-Z]+)"), r"\\frac{\1}{\2}"),
    (re.compile(r"(\\frac\{(?:[^{}]|\{[^{}]*\})*\})\s*(\d)"), r"\1{\2}"),
)


def mathml(latex: str, block: bool = False) -> str:
    """A formula as MathML.

    Args:
        latex: without its dollars.
        block: set on a line of its own.

    Raises:
        MathError: LaTeX that cannot be translated.
    """
    for pattern, replacement in REWRITTEN:
        latex = pattern.sub(replacement, latex)
    return str(tex2mathml(latex, as_block=block))


def _visit(block: bool) -> Any:
    def visit(translator: Any, node: nodes.Element) -> None:
        try:
            markup = mathml(node.astext(), block)
        except (MathError, IndexError, AttributeError) as problem:
            log.warning("formula %r: %s", node.astext(), problem, location=node)
            markup = f"<code>{translator.encode(node.astext())}</code>"
        name, identifiers = ("div", node.get("ids", [])) if block else ("span", [])
        translator.body.append(translator.starttag(node, name, "", CLASS="math", ids=identifiers))
        translator.body.append(f"{markup}</{name}>")
        raise nodes.SkipNode

    return visit


def setup(app: Sphinx) -> dict[str, Any]:
    """Make ``mathml`` a choice of ``html_math_renderer``."""
    app.add_html_math_renderer("mathml", (_visit(False), None), (_visit(True), None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
