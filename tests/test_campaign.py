"""The campaign of faults' frame: which cases are taken, and what the table says of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults import campaign

pytest_plugins = ["pytester"]
FAULTS = Path(__file__).resolve().parent / "faults"

TESTS = """
import pytest
from tests.faults.campaign import cases

@pytest.mark.parametrize("number", cases(range(5), 5))
def test_one_case_each(number):
    pass

@pytest.mark.category("disk full")
def test_counts(count):
    count(40)

@pytest.mark.category("disk full")
def test_two_of_three_fail(count):
    for number in range(3):
        with count.case(number):
            assert not number

def test_fails_before_it_counts(count):
    assert count is None

def test_skipped():
    pytest.skip("not here")
"""


def test_few_are_always_the_same_and_all_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [f"case {number}" for number in range(100)]
    monkeypatch.setattr(campaign, "EVERYTHING", False)
    few = campaign.cases(every, 7)
    assert len(few) == 7 and few == campaign.cases(iter(every), 7) != campaign.cases(every, 7, 1)
    assert few == sorted(few, key=every.index)
    assert campaign.cases(every[:3], 7) == every[:3]
    monkeypatch.setattr(campaign, "EVERYTHING", True)
    assert campaign.cases(every, 7) == every


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "workers"])
def test_the_table_counts_every_case(pytester: pytest.Pytester, workers: list[str]) -> None:
    folder = pytester.mkdir("tests") / "faults"
    folder.mkdir()
    pytester.makeini("[pytest]\nmarkers = category: of faults")
    for name in ("campaign.py", "conftest.py"):
        (folder / name).write_text((FAULTS / name).read_text())
    (folder / "test_some.py").write_text(TESTS)
    arguments = [*workers, "--import-mode=importlib", "tests/faults"]
    run = pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments)
    lines = [line for line in run.outlines if line.startswith("|")]
    assert lines[2:] == [
        "| disk full | 43 | 2 | 0 |",
        "| some | 6 | 1 | 1 |",
        "| all | 49 | 3 | 1 |",
    ]
    assert (pytester.path / "build" / "faults.md").exists() == campaign.EVERYTHING
