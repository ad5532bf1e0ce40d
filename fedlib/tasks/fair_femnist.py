"""AdaFedAdam's Femnist setup: characters by writer, an MLP, every client in every round.

Without FEMNIST the quick preset has scikit-learn's handwritten digits, as pictures of 14 x 14
points. Synthetic writers of different sizes and hands write them.
"""

import math
from functools import partial

import numpy as np
import torch

from fedlib import papers
from fedlib.errors import require
from fedlib.models import MLP
from fedlib.task import Fixed, Task
from fedlib.tasks import emnist, fair, images, settings
from fedlib.tasks.emnist import CLASSES, PIXELS
from fedlib.tasks.presets import AtMost, Given

LABEL = "Femnist"
SIDE = math.isqrt(PIXELS)
HIDDEN = papers.settings("adafedadam")["setups"][LABEL]["hidden_units_derived"]
RUN = settings.adafedadam_run(LABEL)
paper = {**emnist.PAPER, "width": 1.0, "init": "torch", "pool": 1, **RUN}
quick = {**paper, "clients": AtMost(20), "width": 0.25, "pool": 2, "rounds": 100}


def load(given: Given) -> Task:
    """3500 writers, all in every round, batches of 10, 500 rounds.

    Source: AdaFedAdam, appendix C.1. All of a writer's examples, from both splits, are split at
    random into 80 % training and 20 % test. The pseudo-code loops over all clients. Sampling fewer
    (``clients_per_round``) is a cheaper reading. Paper is 1 and ink 0, as in LEAF's files.

    Options:
        seed: seed of the choice of writers, if there are more than ``clients``, and of their
            splits.
        data: the prepared data set, with writers. Default: ``femnist``, else ``emnist``, else
            the offline stand-in of ``femnist``.
        clients: number of writers.
        width: factor on the hidden layer.
        init: initial values of the model. ``"torch"``, as the authors' layers do, or ``"keras"``,
            Glorot-uniform with zero biases.
        pool: side of the squares of pixels that are averaged to one. 1 averages nothing.
    """
    writers = emnist.load_writers(given, prefer=("femnist", "emnist"))
    splits = [writers.tensors(split, ink="dark") for split in ("train", "test")]
    x, y = (torch.cat(both) for both in zip(*splits, strict=True))
    parts = [
        np.concatenate([train, test + len(splits[0][0])])
        for train, test in zip(writers.train, writers.test, strict=True)
    ]
    pool = given.pool
    require(pool > 0 and SIDE % pool == 0, "pool", pool, f"a divisor of {SIDE}")
    return Task(
        name=given.name,
        model=lambda: MLP(PIXELS // pool**2, HIDDEN, CLASSES, given.width, given.init),
        transform=Fixed(partial(images.pooled_pixels, pool=pool)),
        hyperparameters=settings.adafedadam(LABEL),
        **fair.divided(given, x, y, parts, writers.ids),
        **writers.origin(),
    )
