"""How much fault injection runs: a few cases of a kind, always the same ones, or every case.

``make test`` runs a few; ``make faults`` (``FEDLIB_FAULTS=all``) runs all.
"""

import os
import random
from contextlib import contextmanager

import hypothesis

EVERYTHING = os.environ.get("FEDLIB_FAULTS") == "all"


def cases(all_cases, few):
    """Every case, or a sample of ``few`` that is the same at every call, in the given order."""
    every = list(all_cases)
    if EVERYTHING or few >= len(every):
        return every
    return [every[at] for at in sorted(random.Random(few).sample(range(len(every)), few))]


def examples(every, few):
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


@contextmanager
def case(name):
    """One of a test's cases; where it fails, its name is told."""
    try:
        yield
    except Exception as problem:
        problem.add_note(f"in case {name}")
        raise
