"""Grids: all combinations of some hyperparameters as rows of one program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.engine.run import execute
from fedlib.errors import Error
from fedlib.task import Task


def grid(
    task: Task,
    algorithm: str,
    *,
    rounds: int | None = None,
    seed: int | Mapping[str, int] = 0,
    device: str = "auto",
    backend: str = "auto",
    dtype: str = "float32",
    eval_every: int | None = None,
    clients_per_round: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: bool = False,
    **axes: Iterable[Any],
) -> pd.DataFrame:
    """All combinations of some hyperparameters, as rows of one program wherever they can be.

    Args:
        axes: for each hyperparameter the values to try, for instance ``client_lr=[0.01, 0.1]``.
        eval_every: default: the initial and the last model only.
        task, algorithm, rounds, seed, device, backend, dtype, clients_per_round, overrides,
            progress: see :func:`run`.

    Returns:
        the runs' tidy frames below each other, a column per axis and ``diverged`` (round or NaN)
        added.

    Raises:
        Error: an axis without values, or anything :func:`run` refuses.
    """
    cells = combinations(axes)
    rounds = task.rounds if rounds is None else rounds
    configured = [
        configure(
            task,
            algorithm,
            rounds=rounds,
            seed=seed,
            dtype=dtype,
            eval_every=max(1, rounds) if eval_every is None else eval_every,
            clients_per_round=clients_per_round,
            overrides={**(overrides or {}), **cell},
        )
        for cell in cells
    ]
    histories = execute(task, configured, device=device, backend=backend, progress=progress)
    return grid_frame(cells, histories)


def combinations(axes: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """Every combination of the axes' values, the last axis fastest."""
    cells: list[dict[str, Any]] = [{}]
    for name, values in axes.items():
        listed = [values] if isinstance(values, (str, int, float)) else list(values)
        if not listed:
            raise Error(f"grid: axis {name} has no values; give at least one")
        cells = [{**cell, name: value} for cell in cells for value in listed]
    return cells


def grid_frame(cells: Sequence[Mapping[str, Any]], histories: Sequence[History]) -> pd.DataFrame:
    """The histories' frames with their cells' values as columns."""
    frames = [
        history.frame.assign(**cell, diverged=history.diverged)
        for cell, history in zip(cells, histories, strict=True)
    ]
    frame = pd.concat([f.astype({"diverged": "float64"}) for f in frames], ignore_index=True)
    names = list(cells[0])
    return frame[[*names, "round", "split", "metric", "value", "diverged"]]
