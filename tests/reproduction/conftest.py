"""Histories whose numbers are known because they were made by hand."""

import dataclasses

import pandas as pd
import pytest
import torch

from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.results.files import describe


@pytest.fixture(scope="session")
def hand_made():
    """A function that makes a history as the store returns it.

    ``accuracies`` are those of the last rounds, half as large with clients alike; ``clients`` are
    their (accuracy, examples); ``cohort`` replaces the run's clients per round.
    """

    def make(
        task,
        algorithm="fedavg",
        accuracies=(0.5,),
        loss=1.0,
        clients=(),
        diverged=None,
        cohort=None,
        **settings,
    ):
        config, _ = configure(task, algorithm, **settings)
        if cohort is not None:
            config = dataclasses.replace(config, clients_per_round=cohort)
        rows = []
        for back, accuracy in enumerate(reversed(accuracies)):
            at = config.rounds - back
            rows.append((at, "test", "accuracy", accuracy))
            rows.append((at, "test", "accuracy_unweighted", accuracy / 2))
        rows.append((config.rounds, "train", "loss", loss))
        rows.append((config.rounds, "test", "mse_x1000", 100 * loss))
        frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
        per_client = pd.DataFrame(
            [(str(i), "test", "accuracy", value, n) for i, (value, n) in enumerate(clients)],
            columns=["client", "split", "metric", "value", "examples"],
        )
        meta = {"diverged": diverged, "versions": {}, "seconds": 1.0}
        history = History(frame.sort_values("round"), per_client, {}, config, meta)
        history.params["w"] = torch.zeros(1)
        return dataclasses.replace(history, meta={**meta, **describe(task, history)})

    return make
