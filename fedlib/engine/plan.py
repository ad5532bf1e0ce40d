"""Which examples each client of a cohort sees in each of its local steps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.tasks.base import ClientData


@dataclass(frozen=True)
class Plan:
    """The batches of M clients, sorted so that those who take most steps come first.

    In step s the first ``active[s]`` clients take part; finished clients leave the program, so
    unequal clients cost no padding. Only the last batch of a client may be short, which ``mask``
    marks.

    Attributes:
        clients: population numbers ``[M]`` in row order.
        examples: n_i ``[M]``; steps: local steps ``[M]``.
        active: clients that take part in each step, non-increasing.
        offsets: step s owns entries ``offsets[s]:offsets[s] + active[s]`` of the arrays below.
        widths: the largest batch of each step; ragged: whether its batches differ in size.
        index: int64 ``[T, B]``, the examples of each batch; counts: int64 ``[T]``, how many are
            real.
        mask: bool ``[T, B]``, or None where every batch is full.
        keys: int64 ``[T]``, the key of each (round, client, step) for augmentation and dropout.
    """

    clients: np.ndarray
    examples: np.ndarray
    steps: np.ndarray
    active: list[int]
    offsets: list[int]
    widths: list[int]
    ragged: list[bool]
    index: Tensor
    counts: Tensor
    mask: Tensor | None
    keys: Tensor

    def padding(self) -> float:
        """The fraction of example slots that hold no example."""
        return 1.0 - float(self.counts.sum()) / max(self.index.numel(), 1)


def drawn_epochs(
    epochs: int | tuple[int, int], clients: np.ndarray, seed: int, round: int
) -> np.ndarray:
    """Passes over its data of each of ``clients [M]`` in this round.

    Args:
        epochs: one number, or (low, high): drawn per client and round, uniform on low..high.
    """
    if isinstance(epochs, int):
        return np.full(len(clients), epochs)
    low, high = epochs
    keys = randomness.fold(_client_keys(seed, round, clients), 3)
    draw = randomness.uniform(keys, 1).squeeze(-1).numpy()
    return low + np.floor(draw * (high - low + 1)).astype(np.int64)


def local_steps(
    sizes: np.ndarray,
    batch_size: int | None,
    epochs: int | np.ndarray,
    steps: int | Sequence[int] | None,
    clients: np.ndarray,
) -> np.ndarray:
    """Local steps of each client: ``epochs`` passes, or ``steps`` (one number or one each)."""
    per_epoch = -(-sizes // (batch_size or np.maximum(sizes, 1)))
    if steps is None:
        return per_epoch * epochs
    wanted = np.full(len(sizes), steps) if isinstance(steps, int) else np.asarray(steps)[clients]
    return np.where(sizes > 0, wanted, 0)


def make_plan(
    data: ClientData,
    clients: np.ndarray,
    *,
    batch_size: int | None,
    local_epochs: int | np.ndarray,
    steps: int | Sequence[int] | None,
    seed: int,
    round: int,
    shuffle: bool = True,
) -> Plan:
    """The plan of one round for the population numbers ``clients [M]``.

    Each pass over a client's data is a fresh permutation, cut into batches; the last may be short.
    The permutation is keyed by (seed, round, client, pass), so it does not depend on the other
    clients. Without ``shuffle`` the examples keep their order.
    """
    taken = local_steps(data.sizes[clients], batch_size, local_epochs, steps, clients)
    order = np.lexsort((clients, -taken))
    clients, taken = clients[order], taken[order]
    sizes = data.sizes[clients]
    batch = int(min(batch_size or sizes.max(initial=1), max(sizes.max(initial=1), 1)))
    per_epoch = np.maximum(-(-sizes // batch), 1)
    passes = -(-taken // per_epoch)
    shuffled, starts = _passes(data, clients, passes, seed, round, shuffle)

    active = [int((taken > step).sum()) for step in range(int(taken.max(initial=0)))]
    offsets = np.concatenate([[0], np.cumsum(active)]).astype(np.int64)
    step = np.repeat(np.arange(len(active)), active)
    row = np.arange(len(step)) - np.repeat(offsets[:-1], active)
    first_pass = np.concatenate([[0], np.cumsum(passes)])[:-1]
    within = step % per_epoch[row] * batch
    start = starts[first_pass[row] + step // per_epoch[row]] + within
    counts = np.minimum(batch, sizes[row] - within)
    first = offsets[:-1]
    widths = np.maximum.reduceat(counts, first) if active else counts
    ragged = widths > np.minimum.reduceat(counts, first) if active else counts > 0
    slots = np.arange(batch)
    mask = slots < counts[:, None]
    index = shuffled[np.where(mask, start[:, None] + slots, start[:, None])]
    keys = randomness.fold(
        randomness.fold(_client_keys(seed, round, clients)[torch.from_numpy(row)], 1),
        torch.from_numpy(step),
    )
    return Plan(
        clients=clients,
        examples=sizes,
        steps=taken,
        active=active,
        offsets=offsets[:-1].tolist(),
        widths=widths.tolist(),
        ragged=ragged.tolist(),
        index=index,
        counts=torch.from_numpy(counts),
        mask=None if bool(mask.all()) else torch.from_numpy(mask),
        keys=keys,
    )


def _client_keys(seed: int, round: int, clients: np.ndarray) -> Tensor:
    base = torch.tensor(randomness.key(seed, "batches", round))
    return randomness.fold(base.expand(len(clients)), torch.from_numpy(clients))


def _passes(
    data: ClientData,
    clients: np.ndarray,
    passes: np.ndarray,
    seed: int,
    round: int,
    shuffle: bool,
) -> tuple[Tensor, np.ndarray]:
    """Every pass of every client: shuffled example numbers, and where each pass starts.

    One sort shuffles all of them: the key is the pass number above 40 hashed bits.
    """
    client = np.repeat(np.arange(len(clients)), passes)
    lengths = data.sizes[clients][client]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    segment = np.repeat(np.arange(len(client)), lengths)
    within = np.arange(len(segment)) - np.repeat(starts[:-1], lengths)
    segments, positions = torch.from_numpy(segment), torch.from_numpy(within)
    places = torch.from_numpy(data.starts[clients][client])[segments] + positions
    if not shuffle:
        return data.places(places), starts[:-1]
    pass_number = np.arange(len(client)) - np.repeat(np.cumsum(passes) - passes, passes)
    keys = randomness.fold(
        randomness.fold(_client_keys(seed, round, clients)[torch.from_numpy(client)], 2),
        torch.from_numpy(pass_number),
    )
    hashed = randomness.fold(keys[segments], positions) & ((1 << 40) - 1)
    order = torch.argsort((segments << 40) | hashed, stable=True)
    return data.places(places[order]), starts[:-1]


def chunks(clients: np.ndarray, steps: np.ndarray, size: int) -> list[np.ndarray]:
    """The cohort cut into pieces of at most ``size`` clients that take about equally many steps.

    Args:
        clients: population numbers ``[M]``; steps: their local steps ``[M]``.
    """
    order = np.lexsort((clients, -steps))
    return np.array_split(clients[order], max(1, math.ceil(len(clients) / size)))
