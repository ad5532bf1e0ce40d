"""Mime's table of rates, in plain text."""

import re

import pytest

from fedlib import papers
from fedlib.reproduction import draw
from fedlib.reproduction.mime import table_1
from fedlib.results import Store


def value(formula, numbers, spelling):
    """A rate as a number; letters that follow each other are factors."""
    for letter, name in spelling.items():
        formula = formula.replace(letter, name)
    formula = re.sub(r"√(\w)|\\sqrt\{([^{}]*)\}", r"((\1\2)**0.5)", formula)
    while r"\frac" in formula:
        formula = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", formula)
    text = ""
    for token in re.findall(r"\*\*|\d+(?:\.\d+)?|[A-Za-z]|[()+/-]", formula):
        product = re.search(r"[\w)]$", text) and re.match(r"[\w(]", token)
        text += ("*" if product else "") + token
    return eval(text, {}, numbers)


PLAIN = {"ε": "e", "δ": "d", "σ": "s", "μ": "m", "Ω": "", "²": "**2", "^": "**"}
LATEX = {
    r"\epsilon": " e ",
    r"\delta": " d ",
    r"\sigma": " s ",
    r"\mu": " m ",
    r"\Omega": "",
    r"\left(": "(",
    r"\right)": ")",
    r"^{\frac{2}{3}}": "**(2/3)",
    "^{3/2}": "**1.5",
    "^2": "**2",
}


def test_table_1_means_what_is_transcribed():
    """Both spellings of every rate have the same value at arbitrary numbers."""
    printed, data = papers.table("mime", "table1_rates"), table_1.mime_table_1()[1]
    assert len(data) == len(printed) == 11
    names = dict(zip("LGSNedsm", (1.3, 0.7, 3.1, 50.0, 0.9, 0.11, 0.4, 0.05), strict=True))
    for column, name in (("nonconvex_rate", "non-convex"), ("pl_rate", "μ-PL")):
        for latex, text in zip(printed[column], data[name], strict=True):
            if latex:
                expected = value(latex, names, LATEX)
                assert value(text, names, PLAIN) == pytest.approx(expected), text
            else:
                assert text == "–"


def test_table_1_is_drawn_without_runs(tmp_path):
    store = Store(tmp_path / "runs", published=[])
    (path,) = draw.redraw(["mime/table_1"], store=store)
    text = path.read_text(encoding="utf-8")
    assert path.name == "table_1.html" and "δG/(√S ε^1.5) + G²/(Sε) + δ/ε" in text
    assert "MimeLiteSGD ≡ FedAvgSGD" in text and "\\frac" not in text
