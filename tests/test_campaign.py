"""Fault injection's frame: which cases are taken, and what the table says of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults import campaign

pytest_plugins = ["pytester"]
FAULTS = Path(__file__).resolve().parent / "faults"
TESTS = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_one_case_each(number): pass

def test_two_of_forty_fail(count):
    for number in range(40):
        with count.case(number):
            assert number < 38

def test_skipped(): pytest.skip("not here")
"""


def test_few_are_always_the_same_and_all_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    every = [f"case {number}" for number in range(100)]
    monkeypatch.setattr(campaign, "EVERYTHING", False)
    few = campaign.cases(every, 7)
    assert len(few) == 7 and few == campaign.cases(iter(every), 7)
    assert few == sorted(few, key=every.index)
    assert campaign.cases(every[:3], 7) == every[:3]
    monkeypatch.setattr(campaign, "EVERYTHING", True)
    assert campaign.cases(every, 7) == every


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["one process", "workers"])
def test_the_table_counts_every_case(pytester: pytest.Pytester, workers: list[str]) -> None:
    folder = pytester.mkdir("tests") / "faults"
    folder.mkdir()
    for name in ("campaign.py", "conftest.py"):
        (folder / name).write_text((FAULTS / name).read_text())
    (folder / "test_disk.py").write_text(TESTS)
    words = ["-p", "no:cacheprovider", *workers, "--import-mode=importlib", "tests/faults"]
    run = pytester.run(sys.executable, "-m", "pytest", *words)
    run.stdout.fnmatch_lines(["*in case 38*", "| disk | 45 | 1 | 1 |", "| all | 45 | 1 | 1 |"])
    assert (pytester.path / "build" / "faults.md").exists() == campaign.EVERYTHING
