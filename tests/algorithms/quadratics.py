"""What the methods' tests share: random quadratics, the engine's cohorts, runs and differences."""

from __future__ import annotations

from typing import Any

import numpy as np

import fedlib
from fedlib.randomness import numpy_generator

Problem = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def problem(seed: int, clients: int = 6, dimension: int = 4) -> Problem:
    """A, b, weights and x0 of :func:`fedlib.quadratic_task`."""
    draw = np.random.default_rng(seed)
    roots = draw.standard_normal((clients, dimension, dimension))
    A = roots @ roots.transpose(0, 2, 1) / dimension + 0.1 * np.eye(dimension)
    b, weights = draw.standard_normal((clients, dimension)), draw.uniform(0.5, 3, clients)
    return A, b, weights, draw.standard_normal(dimension)


def positive_problem(seed: int, clients: int = 6, dimension: int = 4) -> dict[str, np.ndarray]:
    """The same as keywords, with offsets that make all losses positive everywhere."""
    A, b, weights, x0 = problem(seed, clients, dimension)
    least = [0.5 * own @ np.linalg.solve(H, own) for H, own in zip(A, b, strict=True)]
    offset = np.array(least) + np.random.default_rng(seed + 1).uniform(0.1, 1, clients)
    return {"A": A, "b": b, "weights": weights, "x0": x0, "offset": offset}


def cohort(seed: int, round: int, size: int, clients: int = 6) -> list[int]:
    """The clients that the engine samples."""
    if size == clients:
        return list(range(clients))
    draw = numpy_generator(seed, "cohort", round)
    return sorted(draw.choice(clients, size, replace=False).tolist())


def step_decay(round: int, rounds: int) -> float:
    """The schedule's factor: a tenth from half of the rounds on, then a hundredth."""
    return 0.1 ** ((round >= rounds / 2) + (round >= 3 * rounds / 4))


def end(
    task: fedlib.Task,
    method: Any,
    rounds: int,
    *,
    seed: int = 0,
    size: int | None = None,
    **overrides: Any,
) -> np.ndarray:
    """x after a run in float64, with ``size`` clients a round."""
    history = fedlib.run(
        task,
        method,
        rounds=rounds,
        seed=seed,
        dtype="float64",
        eval_every=rounds,
        clients_per_round=size,
        overrides=overrides,
    )
    assert history.diverged is None
    return np.asarray(history.params["x"])


def difference(a: fedlib.History, b: fedlib.History) -> float:
    """The largest difference of two runs' parameters."""
    return max(float((a.params[name] - b.params[name]).abs().max()) for name in a.params)
