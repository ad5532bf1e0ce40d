"""The engine: rows, rounds, backends, evaluation, histories."""

from fedlib.engine.config import RunConfig, configure
from fedlib.engine.history import History
from fedlib.engine.run import execute, grid, run

__all__ = ["History", "RunConfig", "configure", "execute", "grid", "run"]
