"""Shakespeare of FedOpt and Mime: the next character of a role's speech, a two-layer LSTM."""

import numpy as np
from torch import nn

from fedlib import datasets, papers
from fedlib.clients import ClientData
from fedlib.datasets import text
from fedlib.datasets.dataset import TextDataset
from fedlib.errors import Error
from fedlib.losses import masked_accuracy, sequence_cross_entropy
from fedlib.models import ShakespeareLSTM, WindowModel
from fedlib.models.layers import scaled
from fedlib.task import Task
from fedlib.tasks import settings, texts
from fedlib.tasks.presets import ALL, AtMost, Given, Preset, choose_data, small_network

LABEL = "Shakespeare"
paper: Preset = {
    "data": "shakespeare",
    "clients": ALL,
    "rows": 0,
    "network": "lstm",
    "width": 1.0,
    "length": papers.settings("fedopt")["datasets"]["shakespeare"]["sequence_length"],
    **settings.fedopt_run(LABEL),
}
quick = {
    **paper,
    **{"network": "window", "clients": AtMost(60), "rows": 8, "length": 20, "rounds": 250},
}
CONTEXT, VECTOR = 3, 8  # characters that the small network sees, and the numbers for each


def load(given: Given) -> Task:
    """Roles as clients, 10 a round, batches of 4 rows of 80 characters, 1500 rounds.

    Sources: FedOpt section 4 and appendix C.3 (data), Table 7 (batch), Tables 8 and 9
    (hyperparameters). Its documentation says 1200 rounds, the paper 1500. Mime trains the same
    model. If the paper is silent this follows its public code: each snippet is encoded separately
    (:func:`fedlib.datasets.text.shakespeare_chunks`), a client's weight is its number of target
    characters, the loss is the mean over all 80 steps, padding included, and accuracy leaves out
    padding only. That code shuffles a client's snippets, this one its rows.

    Options:
        seed: seed of the choice of roles if there are more than ``clients``. The small network has
            the same roles for every seed.
        data: the prepared data set. Default: the offline stand-in of ``shakespeare``.
        clients: number of clients, from the roles that are in both splits.
        rows: largest number of a client's rows in each split, the first ones. 0 for all of them.
        network: ``"lstm"``, or ``"window"``, a dense layer on 8 numbers for each of the last 3
            characters, with its own learning rates (:func:`fedlib.tasks.settings.small`).
        width: factor on embedding and hidden units.
        length: characters in a row.
    """
    small = small_network(given, "lstm", "window")
    dataset = datasets.load_text(choose_data(given), given.data_root)
    shared = np.intersect1d(dataset.client("train"), dataset.client("test"))
    if not len(shared):
        raise Error(f"task shakespeare: no client of {dataset.name!r} is in both splits")
    # Results of the small problem are means of one setting over seeds, so seeds share the roles.
    chosen = texts.pick(shared, given.clients, 0 if small else given.seed)
    train, train_sizes = _encode(dataset, "train", chosen, given.rows, given.length)
    test, test_sizes = _encode(dataset, "test", chosen, given.rows, given.length)
    ids = [dataset.clients[code] for code in chosen.tolist()]
    arrays = {"train": train, "train_sizes": train_sizes, "test": test, "test_sizes": test_sizes}

    def model() -> nn.Module:
        if small:
            return WindowModel(text.CHARACTERS, CONTEXT, scaled(VECTOR, given.width))
        return ShakespeareLSTM(text.CHARACTERS, width=given.width)

    return Task(
        name=given.name,
        model=model,
        train=_client_data(train, train_sizes, ids),
        test=_client_data(test, test_sizes, ids, weigh=False),
        loss=sequence_cross_entropy,
        metrics={"accuracy": masked_accuracy((text.PAD,))},
        hyperparameters=settings.mime("Shakespeare")
        | (settings.small if small else settings.fedopt)(LABEL),
        options={"data": dataset.name, "clients": len(chosen)},
        **texts.origin(dataset, "shakespeare", "Shakespeare", **arrays),
    )


def _encode(
    dataset: TextDataset, split: str, chosen: np.ndarray, most: int, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows uint8 ``[N, length + 1]`` of the chosen clients, in their order, and their counts."""
    arrays = dataset.arrays
    chunks, counts = text.shakespeare_chunks(
        arrays[f"{split}_text"], arrays[f"{split}_offsets"], length
    )
    codes = np.repeat(dataset.client(split), counts)
    held, sizes = texts.packed(codes, chosen, most)
    return chunks[held], sizes


def _client_data(
    rows: np.ndarray, sizes: np.ndarray, ids: list[str], weigh: bool = True
) -> ClientData:
    parts = texts.consecutive(sizes)
    targets = np.count_nonzero(rows[:, 1:] != text.PAD, axis=1)
    weights = [targets[part].sum() for part in parts] if weigh else None
    tokens = texts.tensor(rows)
    return ClientData(tokens[:, :-1], tokens[:, 1:], parts, ids, weights)
