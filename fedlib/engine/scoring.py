"""Evaluation of trained parameters: metrics, outputs, and the clients' fine-tuned models."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedlib import process
from fedlib.algorithms.base import State
from fedlib.algorithms.fedopt import FedOpt
from fedlib.arguments import called, checked, whole
from fedlib.clients import ClientData
from fedlib.engine.config import configure
from fedlib.engine.device import resolve_device
from fedlib.engine.evaluation import Evaluator, OwnModels, by_client
from fedlib.engine.fitting import Trial, require_finite
from fedlib.engine.program import Program
from fedlib.engine.rows import FlatModel
from fedlib.errors import Error
from fedlib.optimizers.client import SGD, ClientOptimizer
from fedlib.task import Metric, Task


@checked
@process.alone()
def evaluate(
    task: Task,
    params: Mapping[str, Tensor],
    metrics: Mapping[str, Metric] | None = None,
    data: ClientData | None = None,
    *,
    device: str = "auto",
    local_steps: int | None = None,
    optimizer: ClientOptimizer | None = None,
) -> Any:
    """The loss and metrics of trained parameters, over all examples of some data.

    Args:
        params: a history's ``params``.
        metrics: per-example values, see :class:`fedlib.Task`. Default: the task's.
        data: default: the task's test data.
        device: see :func:`fedlib.run`.
        local_steps: steps that each client first takes on its training data, from these
            parameters. Its own model is then evaluated on its own test data.
        optimizer: optimizer of these steps. Default: ``fedlib.SGD(lr=0.1)``.

    Returns:
        A dict by metric, or with ``local_steps`` a frame ``client, metric, value, examples``.

    Raises:
        Error: parameters of another model, data without examples, or metrics that do not fit.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("synthetic")
        >>> history = fedlib.run(task, "fedavg", rounds=1)
        >>> list(fedlib.evaluate(task, history.params))
        ['loss', 'accuracy']
    """
    if metrics is not None:
        task = replace(task, metrics=metrics)
    if local_steps is not None:
        if data is not None:
            raise Error("evaluate: give either data or local_steps, which uses the task's clients")
        return _tuned(
            task, params, whole("local_steps", local_steps, 0), optimizer or SGD(), device
        )
    if optimizer is not None:
        raise Error("evaluate: optimizer is for the clients' local steps: give local_steps, too")
    data = task.test if data is None else data
    if not data.sizes.sum():
        raise Error("evaluate: these data have no examples")
    model, where = _flat(task, params, device)
    require_finite(task, "evaluated", data, model.dtype)
    with model.evaluating():
        Trial(task, model.model, model.dtype).check_losses("evaluated", data)
    evaluator = Evaluator(task, model, where, data)
    result = called("evaluate: the model or metrics", evaluator, model.initial().unsqueeze(0))
    return {name: float(value) for name, value in result.mean.items()}


class Predictions(Tensor):
    """The outputs ``[N, ...]`` of a model, a tensor whose results are ordinary tensors.

    Attributes:
        targets: ``[N, ...]`` of the test examples. None for other inputs.
        clients: the name of each example's client, ``[N]``. None for other inputs.
    """

    targets: Tensor | None = None
    clients: np.ndarray | None = None
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __deepcopy__(self, memo: Any) -> Predictions:
        copied = self.detach().clone().as_subclass(Predictions)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied


@checked
@process.alone()
def predict(
    task: Task, params: Mapping[str, Tensor], x: Any = None, *, device: str = "auto"
) -> Predictions:
    """The outputs ``[N, ...]`` of a trained model, on the CPU.

    Args:
        params: a history's ``params``.
        x: raw inputs ``[N, ...]``, as in the task's data. Default: the test examples, client after
            client, in the order of ``task.test.index``, without those that no client holds.
        device: see :func:`fedlib.run`.

    Returns:
        A tensor. For the test examples it has their ``targets`` and ``clients``, row by row.

    Raises:
        Error: parameters of another model, or no examples.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("synthetic")
        >>> history = fedlib.run(task, "fedavg", rounds=1)
        >>> outputs = fedlib.predict(task, history.params)
        >>> float((outputs.argmax(1) == outputs.targets).float().mean()) == history.final()
        True
        >>> outputs.clients[:2].tolist()
        ['0', '0']
    """
    data = task.test
    if x is not None:
        if not (isinstance(x, Tensor) or hasattr(x, "__array__")):
            x = called("predict: x", torch.as_tensor, x)
        if not x.ndim or not len(x):
            raise Error("predict: x has no examples")
        if x.ndim != (axes := task.test.x.ndim):
            raise Error(f"predict: x has {x.ndim} axes and the task's inputs {axes}: give [N, ...]")
        data = ClientData(x, torch.zeros(len(x)), [np.arange(len(x))])
    model, where = _flat(task, params, device)
    evaluator = Evaluator(task, model, where, data)
    outputs: Tensor = called("predict: the model on x", evaluator.outputs, model.initial()[None])
    rows = outputs.squeeze(0).cpu().as_subclass(Predictions)
    if x is None:
        rows.targets, rows.clients = data.y[data.index], np.array(data.ids)[data.codes()]
    return rows


def _flat(task: Task, params: Mapping[str, Tensor], device: str) -> tuple[FlatModel, torch.device]:
    where = resolve_device(device)
    model = task.trained(params)
    # If no parameter is trained, FlatModel says so.
    dtype = next((p.dtype for p in model.parameters() if p.requires_grad), torch.float32)
    flat = FlatModel(model, dtype, where)
    if not (flat.carries_rows and task.described):
        flat.plain = True  # its faster ways have not been checked
    return flat, where


@dataclass(frozen=True)
class _Tuning(FedOpt):
    """A round whose server keeps the model of each client, ``[C, M, P]``."""

    single_reports = True

    def server_update(self, server: State, reports: State) -> State:
        return {"x": server["x"], "own": (server["x"] + reports["delta"]).transpose(0, 1)}


def _tuned(
    task: Task, params: Mapping[str, Tensor], steps: int, optimizer: ClientOptimizer, device: str
) -> pd.DataFrame:
    """The metrics of each client's own model after its local steps from ``params``."""
    model, where = _flat(task, params, device)
    alone = replace(task, cohorts=None, clients_per_round=None)
    dtype = "float64" if model.dtype == torch.float64 else "float32"
    given = {"local_steps": steps} if steps else {}
    run = configure(alone, _Tuning(client=optimizer), rounds=1, dtype=dtype, overrides=given)
    program = Program([run], where)
    x = model.initial().to(program.dtype).unsqueeze(0)
    own = x.expand(len(task.train), 1, -1)
    trains = np.flatnonzero(task.train.sizes > 0)
    if steps:
        with program._settings(others=False):
            server, _ = program.training.round([0], {"x": x, "optimizer": {}}, 0)
        own = own.clone()
        own[trains] = server["own"].transpose(0, 1)
    with program._settings(others=False):
        found = OwnModels(program.task, program.model, where)(lambda client: own[client])
    frames = [by_client(task.test, values[0], metric=n) for n, values in found.clients.items()]
    return pd.concat(frames, ignore_index=True)
