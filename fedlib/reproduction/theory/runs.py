"""The small numbers of the notebooks that ask for their runs themselves."""

from __future__ import annotations

from fedlib.reproduction.request import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("00_start_here", {"rounds": 50}),
    Experiment("04_mimicking_centralized", {"rounds": 150, "local_steps": 8, "repeats": 1}),
    Experiment("06_partitions", {"repeats": 3}),
)
