"""Common to AdaFedAdam's tasks: every client's examples are split into training and test."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fedlib import papers, partitioners
from fedlib.clients import ClientData
from fedlib.randomness import key
from fedlib.tasks.presets import Given

TEST_SHARE: float = papers.settings("adafedadam")["general"]["local_split_test"]


def divided(
    given: Given, x: Tensor, y: Tensor, parts: Sequence[np.ndarray], ids: Sequence[str] = ()
) -> dict[str, Any]:
    """A task's ``train`` and ``test``: 80 % and 20 % of each client's part, drawn at random."""
    train, test = partitioners.local_split(parts, TEST_SHARE, key(given.seed, given.name))
    return {"train": ClientData(x, y, train, ids), "test": ClientData(x, y, test, ids)}
