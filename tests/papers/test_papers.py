"""The transcribed numbers are those that were checked, and are looked up without guessing."""

import hashlib
import math
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from fedlib import papers
from tests.refusals import refused

CELLS = papers.cells()
ITEMS = list(CELLS.groupby(["paper", "item"], sort=False).groups)


def test_the_transcribed_files_are_those_that_were_checked():
    """Commit b7f4af1 held them against each other: grids, sums, repeated numbers, settings, cells.

    Who corrects one says in the commit where the paper prints it, and writes the new hash.
    """
    root = Path(papers.__file__).parent
    files = [*sorted(root.rglob("*.csv")), *sorted(root.rglob("settings.toml"))]
    files.append(root / "cells.toml")
    assert len(files) == 32
    found = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()
    assert found == "975be48f119f5933a2b094ba38cc1fbe6627ff3f1a3d1a9f7427367f0c9625de"


# ---------------------------------------------------------------- looking numbers up


def test_printed_returns_the_one_cell_asked_for():
    where = {"task": "CIFAR-10", "algorithm": "FedAdam", "column": "log10_client_lr"}
    assert papers.printed("fedopt", "table8_learning_rates", **where) == -1.5
    # "table" is a column of this one
    where = {"table": "Table 4", "layer": "Conv2d", "layer_index": 2}
    assert papers.printed("fedopt", "table3_6_models", **where) == 18_496


NOWHERE = {"algorithm": "Yogi", "setting": "federated"}
A_WORD = {"task": "CIFAR-10", "algorithm": "FedAdam", "column": "algorithm"}
MISSING = {"setup": "Cifar10", "algorithm": "FedAvg", "metric": "avg"}


@pytest.mark.parametrize(
    ("function", "arguments", "where", "message"),
    [
        ("printed", "fedopt table1_validation", {"task": "CIFAR10"}, "did you mean 'CIFAR-10'"),
        ("printed", "fedopt table1_validation", {"task": "CIFAR-10"}, "5 cells"),
        ("printed", "fedopt table11_lr_decay", NOWHERE, "selects 0 cells"),
        ("printed", "fedopt table8_learning_rates", {}, "log10_client_lr"),
        ("printed", "fedopt table9_tau", A_WORD, "no number algorithm could be read"),
        ("printed", "adafedadam table1_resource_heterogeneity", MISSING, "in the paper's text"),
    ],
)
def test_a_wrong_question_gets_one_clear_line(function, arguments, where, message):
    refused(re.escape(message), getattr(papers, function), *arguments.split(), **where)


def test_what_a_caller_changes_does_not_reach_the_next_caller():
    frame, catalogue = papers.table("fedopt", "table1_validation"), papers.figures()
    frame["value"], catalogue["paper"] = 0.0, ""
    papers.settings("fedopt")["rounds"]["CIFAR-10"] = 0
    where = {"task": "CIFAR-10", "algorithm": "FedAdam"}
    assert papers.printed("fedopt", "table1_validation", **where) == 77.4
    assert papers.settings("fedopt")["rounds"]["CIFAR-10"] == 4000
    assert set(papers.figures()["paper"]) == set(papers.papers())


# ---------------------------------------------------------------- cells


@pytest.mark.parametrize(("paper", "item"), ITEMS)
def test_every_printed_number_is_a_cell_of_its_task_row_and_column(paper, item):
    """Compared with all rows of the file, however the cells' declaration cuts it."""
    found = CELLS[(CELLS["paper"] == paper) & (CELLS["item"] == item)]
    number = item.split()[1]
    name = next(n for n in papers.tables(paper) if re.match(rf"table{number}(_|$)", n))
    frame = papers.table(paper, name)
    value = next(column for column in ("value", "mean", "accuracy") if column in frame)
    row = next(c for c in ("printed_name", "optimizer", "algorithm") if c in frame)
    spread = frame["std"] if "std" in frame else pd.Series(math.nan, frame.index)
    doubt = frame["status"] != "read" if "status" in frame else pd.Series(False, frame.index)
    expected = Counter(
        map(str, zip(frame[row], frame[value].astype(float), spread, doubt, strict=True))
    )
    told = found["unclear"] != ""
    numbers = zip(found["row"], found["printed"], found["printed_spread"], told, strict=True)
    assert Counter(map(str, numbers)) == expected
    assert found.loc[found["printed"].isna(), "unclear"].all()
    keys = ["task", "row", "column", "metric"]
    assert not found.duplicated(keys).any(), "a number has its own place"
    methods = found.astype({"overrides": str, "options": str})
    same = ["task", "algorithm", "overrides", "options", "metric"]
    assert not methods.duplicated(same).any(), "and its own runs"
