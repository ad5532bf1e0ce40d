"""The clients' data on the device: which batches they see, and as what inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlib import randomness
from fedlib.algorithms.base import Client, State
from fedlib.engine.config import RunConfig
from fedlib.engine.oracles import Batch
from fedlib.engine.plan import Plan, drawn_epochs, local_steps, make_plan
from fedlib.engine.replicas import Replicas
from fedlib.engine.upload import upload
from fedlib.task import Fixed, Task, Transform, identity

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
        for step, own in enumerate(zip(*columns, strict=True)):
            rows = slice(plan.offsets[step], plan.offsets[step] + plan.active[step])
            left = list(own)
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
        each = whole_scale(self.task, plan.examples, batch_size) / np.maximum(plan.examples, 1)
        rows = np.concatenate([np.arange(active) for active in plan.active])
        weights = torch.from_numpy(each[rows]).unsqueeze(1).expand(plan.index.shape)
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
        rows: bool = True,
    ) -> Client:
        """What clients know: scalars ``[M, 1, 1]``, or ``[1]`` for one without rows.

        Args:
            sent: what :meth:`counts` gives, on the device.
        """
        shape = (-1, 1, 1) if rows else (1,)
        return Client(
            examples=sent["examples"].view(shape),
            steps=sent["steps"].view(shape),
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
