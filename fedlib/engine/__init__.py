"""The engine: rows, rounds, backends, evaluation, histories."""

from fedlib.engine.config import Configured, RunConfig, configure
from fedlib.engine.confusion import confusion
from fedlib.engine.history import History
from fedlib.engine.run import execute, grid, programs, run

__all__ = [
    "Configured",
    "History",
    "RunConfig",
    "configure",
    "confusion",
    "execute",
    "grid",
    "programs",
    "run",
]
