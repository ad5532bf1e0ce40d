"""Counts the campaign's cases by category, over all of pytest-xdist's workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.campaign import EVERYTHING, Category, Count, table

TABLE = Path(__file__).resolve().parents[2] / "build" / "faults.md"
CATEGORIES: dict[str, Category] = defaultdict(Category)


@pytest.fixture(autouse=True)
def count(request: pytest.FixtureRequest) -> Iterator[Count]:
    """The test's :class:`Count`.

    Its category is that of its marker ``category("...")``, or else its file's name.
    """
    counted = Count()
    yield counted
    # Properties travel with the test's report, from a worker too.
    request.node.user_properties += [
        ("faults_cases", max(counted.tried, 1)),
        ("faults_failures", len(counted.failures)),
        ("faults_category", category(request.node)),
    ]
    if counted.failures:
        told = "\n".join(counted.failures)  # half a character could not be sent by a worker
        pytest.fail(told.encode(errors="backslashreplace").decode(), pytrace=False)


def category(item: pytest.Item) -> str:
    marker = item.get_closest_marker("category")
    return marker.args[0] if marker else item.path.stem.removeprefix("test_").replace("_", " ")


FAILED: set[str] = set()
SKIPPED: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add a test to the table when it is over."""
    if "tests/faults/" not in report.nodeid:
        return
    if report.failed:
        FAILED.add(report.nodeid)
    if report.skipped:
        SKIPPED.add(report.nodeid)
    crashed = report.when not in ("setup", "call", "teardown")  # the worker died
    if report.when != "teardown" and not crashed:
        return
    counted = dict(report.user_properties)
    stem = Path(report.nodeid.split("::")[0]).stem.removeprefix("test_").replace("_", " ")
    row = CATEGORIES[str(counted.get("faults_category", stem))]
    if report.nodeid in SKIPPED and report.nodeid not in FAILED:
        row.skipped += 1
        return
    row.cases += int(str(counted.get("faults_cases", 1)))
    failures = int(str(counted.get("faults_failures", 0)))
    row.failures += max(failures, int(report.nodeid in FAILED))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table, and with every case also in ``build/faults.md``."""
    if not CATEGORIES:
        return
    text = table(CATEGORIES)
    terminalreporter.section("faults")
    terminalreporter.write(text)
    if EVERYTHING:
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text(text, encoding="utf-8")
