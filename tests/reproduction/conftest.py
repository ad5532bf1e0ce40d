"""Histories whose numbers are known because they were made by hand."""

import dataclasses

import pandas as pd
import pytest

from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.results.files import describe


@pytest.fixture(scope="session")
def hand_made():
    """A function that makes a history as the store returns it.

    ``accuracies`` are those of the last rounds, half as large with clients alike; ``clients`` are
    their (accuracy, examples); ``cohort`` replaces the run's clients per round.
    """

    def make(task, algorithm="fedavg", accuracies=(0.5,), *, loss=1.0, clients=(), **settings):
        diverged, cohort = (settings.pop(name, None) for name in ("diverged", "cohort"))
        config = configure(task, algorithm, **settings).config
        config = dataclasses.replace(config, clients_per_round=cohort or config.clients_per_round)
        rows = [(config.rounds, "train", "loss", loss), (config.rounds, "test", "mse_x1000", loss)]
        for at, accuracy in enumerate(accuracies, config.rounds - len(accuracies) + 1):
            rows.append((at, "test", "accuracy", accuracy))
            rows.append((at, "test", "accuracy_unweighted", accuracy / 2))
        frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
        per_client = pd.DataFrame(
            [(str(i), "test", "accuracy", value, n) for i, (value, n) in enumerate(clients)],
            columns=["client", "split", "metric", "value", "examples"],
        )
        history = History(frame, per_client, {}, config, {"diverged": diverged, "seconds": 1.0})
        return dataclasses.replace(history, meta={**history.meta, **describe(task, history)})

    return make
