"""The batches of a round: the examples of each step, and their transfer to the device."""

import functools
import math
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.algorithms.base import Client, State
from fedlib.arguments import called
from fedlib.clients import ClientData
from fedlib.engine.config import RunConfig
from fedlib.engine.oracles import Batch
from fedlib.errors import Error
from fedlib.losses import counted_labels
from fedlib.task import Fixed, Task, Transform, identity


@dataclass(frozen=True)
class Layout:
    """The part of a :class:`Batching` that depends on the clients' sizes and steps alone.

    Only the shuffling is left out.

    Attributes:
        active: clients that take part in each step, non-increasing.
        offsets: step s owns entries ``offsets[s]:offsets[s] + active[s]`` of the arrays ``[T]``.
        widths: the largest batch of each step.
        ragged: whether the batches of a step differ in size.
        counts: int64 ``[T]``, the number of real examples of each batch.
        mask: bool ``[T, B]``, True for real examples, or None if every batch is full.
        row, step: int64 ``[T]``, the row and the local step of each batch.
        places: int64 ``[T, B]``, positions in the concatenated passes of all clients.
        client, number: int64, for each pass its row and its number among the client's passes.
        segment, within: int64 ``[N]``, for each example of the passes its pass and position there.
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


@dataclass(frozen=True)
class Batching(Layout):
    """The batches of M clients, sorted so that those who take most steps come first.

    In step s the first ``active[s]`` clients take part. Finished clients drop out, so
    unequal clients cost no padding. Only the last batch of a client may be short, which ``mask``
    marks.

    Attributes:
        clients: population numbers ``[M]`` in row order.
        examples, steps: n_i ``[M]`` and local steps ``[M]``.
        index: int64 ``[T, B]``, the examples of each batch.
        keys: int64 ``[T]``, the key of each (round, client, step) for augmentation and dropout.
    """

    clients: np.ndarray
    examples: np.ndarray
    steps: np.ndarray
    index: Tensor
    keys: Tensor


def client_keys(seed: int, round: int, clients: np.ndarray) -> Tensor:
    """int64 ``[M]``, the keys of the draws of ``clients [M]`` in a round.

    Args:
        seed: seed of the batches.
    """
    base = torch.tensor([randomness.key(seed, "batches", round)])
    return randomness.fold(base, torch.from_numpy(clients))


def drawn_epochs(epochs: tuple[int, int], keys: Tensor) -> np.ndarray:
    """The number of passes of each of M clients over its data in this round.

    Args:
        epochs: (low, high): drawn per client and round, uniform on low..high.
        keys: result of :func:`client_keys`.
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
    given = np.full(len(sizes), steps) if isinstance(steps, int) else np.asarray(steps)[clients]
    return np.where(sizes > 0, given, 0)


def make_batching(
    data: ClientData,
    clients: np.ndarray,
    steps: np.ndarray,
    keys: Tensor,
    *,
    batch_size: int | None,
    shuffle: bool = True,
) -> Batching:
    """The batches of one round for the population numbers ``clients [M]``, of ``steps [M]`` each.

    Each pass over a client's data is a fresh permutation, split into batches. The last may be
    short. The permutation is keyed by (seed, round, client, pass), so it does not depend on the
    other clients. Without ``shuffle`` the examples keep their order.

    Args:
        keys: the clients' keys from :func:`client_keys`.
    """
    order = np.lexsort((clients, -steps))
    clients, steps, keys = clients[order], steps[order], keys[torch.from_numpy(order)]
    sizes = data.sizes[clients]
    batch = int(min(batch_size or sizes.max(initial=1), max(sizes.max(initial=1), 1)))
    layout = _layout(np.int64(sizes).tobytes(), np.int64(steps).tobytes(), batch)
    shuffled = _passes(data, clients, keys, layout, shuffle)
    return Batching(
        **vars(layout),
        clients=clients,
        examples=sizes,
        steps=steps,
        index=gathered(shuffled, layout.places),
        keys=randomness.fold(randomness.fold(gathered(keys, layout.row), 1), layout.step),
    )


# Clients of equal sizes have equal layouts in every round, so those of the last cohorts are cached.
@functools.lru_cache(maxsize=8)
def _layout(sizes_bytes: bytes, steps_bytes: bytes, batch: int) -> Layout:
    """The layout for clients ``[M]`` in row order. Sizes and steps are int64."""
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
    places = gathered(gathered(starts, layout.client), layout.segment) + layout.within
    if not shuffle:
        return gathered(data.index, places)
    pass_keys = randomness.fold(randomness.fold(gathered(keys, layout.client), 2), layout.number)
    hashed = randomness.fold(gathered(pass_keys, layout.segment), layout.within) & ((1 << 40) - 1)
    order = torch.argsort((layout.segment << 40) | hashed, stable=True)
    return gathered(data.index, gathered(places, order))


def gathered(values: Tensor, index: Tensor) -> Tensor:
    """``values[index]``, faster: torch copies whole rows, images on a CPU in a tenth of the time.

    Args:
        values, index: ``[N, ...]``, and numbers of rows from 0 to N - 1, of any shape.
    """
    return values.index_select(0, index.flatten()).unflatten(0, index.shape)


def chunks(clients: np.ndarray, steps: np.ndarray, size: int) -> list[np.ndarray]:
    """Split the cohort into pieces of at most ``size`` clients with about equally many steps.

    Args:
        clients, steps: population numbers ``[M]`` and their local steps ``[M]``.
    """
    order = np.lexsort((clients, -steps))
    return np.array_split(clients[order], max(1, math.ceil(len(clients) / size)))


def upload(tensors: Mapping[str, Tensor | None], device: torch.device) -> dict[str, Tensor]:
    """Tensors on a device, without those that are None. The host does not wait for CUDA."""
    sent = {}
    for name, tensor in tensors.items():
        if tensor is not None:
            host = tensor.contiguous().pin_memory() if device.type == "cuda" else tensor
            sent[name] = host.to(device, non_blocking=True)
    return sent


# Gather a round's inputs at once up to this many bytes, and above it batch by batch.
GATHER_BYTES = 256 * 2**20
# Deterministic inputs are cached if they take at most this many bytes.
KEPT_BYTES = 64 * 2**20
# Examples of a client per step when all of its data is evaluated.
WHOLE_BATCH = 64


@dataclass(frozen=True)
class Round:
    """The facts about a round that local work needs.

    Attributes:
        number: the number of the round, from 0.
        config: the settings that the run's configurations share.
        cohort, steps: the clients that take part ``[M]``, ascending, and the local steps of each.
    """

    number: int
    config: RunConfig
    cohort: np.ndarray
    steps: np.ndarray

    def steps_of(self, clients: np.ndarray) -> np.ndarray:
        """The local steps of some clients of the cohort."""
        taken: np.ndarray = self.steps[np.searchsorted(self.cohort, clients)]
        return taken


class Feed:
    """A task's training data, moved to the device once, and its sampling of cohorts.

    Args:
        task: the task to train on.
        seeds: seeds of client sampling and batches, see :class:`fedlib.engine.RunConfig`.
        dtype, device: type and device of the inputs (``dtype`` if they are floating point).
        measured_on: see :attr:`fedlib.Algorithm.measured_on`.
    """

    def __init__(
        self,
        task: Task,
        seeds: Mapping[str, int],
        dtype: torch.dtype,
        device: torch.device,
        measured_on: str = "train",
    ) -> None:
        self.task, self.data, self.seeds = task, task.train, seeds
        self.whole = self.data if measured_on == "train" else _measured(task, measured_on)
        self.dtype, self.device = dtype, device
        self.transform, self.y = task.transform, self.data.y.to(device)
        example = task.transform(self.data.x[:1].clone().unsqueeze(0), None)
        # Size of one example, as model input or as stored, whichever is larger.
        self.bytes_each = max(example.numel() * dtype.itemsize, self.data.x[:1].numel())
        # The weight of each example's labels in a mean, and in a sum if they have weights. None if
        # all count the same.
        labels, whole = counted_labels(task.loss, self.data.y), task.reduction == "sum"
        if labels is not None and whole and getattr(task.loss, "weight", None) is None:
            labels = None
        alike = labels is None or bool((labels == (1 if whole else labels.max())).all())
        self.labels = None if labels is None or alike else labels.to(dtype)
        if isinstance(self.transform, Fixed) and len(self.y) * self.bytes_each <= KEPT_BYTES:
            parts = [
                transformed(self.transform, part.clone().unsqueeze(0), None, dtype, device)
                for part in self.data.x.split(WHOLE_BATCH**2)  # a transform may write to it
            ]
            self.x, self.transform = torch.cat(parts, 1).squeeze(0), identity
        else:
            self.x = self.data.x if reads(self.transform) else self.data.x.to(device)

    def cohort(self, round: int, size: int) -> np.ndarray:
        """The clients of a round, ascending: those the task names, else ``size`` at random.

        Raises:
            Error: the task does not name different clients.
        """
        population = len(self.data)
        if size == population and not self.names_cohorts:
            return np.arange(size)
        if self.task.cohorts is None:
            draw = randomness.numpy_generator(self.seeds["sampling"], "cohort", round)
            return np.sort(draw.choice(population, size, False))
        asked = f"task {self.task.name}: cohorts({round}, {size})"
        given = np.asarray(called(asked, self.task.cohorts, round, size))
        named = np.unique(given.astype(np.int64) if given.dtype.kind in "iu" else [])
        whole = given.ndim == 1 and len(named) == len(given)
        if not whole or (len(named) and not 0 <= named[0] <= named[-1] < population):
            raise Error(f"{asked} must give different clients of 0..{population - 1}")
        return named.astype(np.int64)

    def cohorts_until(self, rounds: int, size: int) -> int:
        """A sum over the cohorts that the task names for the first rounds, or 0 if it names none.

        A run that resumes from a checkpoint needs the same sum.
        """
        total = 0
        for round in range(rounds if self.names_cohorts else 0):
            total = zlib.crc32(self.cohort(round, size).tobytes(), total)
        return total

    @property
    def names_cohorts(self) -> bool:
        """Whether a user's function chooses the clients of a round."""
        return self.task.cohorts is not None and not self.task.described

    def require_same_cohorts(self, rounds: int, size: int) -> None:
        """Require that the task's own draw is a function of the round.

        Raises:
            Error: one of the first five rounds has other clients when it is drawn again.
        """
        for round in range(min(rounds, 5) if self.names_cohorts else 0):
            if not np.array_equal(self.cohort(round, size), self.cohort(round, size)):
                raise Error(
                    f"task {self.task.name}: cohorts({round}, {size}) gives others when it is "
                    "called again, so no run could be repeated or continued. Draw them by "
                    "np.random.default_rng(round)"
                )

    def halves(self, cohort: np.ndarray, round: int) -> tuple[np.ndarray, np.ndarray]:
        """The measuring and the training clients of a cohort, at random."""
        draw = randomness.numpy_generator(self.seeds["sampling"], "halves", round)
        mixed, half = draw.permutation(cohort), len(cohort) // 2
        return np.sort(mixed[:half]), np.sort(mixed[half:])

    def round(self, number: int, config: RunConfig, cohort: np.ndarray) -> Round:
        """A round of ``cohort [M]``, ascending, with the local steps of each client."""
        epochs: int | np.ndarray
        if isinstance(config.local_epochs, int):
            epochs = config.local_epochs
        else:
            keys = client_keys(self.seeds["batches"], number, cohort)
            epochs = drawn_epochs(config.local_epochs, keys)
        sizes = self.data.sizes[cohort]
        steps = local_steps(sizes, config.batch_size, epochs, config.local_steps, cohort)
        return Round(number, config, cohort, steps)

    def batching(self, clients: np.ndarray, round: Round) -> Batching:
        """The batches of ``clients`` in this round."""
        keys = client_keys(self.seeds["batches"], round.number, clients)
        steps = round.steps_of(clients)
        return make_batching(self.data, clients, steps, keys, batch_size=round.config.batch_size)

    def whole_batching(self, clients: np.ndarray) -> Batching:
        """All examples of ``clients`` once, in their own order."""
        keys, steps = torch.zeros(len(clients), dtype=torch.int64), self.whole_steps(clients)
        return make_batching(
            self.whole, clients, steps, keys, batch_size=WHOLE_BATCH, shuffle=False
        )

    def whole_steps(self, clients: np.ndarray) -> np.ndarray:
        """The number of batches for all examples of each of ``clients [M]``."""
        steps: np.ndarray = -(-self.whole.sizes[clients] // WHOLE_BATCH)
        return steps

    def inputs(self, index: Tensor, keys: Tensor | None) -> Tensor:
        """Model inputs ``[T, B, ...]`` for examples ``index [T, B]`` of batches with ``keys [T]``.

        Without keys they are inputs for evaluation.
        """
        per_example = None
        if keys is not None and not (
            self.transform is identity or isinstance(self.transform, Fixed)
        ):
            slots = torch.arange(index.shape[1], device=self.device)
            keys = keys.to(self.device).unsqueeze(1).expand(index.shape).contiguous()
            per_example = randomness.fold(keys, slots)
        x = gathered(self.x, index.to(self.x.device))
        return transformed(self.transform, x, per_example, self.dtype, self.device)

    def batches(self, batching: Batching, sent: Mapping[str, Tensor]) -> Iterator[Batch]:
        """The batches of each step in turn.

        Args:
            sent: the ``index``, ``mask`` and ``keys`` on the device, if there are any, and
                ``weights [T, B]``, the weight of each example's loss. With keys there are
                augmentation and dropout.
        """
        index, keys = sent["index"], sent.get("keys")
        parts = {"y": gathered(self.y, index), "weights": sent["weights"]}
        parts |= {name: sent[name] for name in ("keys", "mask") if name in sent}
        at_once = index.numel() * self.bytes_each <= GATHER_BYTES
        if reads(self.transform):
            index = batching.index
        if at_once:
            parts["x"] = self.inputs(index, keys)
        # Steps are consecutive in all of these, so one split per array replaces a slice per step.
        columns = [part.split(batching.active) for part in parts.values()]
        for step, arrays in enumerate(zip(*columns, strict=True)):
            now, width = dict(zip(parts, arrays, strict=True)), batching.widths[step]
            if width < index.shape[1]:
                now = {n: part if n == "keys" else part[:, :width] for n, part in now.items()}
            if not at_once:
                first = batching.offsets[step]
                some = index[first : first + batching.active[step], :width]
                now["x"] = self.inputs(some, now.get("keys"))
            if not batching.ragged[step]:
                now.pop("mask", None)
            yield Batch(**now)

    def seen(self, batching: Batching) -> Tensor:
        """The weight of each batch in the mean training loss, ``[T]``: its examples, or labels."""
        return self._counted(batching).sum(1)

    def _counted(self, batching: Batching) -> Tensor:
        """The weight of each example, ``[T, B]``: 1, or that of its labels. Padding has 0."""
        if self.labels is None:
            mask = torch.ones(batching.index.shape) if batching.mask is None else batching.mask
            return mask.to(self.dtype)
        labels = self.labels[batching.index]
        return labels if batching.mask is None else labels * batching.mask

    def example_weights(self, batching: Batching) -> Tensor:
        """The weight of each example's loss in its batch's loss, ``[T, B]``: 1/count or 1."""
        counted = self._counted(batching)
        if self.task.reduction == "mean":
            return counted / _or_one(counted.sum(1, keepdim=True))
        return counted

    def whole_weights(self, batching: Batching, batch_size: int | None) -> Tensor:
        """The weight of each example's loss in the loss of a client's whole data, ``[T, B]``."""
        counted = self._counted(batching)
        scale = whole_scale(self.task, batching.examples, batch_size)
        if self.labels is not None:
            total = counted.new_zeros(len(batching.clients)).index_add_(
                0, batching.row, counted.sum(1)
            )
            scales = torch.from_numpy(scale).to(self.dtype) / _or_one(total)
            return counted * scales[batching.row].unsqueeze(1)
        scale = scale / np.maximum(batching.examples, 1)
        return counted * torch.from_numpy(scale).to(self.dtype)[batching.row].unsqueeze(1)

    def counts(self, clients: np.ndarray, round: Round) -> dict[str, Tensor]:
        """The examples, the steps and the numbers of ``clients [M]``, on the host."""
        return {
            "examples": torch.as_tensor(self.data.sizes[clients], dtype=self.dtype),
            "steps": torch.as_tensor(round.steps_of(clients), dtype=self.dtype),
            "number": torch.from_numpy(clients.astype(np.int64)),
        }

    def client(
        self,
        sent: Mapping[str, Tensor],
        round: Round,
        memory: State | None = None,
        measured: State | None = None,
    ) -> Client:
        """The clients' information: scalars ``[M, 1, 1]``.

        Args:
            sent: result of :meth:`counts`, on the device.
        """
        return Client(
            examples=sent["examples"].view(-1, 1, 1),
            steps=sent["steps"].view(-1, 1, 1),
            round=round.number,
            rounds=round.config.rounds,
            cohort=len(round.cohort),
            population=len(self.data),
            memory=memory or {},
            measured=measured or {},
            number=sent["number"].view(-1, 1, 1),
            key=randomness.key(self.seeds["batches"], "batches", round.number),
        )


def _or_one(total: Tensor) -> Tensor:
    """A divisor that replaces 0 by 1."""
    return torch.where(total > 0, total, 1)


def reads(transform: Transform) -> bool:
    """Whether a transform takes its inputs on the host and reads only the data it needs."""
    return isinstance(transform, Fixed) and transform.read is not None


def transformed(
    transform: Transform,
    x: Tensor,
    keys: Tensor | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Model inputs on the device for raw inputs ``x``. Floating-point inputs are in ``dtype``."""
    if isinstance(transform, Fixed) and transform.read is not None:
        inputs = transform.function(upload(transform.read(x), device), None)
    else:
        inputs = transform(x.to(device), keys)
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _measured(task: Task, split: str) -> ClientData:
    """The data of a split, whose examples must be among those that the training clients have."""
    data = task.evaluated.get(split)
    if data is None:
        known = ", ".join(map(repr, ("train", *task.evaluated)))
        raise Error(f"task {task.name} has no data measured_on={split!r} (allowed: {known})")
    train = task.train
    examples = torch.equal(data.x, train.x) and torch.equal(data.y, train.y)
    if not examples or not np.array_equal(data.ids, train.ids):
        raise Error(
            f"task {task.name}: measured_on={split!r} needs data of the training clients, in their "
            "order: give task.evaluated ClientData with train's own x, y and ids"
        )
    return data


def whole_scale(task: Task, sizes: np.ndarray, batch_size: int | None) -> np.ndarray:
    """The factor on the mean loss over all of a client's examples, ``[M]``.

    If a task sums over its batches, a client's whole loss is in units of one batch.
    """
    if task.reduction == "mean":
        return np.ones(len(sizes))
    return sizes.astype(np.float64) if batch_size is None else np.full(len(sizes), 1.0 * batch_size)
