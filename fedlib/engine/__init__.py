"""The engine: rows, rounds, backends, evaluation, histories."""

from fedlib.engine.config import Configured, RunConfig, configure
from fedlib.engine.history import History
from fedlib.engine.run import execute, grid, programs, run
from fedlib.engine.scoring import evaluate, predict

__all__ = [
    "Configured",
    "History",
    "RunConfig",
    "configure",
    "evaluate",
    "execute",
    "grid",
    "predict",
    "programs",
    "run",
]
