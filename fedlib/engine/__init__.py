"""The engine: rows, rounds, backends, evaluation, histories."""

from fedlib.engine.config import Configured as Configured
from fedlib.engine.config import RunConfig as RunConfig
from fedlib.engine.config import configure as configure
from fedlib.engine.history import History as History
from fedlib.engine.run import execute as execute
from fedlib.engine.run import grid as grid
from fedlib.engine.run import programs as programs
from fedlib.engine.run import run as run
from fedlib.engine.scoring import evaluate as evaluate
from fedlib.engine.scoring import predict as predict
