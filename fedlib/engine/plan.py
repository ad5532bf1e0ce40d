"""Which examples each client of a cohort sees in each of its local steps."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.task import ClientData


@dataclass(frozen=True)
class Layout:
    """What of a plan follows from the clients' sizes and steps alone: all but the shuffling.

    Attributes:
        active: clients that take part in each step, non-increasing.
        offsets: step s owns entries ``offsets[s]:offsets[s] + active[s]`` of the arrays ``[T]``.
        widths: the largest batch of each step; ragged: whether its batches differ in size.
        counts: int64 ``[T]``, how many examples of each batch are real.
        mask: bool ``[T, B]``, which those are, or None where every batch is full.
        row, step: int64 ``[T]``, whose batch it is (row), and which of its local steps.
        places: int64 ``[T, B]``, places in the concatenated passes of all clients.
        client, number: int64, for each pass its row and its number among the client's passes.
        segment, within: int64 ``[N]``, for each example of the passes its pass and its place there.
    """

    active: list[int]
    offsets: list[int]
    widths: list[int]
    ragged: list[bool]
    counts: Tensor
    mask: Tensor | None
    row: Tensor
    step: Tensor
    places: Tensor
    client: Tensor
    number: Tensor
    segment: Tensor
    within: Tensor

    @property
    def slots(self) -> int:
        """Examples that are computed on: a step is as wide as its largest batch."""
        return sum(a * width for a, width in zip(self.active, self.widths, strict=True))


@dataclass(frozen=True)
class Plan(Layout):
    """The batches of M clients, sorted so that those who take most steps come first.

    In step s the first ``active[s]`` clients take part; finished clients leave the program, so
    unequal clients cost no padding. Only the last batch of a client may be short, which ``mask``
    marks.

    Attributes:
        clients: population numbers ``[M]`` in row order.
        examples: n_i ``[M]``; steps: local steps ``[M]``.
        index: int64 ``[T, B]``, the examples of each batch.
        keys: int64 ``[T]``, the key of each (round, client, step) for augmentation and dropout.
    """

    clients: np.ndarray
    examples: np.ndarray
    steps: np.ndarray
    index: Tensor
    keys: Tensor


def client_keys(
    seeds: Sequence[int], round: int, clients: np.ndarray, replica: np.ndarray | None = None
) -> Tensor:
    """int64 ``[M]``, what the draws of ``clients [M]`` in a round are keyed by.

    Args:
        seeds: of the batches in each replica; replica: ``[M]``, whose each client is; default the
            first.
    """
    bases = torch.tensor([randomness.key(seed, "batches", round) for seed in seeds])
    which = torch.zeros(len(clients), dtype=torch.int64)
    return randomness.fold(
        bases[which if replica is None else torch.from_numpy(replica)], torch.from_numpy(clients)
    )


def drawn_epochs(epochs: tuple[int, int], keys: Tensor) -> np.ndarray:
    """Passes over its data of each of M clients in this round.

    Args:
        epochs: (low, high): drawn per client and round, uniform on low..high.
        keys: from :func:`client_keys`.
    """
    low, high = epochs
    draw = randomness.uniform(randomness.fold(keys, 3), 1).squeeze(-1).numpy()
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
    steps: np.ndarray,
    keys: Tensor,
    *,
    batch_size: int | None,
    shuffle: bool = True,
) -> Plan:
    """The plan of one round for the population numbers ``clients [M]``, of ``steps [M]`` each.

    Each pass over a client's data is a fresh permutation, cut into batches; the last may be short.
    The permutation is keyed by (seed, round, client, pass), so it does not depend on the other
    clients. Without ``shuffle`` the examples keep their order.

    Args:
        keys: of the clients, from :func:`client_keys`.
    """
    order = np.lexsort((clients, -steps))
    clients, steps, keys = clients[order], steps[order], keys[torch.from_numpy(order)]
    sizes = data.sizes[clients]
    batch = int(min(batch_size or sizes.max(initial=1), max(sizes.max(initial=1), 1)))
    layout = _layout(np.int64(sizes).tobytes(), np.int64(steps).tobytes(), batch)
    shuffled = _passes(data, clients, keys, layout, shuffle)
    return Plan(
        **vars(layout),
        clients=clients,
        examples=sizes,
        steps=steps,
        index=shuffled[layout.places],
        keys=randomness.fold(randomness.fold(keys[layout.row], 1), layout.step),
    )


# Clients of equal sizes have equal layouts in every round: those of the last cohorts are kept.
@functools.lru_cache(maxsize=8)
def _layout(sizes_bytes: bytes, steps_bytes: bytes, batch: int) -> Layout:
    """The layout for clients ``[M]`` in row order; sizes and steps are int64."""
    sizes = np.frombuffer(sizes_bytes, np.int64)
    taken = np.frombuffer(steps_bytes, np.int64)
    per_epoch = np.maximum(-(-sizes // batch), 1)
    passes = -(-taken // per_epoch)
    client = np.repeat(np.arange(len(sizes)), passes)
    lengths = sizes[client]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)[:-1]
    segment = np.repeat(np.arange(len(client)), lengths)

    active = [int((taken > step).sum()) for step in range(int(taken.max(initial=0)))]
    offsets = np.concatenate([[0], np.cumsum(active)]).astype(np.int64)
    step = np.repeat(np.arange(len(active)), active)
    row = np.arange(len(step)) - np.repeat(offsets[:-1], active)
    first_pass = np.concatenate([[0], np.cumsum(passes)])[:-1]
    offset = step % per_epoch[row] * batch
    start = starts[first_pass[row] + step // per_epoch[row]] + offset
    counts = np.minimum(batch, sizes[row] - offset)
    first = offsets[:-1]
    widths = np.maximum.reduceat(counts, first) if active else counts
    ragged = widths > np.minimum.reduceat(counts, first) if active else counts > 0
    column = np.arange(batch)
    mask = column < counts[:, None]
    places = np.where(mask, start[:, None] + column, start[:, None])
    number = np.arange(len(client)) - np.repeat(np.cumsum(passes) - passes, passes)
    return Layout(
        active=active,
        offsets=offsets[:-1].tolist(),
        widths=widths.tolist(),
        ragged=ragged.tolist(),
        counts=torch.from_numpy(counts),
        mask=None if bool(mask.all()) else torch.from_numpy(mask),
        row=torch.from_numpy(row),
        step=torch.from_numpy(step),
        places=torch.from_numpy(places),
        client=torch.from_numpy(client),
        number=torch.from_numpy(number),
        segment=torch.from_numpy(segment),
        within=torch.from_numpy(np.arange(len(segment)) - np.repeat(starts, lengths)),
    )


def _passes(
    data: ClientData, clients: np.ndarray, keys: Tensor, layout: Layout, shuffle: bool
) -> Tensor:
    """The example numbers of every pass of every client, shuffled within each pass.

    One sort shuffles all of them: the key is the pass number above 40 hashed bits.
    """
    starts = torch.from_numpy(data.starts[clients])
    places = starts[layout.client][layout.segment] + layout.within
    if not shuffle:
        return data.places(places)
    pass_keys = randomness.fold(randomness.fold(keys[layout.client], 2), layout.number)
    hashed = randomness.fold(pass_keys[layout.segment], layout.within) & ((1 << 40) - 1)
    order = torch.argsort((layout.segment << 40) | hashed, stable=True)
    return data.places(places[order])


def chunks(clients: np.ndarray, steps: np.ndarray, size: int) -> list[np.ndarray]:
    """The cohort cut into pieces of at most ``size`` clients that take about equally many steps.

    Args:
        clients: population numbers ``[M]``; steps: their local steps ``[M]``.
    """
    order = np.lexsort((clients, -steps))
    return np.array_split(clients[order], max(1, math.ceil(len(clients) / size)))
