"""Evaluation of server models on the test set and per client, and frames of the results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedlib.arguments import called
from fedlib.clients import ClientData
from fedlib.engine.batches import gathered, reads, transformed
from fedlib.engine.config import RunConfig
from fedlib.engine.fairness import fairness
from fedlib.engine.history import History
from fedlib.engine.rows import FlatModel
from fedlib.errors import Error
from fedlib.losses import accuracy, counted_labels, each_examples, of_classes
from fedlib.task import Metric, Task

# Input or output numbers per chunk, over all configurations together.
CHUNK_NUMBERS = 4_000_000
# Chunks are multiples of this, so that models with batch statistics see Delta-SGD's test batches.
# Models that mix a batch's examples in another way see chunks of this size.
BATCH = 128


@dataclass(frozen=True)
class Evaluated:
    """The metrics of C models.

    Attributes:
        mean: metric -> ``[C]``, over all examples.
        clients: metric -> ``[C, clients]``, over each client's examples (NaN without any).
    """

    mean: dict[str, Tensor]
    clients: dict[str, Tensor]


# The split with the metrics of clients' own models on the clients' own test data.
PERSONAL = "personal"


def evaluated(task: Task) -> dict[str, ClientData]:
    """The data that a task's server model is evaluated on, by split."""
    return {"test": task.test, **task.evaluated}


def metrics_of(task: Task, outputs: Tensor, targets: Tensor) -> dict[str, Metric]:
    """A task's metrics for ``outputs [B, ...]`` and ``targets [N, ...]``.

    The default accuracy is included only if it fits.
    """
    named = dict(task.metrics)
    for name, metric in task.metrics.items():
        if metric is accuracy and not of_classes(outputs, targets):
            del named[name]
        elif metric is accuracy:
            named[name] = partial(metric, ignored=getattr(task.loss, "ignored", None))
    return named


class Evaluator:
    """Evaluates parameter vectors on a task's test data, or on other data of its clients.

    An example that several clients hold counts once for each. A test set of one client is the whole
    set.
    """

    def __init__(
        self,
        task: Task,
        model: FlatModel,
        device: torch.device,
        data: ClientData,
        each: Callable[..., list[Any]] = lambda function, parts: [*map(function, parts)],
    ) -> None:
        self.task, self.model, self.dtype, self.each = task, model, model.dtype, each
        self.x = data.x if reads(task.transform) else data.x.to(device)
        self.y, self.device = data.y.to(device), device
        self.index = data.index.to(self.x.device)
        self.codes = torch.from_numpy(data.codes()).to(device)
        self.sizes = torch.tensor(data.sizes, dtype=self.dtype, device=device)
        weights = data.client_weights() if task.by_weights else data.sizes
        weights = weights / np.maximum(data.sizes, 1)
        self.weights = torch.from_numpy(weights).to(device, self.dtype)[self.codes]
        self.inputs_each = self._transform(self.index[:1]).numel()
        self.outputs_each = 0
        self._inputs: Tensor | None = None

    def inputs(self, part: slice) -> Tensor:
        """Model inputs ``[1, B, ...]`` of some test examples. Small sets are transformed once."""
        if self.index.numel() * self.inputs_each <= 4 * CHUNK_NUMBERS:
            if self._inputs is None:
                self._inputs = self._transform(self.index)
            return self._inputs[:, part]
        return self._transform(self.index[part])

    def _transform(self, index: Tensor) -> Tensor:
        x = gathered(self.x, index).unsqueeze(0)
        return transformed(self.task.transform, x, None, self.dtype, self.device)

    @torch.no_grad()
    def __call__(self, x: Tensor) -> Evaluated:
        """Evaluate ``x [C, P]``."""
        views = self.model.views(x)
        with self.model.evaluating():
            whole = self.model.plain
            size = BATCH if whole else self._chunk(views, len(x))
            parts = [slice(start, start + size) for start in range(0, len(self.index), size)]
            values = self.each(partial(self._values, views), parts)
        mean, clients = {}, {}
        for name in values[0]:
            pairs = zip(*(part[name] for part in values), strict=True)
            above, below = (torch.cat(tensors, 1).to(self.device) for tensors in pairs)
            mean[name] = above @ self.weights / (below @ self.weights)
            clients[name] = self._by_client(above) / self._by_client(below)
        return Evaluated(mean, clients)

    def _values(self, views: list[Tensor], part: slice) -> dict[str, list[Tensor]]:
        """For each metric numerators and denominators ``[C, B]`` of some examples. A metric with
        one value per example has denominators 1.
        """
        y = gathered(self.y, self.index[part].to(self.device))
        counted = counted_labels(self.task.loss, y)
        y = y.expand(len(views[0]), *y.shape)
        outputs = self.model.rows(views, self.inputs(part))
        pairs = {}
        functions = {"loss": self.task.loss, **metrics_of(self.task, outputs[0], self.y)}
        for name, function in functions.items():
            what = f"task {self.task.name}: {name}"
            values = each_examples(what, called(what, function, outputs, y), y, name != "loss")
            if name == "loss" and counted is not None:
                values = values[0] * counted, counted.expand(y.shape[:2])
            pair = (*values, torch.ones_like(values[0]))[:2]
            pairs[name] = [p.to(self.device, self.dtype) for p in pair]
        return pairs

    @torch.no_grad()
    def outputs(self, x: Tensor) -> Tensor:
        """The outputs ``[C, N, ...]`` of ``x [C, P]`` for all examples."""
        with self.model.evaluating():
            views = self.model.views(x)
            parts = [slice(start, start + BATCH) for start in range(0, len(self.index), BATCH)]
            return torch.cat([self.model.rows(views, self.inputs(part)) for part in parts], 1)

    def _by_client(self, values: Tensor) -> Tensor:
        """``values [C, N]`` summed over each client's examples: ``[C, clients]``."""
        return values.new_zeros(len(values), len(self.sizes)).index_add_(1, self.codes, values)

    def _chunk(self, views: list[Tensor], configurations: int) -> int:
        """The number of examples to evaluate at once, a multiple of :data:`BATCH`."""
        if not self.outputs_each:
            with self.model.statistics.tracking(self.model.statistics.initial()):
                outputs = self.model.rows([view[:1] for view in views], self.inputs(slice(0, 1)))
            self.outputs_each = outputs.numel()
        numbers = max(1, self.inputs_each, self.outputs_each) * configurations
        return max(BATCH, CHUNK_NUMBERS // numbers // BATCH * BATCH)


class OwnModels:
    """Evaluates a model of each client on the client's own test data.

    Raises:
        Error: the test data have other clients than the training data.
    """

    def __init__(self, task: Task, model: FlatModel, device: torch.device) -> None:
        if len(task.test) != len(task.train):
            raise Error(
                f"task {task.name}: {len(task.train)} clients train and {len(task.test)} test, but "
                "clients' own models need test data of the same clients in the same order"
            )
        self.sizes, parts = task.test.sizes, task.test.parts
        self.evaluators = {
            client: Evaluator(task, model, device, ClientData(task.test.x, task.test.y, [part]))
            for client, part in enumerate(parts)
            if len(part)
        }

    def __call__(self, own: Callable[[int], Tensor]) -> Evaluated:
        """Evaluate the models.

        Args:
            own: returns a client's parameters ``[C, P]``.
        """
        found = {client: each(own(client)).mean for client, each in self.evaluators.items()}
        sizes = torch.from_numpy(self.sizes[[*found]])
        clients, mean = {}, {}
        for name, some in next(iter(found.values())).items():
            values = torch.stack([found[client][name] for client in found], 1)
            clients[name] = values.new_full((len(values), len(self.sizes)), torch.nan)
            clients[name][:, [*found]] = values
            mean[name] = values @ sizes.to(some) / sizes.sum()
        return Evaluated(mean, clients)


class HistoryBuilder:
    """Collects the numbers of a task's configurations and makes tidy frames of them."""

    def __init__(self, task: Task, configs: Sequence[RunConfig]) -> None:
        self.task, self.configs = task, configs
        self.rows: list[list[tuple[int, str, str, float]]] = [[] for _ in configs]
        self.last: list[dict[tuple[str, str], Tensor]] = [{} for _ in configs]
        self.diverged: dict[int, int] = {}

    def training(
        self,
        round: int,
        alive: list[int],
        loss: Tensor,
        good: Tensor,
        floats: tuple[int, int],
    ) -> list[int]:
        """Note the training losses ``[C]``. Returns the configurations that are still finite.

        Args:
            good: ``[C]``, whether each is finite.
            floats: floats that the cohort received and sent.
        """
        down, up = floats
        for run, value, finite in zip(alive, loss.tolist(), good.tolist(), strict=True):
            self.rows[run] += [
                (round, "train", "loss", value),
                (round, "communication", "floats_down", float(down)),
                (round, "communication", "floats_up", float(up)),
            ]
            if not finite:
                self.diverged[run] = round
        return [run for run in alive if run not in self.diverged]

    def evaluation(
        self, round: int, alive: list[int], result: Evaluated, split: str = "test"
    ) -> None:
        """Note the evaluation of the configurations ``alive``."""
        data = self.task.test if split == PERSONAL else evaluated(self.task)[split]
        columns = {name: values.tolist() for name, values in result.mean.items()}
        if len(data) > 1:
            for name in list(columns)[1:]:  # all but the loss
                columns[f"{name}_unweighted"] = result.clients[name].nanmean(1).tolist()
            if "accuracy" in result.clients:
                accuracies = result.clients["accuracy"]
                sizes = torch.tensor(data.sizes, device=accuracies.device)
                spread = fairness(accuracies, sizes)
                columns.update((name, values.tolist()) for name, values in spread.items())
        for position, run in enumerate(alive):
            self.rows[run] += [
                (round, split, name, column[position]) for name, column in columns.items()
            ]
            self.last[run] |= {
                (split, name): values[position] for name, values in result.clients.items()
            }

    def state_dict(self) -> dict[str, Any]:
        """All records so far, in lists, numbers and tensors, not copied."""
        return {"rows": self.rows, "last": self.last, "diverged": self.diverged}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of :meth:`state_dict`."""
        self.rows, self.last, self.diverged = state["rows"], state["last"], state["diverged"]

    def histories(self, params: Sequence[dict[str, Tensor]], meta: dict[str, Any]) -> list[History]:
        """A history per configuration, with its final parameters and shared meta data."""
        names = ["round", "split", "metric", "value"]
        return [
            History(
                frame=pd.DataFrame(self.rows[run], columns=names),
                clients=self._clients(run),
                params=params[run],
                config=config,
                meta={**meta, "diverged": self.diverged.get(run)},
                task=self.task,
            )
            for run, config in enumerate(self.configs)
        ]

    def _clients(self, run: int) -> pd.DataFrame:
        """``client, split, metric, value, examples`` at one configuration's last evaluation."""
        parts = {**evaluated(self.task), PERSONAL: self.task.test}
        last = self.last[run].items()
        frames = [
            by_client(parts[split], values, split=split, metric=name)
            for (split, name), values in last
        ]
        return pd.concat(frames, ignore_index=True)


def by_client(data: ClientData, values: Tensor, **named: str) -> pd.DataFrame:
    """The frame of a metric's ``values [clients]``, with columns of one value beside them."""
    value = values.double().cpu().numpy()
    return pd.DataFrame({"client": data.ids, **named, "value": value, "examples": data.sizes})
