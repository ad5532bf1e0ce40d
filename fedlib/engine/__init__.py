"""The engine: rows, rounds, backends, evaluation, histories."""

from fedlib.engine.config import Configured, RunConfig, configure
from fedlib.engine.grids import grid
from fedlib.engine.history import History
from fedlib.engine.run import execute, programs, run

__all__ = [
    "Configured",
    "History",
    "RunConfig",
    "configure",
    "execute",
    "grid",
    "programs",
    "run",
]
