"""Counts the injected faults by category, over all of pytest-xdist's workers, and tells the table.

``make test`` runs a few cases of every class of fault, always the same ones; ``make faults``
(``FEDLIB_FAULTS=all``) runs every case and writes the table to ``build/faults.md`` too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.campaign import EVERYTHING, Count

TABLE = Path(__file__).resolve().parents[2] / "build" / "faults.md"
COLUMNS = ("cases", "failures", "skipped tests")
CATEGORIES: dict[str, Counter[str]] = defaultdict(Counter)


@pytest.fixture(autouse=True)
def count(request: pytest.FixtureRequest) -> Iterator[Count]:
    """The test's :class:`Count`; a test that never counts is one case."""
    counted = Count()
    yield counted
    # A property travels with the test's report, from a worker too.
    request.node.user_properties.append(("cases", max(counted.cases, 1)))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a test to the row of its file; it ends with its teardown, or its worker died."""
    if "tests/faults/" not in report.nodeid:
        return
    row = CATEGORIES[Path(report.nodeid.split("::")[0]).stem.removeprefix("test_")]
    row["failures"] += report.failed
    row["skipped tests"] += report.skipped
    if report.when not in ("setup", "call"):
        row["cases"] += int(str(dict(report.user_properties).get("cases", 1)))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not CATEGORIES:
        return
    rows = [(name, *(row[column] for column in COLUMNS)) for name, row in CATEGORIES.items()]
    total = ("all", *(sum(row[column] for row in CATEGORIES.values()) for column in COLUMNS))
    lines = ["| category | " + " | ".join(COLUMNS) + " |", "| --- | ---: | ---: | ---: |"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in (*sorted(rows), total)]
    terminalreporter.section("faults")
    terminalreporter.write("\n".join(lines) + "\n")
    if EVERYTHING:
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")
