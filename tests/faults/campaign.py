"""How large the campaign of faults is, and the count of what it tried.

``make test`` runs a few cases of every class of fault, always the same ones; ``make faults``
(``FEDLIB_FAULTS=all``) runs every case and prints the table by category.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import hypothesis

Case = TypeVar("Case")

EVERYTHING = os.environ.get("FEDLIB_FAULTS") == "all"


def cases(all_cases: Iterable[Case], few: int, seed: int = 0) -> list[Case]:
    """Every case, or a sample of ``few`` that is the same at every call, in the given order."""
    every = list(all_cases)
    if EVERYTHING or few >= len(every):
        return every
    kept = sorted(random.Random(seed).sample(range(len(every)), few))
    return [every[at] for at in kept]


def examples(every: int, few: int) -> hypothesis.settings:
    """Settings of a hypothesis test: how many examples, always the same ones.

    Fixtures may be per test: a test under them must not depend on what an example leaves there.
    """
    return hypothesis.settings(
        max_examples=every if EVERYTHING else few,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[
            hypothesis.HealthCheck.function_scoped_fixture,
            hypothesis.HealthCheck.too_slow,
        ],
    )


@dataclass
class Count:
    """What one test tried: the fixture ``count``. A test that never counts is one case."""

    tried: int = 0
    failures: list[str] = field(default_factory=list)

    def __call__(self, cases: int = 1) -> None:
        """So many more cases were tried."""
        self.tried += cases

    @contextmanager
    def case(self, name: object) -> Iterator[None]:
        """One case of many in one test: its failure is told at the end, the others still run."""
        self.tried += 1
        try:
            yield
        except Exception as problem:
            self.failures.append(f"{name}: {type(problem).__name__}: {problem}")


@dataclass
class Category:
    """A row of the table."""

    cases: int = 0
    failures: int = 0
    skipped: int = 0


def table(categories: dict[str, Category]) -> str:
    """The campaign's table in Markdown: cases tried, failures and skipped tests by category."""
    rows: list[tuple[Any, ...]] = [
        (name, row.cases, row.failures, row.skipped) for name, row in sorted(categories.items())
    ]
    rows.append(("all", *(sum(row[column] for row in rows) for column in (1, 2, 3))))
    head = ["| category | cases | failures | skipped tests |", "| --- | ---: | ---: | ---: |"]
    return "\n".join([*head, *("| " + " | ".join(map(str, row)) + " |" for row in rows)]) + "\n"
