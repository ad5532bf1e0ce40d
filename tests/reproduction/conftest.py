"""Histories whose numbers are known because they were made by hand."""

import dataclasses
import math

import pandas as pd
import pytest

from fedlib import papers
from fedlib.engine import History, configure
from fedlib.results.files import describe

CELL = {
    **{"paper": "own", "item": "Table 9", "task": "synthetic", "label": "Synthetic"},
    **{"row": "a", "column": "", "algorithm": "fedavg", "overrides": {}, "options": {}},
    **{"given": {}, "metric": "accuracy", "printed": 50.0, "printed_spread": math.nan},
    **{"unclear": "", "tuned": (), "either": (), "chosen_by": "training_loss"},
    **{"seeds": 1, "rounds": 1, "clients_per_round": None, "budget": None},
}


@pytest.fixture(scope="session")
def printed():
    """A function that makes rows of ``papers.cells()``, each of what is not as in CELL."""
    assert list(papers.cells()) == list(CELL)
    return lambda *cells: pd.DataFrame([{**CELL, **cell} for cell in cells], dtype=object)


@pytest.fixture(scope="session")
def hand_made():
    """A function that makes a history as the store returns it.

    ``accuracies`` are those of the last rounds, half as large with clients alike; ``clients`` are
    their (accuracy, examples); ``cohort`` replaces the run's clients per round. All of a client's
    data, ``local``, where it is among the ``splits``, are classified as its test examples.
    """

    def make(task, algorithm="fedavg", accuracies=(0.5,), *, loss=1.0, clients=(), **settings):
        splits = settings.pop("splits", ["test"])
        diverged, cohort = (settings.pop(name, None) for name in ("diverged", "cohort"))
        config = configure(task, algorithm, **settings).config
        config = dataclasses.replace(config, clients_per_round=cohort or config.clients_per_round)
        rows = [(config.rounds, "train", "loss", loss), (config.rounds, "test", "mse_x1000", loss)]
        own = []
        for split in splits:
            for at, accuracy in enumerate(accuracies, config.rounds - len(accuracies) + 1):
                rows.append((at, split, "accuracy", accuracy))
                rows.append((at, split, "accuracy_unweighted", accuracy / 2))
            own += [(str(i), split, "accuracy", *client) for i, client in enumerate(clients)]
        frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
        columns = ["client", "split", "metric", "value", "examples"]
        per_client = pd.DataFrame(own, columns=columns)
        history = History(frame, per_client, {}, config, {"diverged": diverged, "seconds": 1.0})
        return dataclasses.replace(history, meta={**history.meta, **describe(task, history)})

    return make
