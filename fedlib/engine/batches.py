"""The batches of a round: which examples in which step, and their way to the device."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedlib import process, randomness
from fedlib.algorithms.base import Client, State
from fedlib.engine.config import Configured, RunConfig
from fedlib.engine.oracles import Batch
from fedlib.engine.states import map_state
from fedlib.errors import Error
from fedlib.task import ClientData, Fixed, Task, Transform, identity


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


class Received(Mapping[str, Any]):
    """Server states ``[S C, .]`` as clients receive them: each its own replica's, ``[M, C, .]``.

    Most clients ask for ``x`` alone, so a tensor is copied when it is asked for.
    """

    def __init__(self, server: State, replica: Tensor, replicas: int) -> None:
        self._server, self._replica, self._replicas = server, replica, replicas
        self._received: State = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._received:
            part = map_state(self._own, {name: self._server[name]})
            self._received |= part
        return self._received[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._server)

    def __len__(self) -> int:
        return len(self._server)

    def _own(self, values: Tensor) -> Tensor:
        return values.unflatten(0, (self._replicas, -1))[self._replica]


@dataclass(frozen=True)
class Replicas:
    """What repetitions of a run differ in; all are of N clients, of which M take part in a round.

    In one program their clients are one population: replica s of N clients has the numbers s N to
    (s + 1) N - 1, and each client starts from the server of its own replica.

    Args:
        tasks: of each replica, maybe the same object; they differ in their data only.
        seeds: of each replica; see :class:`fedlib.engine.RunConfig`.
    """

    tasks: Sequence[Task]
    seeds: Sequence[Mapping[str, int]]

    @classmethod
    def of(cls, configured: Sequence[Configured]) -> Replicas:
        """The replicas of a program's configurations, which stand replica by replica."""
        runs = {(id(run.task), str(run.config.seeds)): run for run in configured}.values()
        trained = {id(run.task): run.task for run in runs}
        if configured[0].method.pooled:
            trained = {key: task.centralized() for key, task in trained.items()}
        return cls([trained[id(run.task)] for run in runs], [run.config.seeds for run in runs])

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def population(self) -> int:
        """N, the clients of one replica."""
        return len(self.tasks[0].train)

    @cached_property
    def distinct(self) -> list[Task]:
        """The tasks, each once."""
        return list({id(task): task for task in self.tasks}.values())

    def new_models(self) -> list[nn.Module]:
        """A model of each replica, as its seed initialises it."""
        models = []
        for task, seeds in zip(self.tasks, self.seeds, strict=True):
            with process.alone():
                process.seed(randomness.key(seeds["init"], "init"))
                models.append(task.new_model())
        return models

    @cached_property
    def data(self) -> ClientData:
        """The training data of all replicas' clients."""
        return ClientData.joined([task.train for task in self.tasks])

    @cached_property
    def weights(self) -> np.ndarray:
        """float64 ``[all clients]``, what each counts in its replica's aggregation."""
        return np.concatenate([task.train.client_weights() for task in self.tasks])

    def of_clients(self, clients: np.ndarray) -> np.ndarray:
        """The replica of each client."""
        return clients // self.population

    def local(self, clients: np.ndarray) -> np.ndarray:
        """The number of each client in its own replica."""
        return clients % self.population

    def keys(self, round: int, clients: np.ndarray) -> Tensor:
        """int64 ``[M]``, what the draws of these clients in a round are keyed by."""
        seeds = [seeds["batches"] for seeds in self.seeds]
        return client_keys(seeds, round, self.local(clients), self.of_clients(clients))

    def cohort(self, round: int, size: int) -> np.ndarray:
        """Who takes part in a round, ascending: ``size`` clients of each replica."""
        cohorts = [self._cohort(number, round, size) for number in range(len(self))]
        return np.concatenate(cohorts)

    def _cohort(self, number: int, round: int, size: int) -> np.ndarray:
        """The clients of one replica: the task's own draw, else uniform without replacement.

        Raises:
            Error: the task draws others than so many different clients.
        """
        task, first = self.tasks[number], number * self.population
        if size == self.population:
            return first + np.arange(size)
        if task.cohorts is not None:
            drawn = np.unique(task.cohorts(round, size))
            if len(drawn) != size or drawn[0] < 0 or drawn[-1] >= self.population:
                raise Error(
                    f"task {task.name}: cohorts({round}, {size}) must give {size} "
                    f"different clients of 0..{self.population - 1}"
                )
            return first + drawn
        draw = randomness.numpy_generator(self.seeds[number]["sampling"], "cohort", round)
        return first + np.sort(draw.choice(self.population, size, replace=False))

    def halves(self, cohort: np.ndarray, round: int) -> tuple[np.ndarray, np.ndarray]:
        """Which clients of each replica's cohort measure and which train, at random."""
        measuring, training = [], []
        for seeds, clients in zip(self.seeds, np.split(cohort, len(self)), strict=True):
            draw = randomness.numpy_generator(seeds["sampling"], "halves", round)
            mixed = draw.permutation(clients)
            measuring.append(np.sort(mixed[: len(mixed) // 2]))
            training.append(np.sort(mixed[len(mixed) // 2 :]))
        return np.concatenate(measuring), np.concatenate(training)

    def totals(self, values: np.ndarray, clients: np.ndarray) -> np.ndarray:
        """Values ``[M]`` of some clients, summed over those of each replica: float64 ``[S]``."""
        if len(self) == 1:
            return np.array([values.sum()], dtype=np.float64)
        return np.bincount(self.of_clients(clients), values, minlength=len(self))

    def to_clients(self, server: State, replica: Tensor | None) -> State:
        """Server states ``[S C, .]`` as clients receive them: their own replica's, ``[M, C, .]``.

        Args:
            replica: ``[M]``, whose each client is. With one replica, None: all share ``[C, .]``.
        """
        return server if replica is None else Received(server, replica, len(self))  # type: ignore[return-value]

    def rows_of(self, replica: int, clients: np.ndarray) -> Tensor:
        """The places of a replica's clients among some clients."""
        return torch.from_numpy(np.flatnonzero(self.of_clients(clients) == replica))


# Bytes of a buffer; each tensor begins at a multiple, as tensors of their own do for every type.
ALIGNED = 16


def upload(tensors: Mapping[str, Tensor | None], device: torch.device) -> dict[str, Tensor]:
    """Tensors on a device, without those that are None; all of them share one block of memory.

    On the CPU they are what they were.
    """
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if device.type == "cpu":
        return given
    parts = list(given.values())
    buffer = packed(parts, pinned=device.type == "cuda").to(device, non_blocking=True)
    return dict(zip(given, unpacked(buffer, parts), strict=True))


def packed(parts: Sequence[Tensor], pinned: bool = False) -> Tensor:
    """The tensors' bytes one after the other, uint8; pinned: in page-locked memory."""
    size = sum(map(_room, parts))
    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    for place, part in zip(unpacked(buffer, parts), parts, strict=True):
        place.copy_(part)
    return buffer


def unpacked(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of a packed buffer with the types and shapes of the tensors that are packed."""
    pieces = buffer.split([_room(part) for part in like])
    return [
        piece[: part.numel() * part.element_size()].view(part.dtype).view(part.shape)
        for piece, part in zip(pieces, like, strict=True)
    ]


def _room(part: Tensor) -> int:
    return -(-part.numel() * part.element_size() // ALIGNED) * ALIGNED


# Gather a round's inputs at once up to this many bytes; above it, batch by batch.
GATHER_BYTES = 256 * 2**20
# Inputs that are always the same are kept if they are not more than these bytes.
KEPT_BYTES = 64 * 2**20
# Examples of a client per step when all of its data is evaluated.
WHOLE_BATCH = 64


@dataclass(frozen=True)
class Round:
    """What local work needs to know about the round.

    Attributes:
        number: which one, from 0.
        config: what the run's configurations share.
        cohort: the clients that take part ``[M]``, ascending; steps: the local steps of each.
    """

    number: int
    config: RunConfig
    cohort: np.ndarray
    steps: np.ndarray

    @property
    def batch_size(self) -> int | None:
        """Examples of a local step; None: all of the client's."""
        return self.config.batch_size

    def steps_of(self, clients: np.ndarray) -> np.ndarray:
        """The local steps of some clients of the cohort."""
        taken: np.ndarray = self.steps[np.searchsorted(self.cohort, clients)]
        return taken


class Feed:
    """The replicas' training data, moved to the device once.

    Args:
        replicas: of the task.
        dtype, device: of the inputs (``dtype`` where they are floating point).

    Attributes:
        data: of all clients.
    """

    def __init__(self, replicas: Replicas, dtype: torch.dtype, device: torch.device) -> None:
        self.replicas, self.data, self.task = replicas, replicas.data, replicas.tasks[0]
        self.dtype, self.device = dtype, device
        self.transform, self.y = self.task.transform, self.data.y.to(device)
        self.bytes_each = input_bytes(self.task, dtype)
        if isinstance(self.transform, Fixed) and len(self.y) * self.bytes_each <= KEPT_BYTES:
            parts = [
                transformed(task.transform, part.unsqueeze(0), None, dtype, device)
                for task in replicas.distinct
                for part in task.train.x.split(WHOLE_BATCH**2)
            ]
            self.x, self.transform = torch.cat(parts, 1).squeeze(0), identity
        else:
            self.x = self.data.x if reads(self.transform) else self.data.x.to(device)

    def round(self, number: int, config: RunConfig, cohort: np.ndarray) -> Round:
        """A round of ``cohort [M]``, ascending, with the local steps of each client."""
        sizes, local = self.data.sizes[cohort], self.replicas.local(cohort)
        epochs: int | np.ndarray
        if isinstance(config.local_epochs, int):
            epochs = config.local_epochs
        else:
            epochs = drawn_epochs(config.local_epochs, self.replicas.keys(number, cohort))
        steps = local_steps(sizes, config.batch_size, epochs, config.local_steps, local)
        return Round(number, config, cohort, steps)

    def plan(self, clients: np.ndarray, round: Round) -> Plan:
        """The batches of ``clients`` in this round."""
        keys = self.replicas.keys(round.number, clients)
        steps = round.steps_of(clients)
        return make_plan(self.data, clients, steps, keys, batch_size=round.batch_size)

    def whole_plan(self, clients: np.ndarray) -> Plan:
        """All examples of ``clients`` once, in their own order."""
        steps = -(-self.data.sizes[clients] // WHOLE_BATCH)
        keys = torch.zeros(len(clients), dtype=torch.int64)
        return make_plan(self.data, clients, steps, keys, batch_size=WHOLE_BATCH, shuffle=False)

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
        x = self.x[index.to(self.x.device)]
        return transformed(self.transform, x, per_example, self.dtype, self.device)

    def batches(self, plan: Plan, sent: Mapping[str, Tensor]) -> Iterator[Batch]:
        """The batches of each step in turn.

        Args:
            sent: what :meth:`host` gives, on the device. With keys there are augmentation and
                dropout.
        """
        index, keys = sent["index"], sent.get("keys")
        at_once = index.numel() * self.bytes_each <= GATHER_BYTES
        parts = [self.y[index], sent["weights"]]
        if reads(self.transform):
            index = plan.index
        parts += [self.inputs(index, keys)] if at_once else []
        parts += [] if keys is None else [keys]
        parts += [] if plan.mask is None else [sent["mask"]]
        # Steps follow each other in all of these: one split per array instead of one slice a step.
        columns = [part.split(plan.active) for part in parts]
        full = index.shape[1]
        for step, arrays in enumerate(zip(*columns, strict=True)):
            rows = slice(plan.offsets[step], plan.offsets[step] + plan.active[step])
            left = list(arrays)
            mask = left.pop() if plan.mask is not None else None
            dropout = left.pop() if keys is not None else None
            width = plan.widths[step]
            if not at_once:
                some = index[rows, :width]
                left.append(self.inputs(some, None if keys is None else keys[rows]))
            if width < full:
                left = [part[:, :width] for part in left]
            yield Batch(
                x=left[2],
                y=left[0],
                weights=left[1],
                keys=dropout,
                mask=mask[:, :width] if mask is not None and plan.ragged[step] else None,
            )

    def example_weights(self, plan: Plan) -> Tensor:
        """What each example's loss counts in its batch's loss, ``[T, B]``: 1/count or 1."""
        weights = torch.ones(plan.index.shape, dtype=self.dtype) if plan.mask is None else plan.mask
        if self.task.reduction == "mean":
            weights = weights / plan.counts.to(self.dtype).unsqueeze(1)
        return weights.to(self.dtype)

    def whole_weights(self, plan: Plan, batch_size: int | None) -> Tensor:
        """What each example's loss counts in the loss of a client's whole data, ``[T, B]``."""
        scale = whole_scale(self.task, plan.examples, batch_size) / np.maximum(plan.examples, 1)
        rows = np.concatenate([np.arange(active) for active in plan.active])
        weights = torch.from_numpy(scale[rows]).unsqueeze(1).expand(plan.index.shape)
        if plan.mask is not None:
            weights = weights * plan.mask
        return weights.to(self.dtype)

    def host(self, plan: Plan, weights: Tensor, training: bool = True) -> dict[str, Tensor | None]:
        """What the device needs for the batches of a plan, on the host; see :meth:`batches`.

        Args:
            weights: ``[T, B]``, what each example's loss counts.
            training: with augmentation and keys for dropout.
        """
        keys = plan.keys if training else None
        return {"index": plan.index, "weights": weights, "keys": keys, "mask": plan.mask}

    def counts(self, clients: np.ndarray, round: Round) -> dict[str, Tensor]:
        """The examples and the steps of ``clients [M]``, on the host."""
        return {
            "examples": torch.as_tensor(self.data.sizes[clients], dtype=self.dtype),
            "steps": torch.as_tensor(round.steps_of(clients), dtype=self.dtype),
        }

    def client(
        self,
        sent: Mapping[str, Tensor],
        round: Round,
        memory: State | None = None,
        measured: State | None = None,
    ) -> Client:
        """What clients know: scalars ``[M, 1, 1]``.

        Args:
            sent: what :meth:`counts` gives, on the device.
        """
        return Client(
            examples=sent["examples"].view(-1, 1, 1),
            steps=sent["steps"].view(-1, 1, 1),
            round=round.number,
            rounds=round.config.rounds,
            cohort=len(round.cohort) // len(self.replicas),
            population=self.replicas.population,
            memory=memory or {},
            measured=measured or {},
        )


def reads(transform: Transform) -> bool:
    """Whether a transform takes its inputs on the host, where it reads what it needs."""
    return isinstance(transform, Fixed) and transform.read is not None


def transformed(
    transform: Transform,
    x: Tensor,
    keys: Tensor | None,
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Model inputs on the device for raw inputs ``x``; floating-point ones in ``dtype``."""
    if isinstance(transform, Fixed) and transform.read is not None:
        inputs = transform.function(upload(transform.read(x), device), None)
    else:
        inputs = transform(x.to(device), keys)
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def input_bytes(task: Task, dtype: torch.dtype) -> int:
    """Bytes of one example, as the model takes it or as it is kept, whichever are more."""
    example = task.transform(task.train.x[:1].unsqueeze(0), None)
    return max(example.numel() * dtype.itemsize, task.train.x[:1].numel())


def whole_scale(task: Task, sizes: np.ndarray, batch_size: int | None) -> np.ndarray:
    """What the mean loss over all of a client's examples is multiplied by, ``[M]``.

    Where a task sums over its batches, a client's whole loss is in units of one batch.
    """
    if task.reduction == "mean":
        return np.ones(len(sizes))
    return sizes.astype(np.float64) if batch_size is None else np.full(len(sizes), 1.0 * batch_size)
