"""Shakespeare of FedOpt and Mime: the next character of a role's speech, a two-layer LSTM."""

from __future__ import annotations

import os

import numpy as np

from fedlib import datasets, papers
from fedlib.datasets import text
from fedlib.datasets.dataset import TextDataset
from fedlib.errors import Error, require
from fedlib.losses import masked_accuracy, sequence_cross_entropy
from fedlib.models import ShakespeareLSTM
from fedlib.task import ClientData, Task
from fedlib.tasks import settings, texts

QUICK = {"clients": 20, "rows": 32, "width": 0.125, "length": 20}


def load(
    preset: str,
    seed: int,
    data_root: str | os.PathLike[str] | None = None,
    data: str = "shakespeare",
    clients: int | None = None,
    rows: int | None = None,
    width: float | None = None,
    length: int | None = None,
) -> Task:
    """Roles as clients, 10 a round, batches of 4 rows of 80 characters, 1500 rounds.

    Sources: FedOpt section 4 and appendix C.3 (data), Table 7 (batch), Tables 8 and 9
    (hyperparameters); its documentation says 1200 rounds, the paper 1500. Mime trains the same
    model. Where the paper is silent this follows its public code: each snippet is encoded apart
    (:func:`fedlib.datasets.text.shakespeare_chunks`), a client weighs as many target characters as
    it has, the loss is the mean over all 80 steps, padding included, and accuracy leaves out
    padding only. That code shuffles a client's snippets, this its rows.

    ``quick``: 20 roles of at most 32 rows of 20 characters, an eighth of the width, 30 rounds.

    Args:
        seed: of the choice of roles where there are more than ``clients``.
        data: the prepared data set; without it the offline stand-in of ``shakespeare``.
        clients: how many roles; default 20 (``quick``) or all that are in both splits.
        rows: most rows of a client, its first ones, in each split; 0 for all of them. Default 32
            (``quick``) or all.
        width: factor on embedding and hidden units.
        length: characters in a row.
    """
    quick = preset == "quick"
    width = (QUICK["width"] if quick else 1.0) if width is None else width
    length = (int(QUICK["length"]) if quick else text.SEQUENCE) if length is None else length
    rows = (int(QUICK["rows"]) if quick else 0) if rows is None else rows
    require(isinstance(rows, int) and rows >= 0, "rows", rows, "a whole number >= 0")
    dataset = datasets.load_text(data, data_root)
    shared = np.intersect1d(dataset.client("train"), dataset.client("test"))
    if not len(shared):
        raise Error(f"task shakespeare: no client of {dataset.name!r} is in both splits")
    chosen = texts.pick(shared, clients, int(QUICK["clients"]) if quick else None, seed)
    train, train_sizes = _encode(dataset, "train", chosen, rows, length)
    test, test_sizes = _encode(dataset, "test", chosen, rows, length)
    stated = papers.settings("fedopt")
    ids = [dataset.clients[code] for code in chosen.tolist()]
    return Task(
        name="shakespeare",
        model=lambda: ShakespeareLSTM(text.CHARACTERS, width=width),
        train=_client_data(train, train_sizes, ids),
        test=_client_data(test, test_sizes, ids, weigh=False),
        loss=sequence_cross_entropy,
        metrics={"accuracy": masked_accuracy((text.PAD,))},
        rounds=30 if quick else stated["rounds"]["Shakespeare"],
        clients_per_round=stated["federated"]["clients_per_round_default"],
        batch_size=stated["batch_size"]["Shakespeare"],
        hyperparameters=settings.mime("Shakespeare") | settings.fedopt("Shakespeare"),
        preset=preset,
        seed=seed,
        options={
            "data": dataset.name,
            "clients": len(chosen),
            "rows": rows,
            "width": float(width),
            "length": length,
        },
        stand_in=dataset.stand_in,
        source=texts.source(dataset, "shakespeare", "Shakespeare"),
        fingerprint=texts.encoded_fingerprint(
            train=train, train_sizes=train_sizes, test=test, test_sizes=test_sizes
        ),
        label="Shakespeare",
    )


def _encode(
    dataset: TextDataset, split: str, chosen: np.ndarray, most: int, length: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows uint8 ``[N, length + 1]`` of the chosen clients, client after client, and how many."""
    arrays = dataset.arrays
    chunks, counts = text.shakespeare_chunks(
        arrays[f"{split}_text"], arrays[f"{split}_offsets"], length
    )
    codes = np.repeat(dataset.client(split), counts)
    parts = [part[: most or None] for part in texts.by_client(codes, chosen)]
    return chunks[np.concatenate(parts)], np.array([len(part) for part in parts], dtype=np.int64)


def _client_data(
    rows: np.ndarray, sizes: np.ndarray, ids: list[str], weigh: bool = True
) -> ClientData:
    starts = np.cumsum(sizes) - sizes
    targets = np.count_nonzero(rows[:, 1:] != text.PAD, axis=1)
    weights = np.add.reduceat(targets, starts).astype(np.float64) if weigh else None
    whole = texts.tensor(rows)
    return ClientData.contiguous(whole[:, :-1], whole[:, 1:], starts, sizes, ids, weights)
