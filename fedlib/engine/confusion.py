"""Which classes a trained model takes for which."""

from __future__ import annotations

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedlib.arguments import checked
from fedlib.engine.evaluation import BATCH
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.task import Task


@checked
def confusion(task: Task, history: History) -> pd.DataFrame:
    """How often the final model of a run takes one class for another, on the test data.

    Args:
        task: that was run; one whose loss takes a class per example.
        history: the run, with its final parameters.

    Returns:
        counts: a row for each true class, a column for each predicted one, by their names
        (``task.classes``) or numbers. The diagonal divided by the sum is the accuracy.

    Raises:
        Error: a run without parameters or of another model, or targets that are no classes.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("synthetic", clients=5)
        >>> table = fedlib.confusion(task, fedlib.run(task, "fedavg", rounds=1))
        >>> table.shape, int(table.to_numpy().sum()) == int(task.test.sizes.sum())
        ((10, 10), True)
    """
    if not history.params:
        raise Error(f"{history!r} was stored without parameters; run it with keep_params=True")
    model = _trained(task, history)
    examples = task.test.places(task.test.all_places())
    dtype = next(iter(history.params.values())).dtype
    true, predicted = [], []
    for part in examples.split(BATCH):
        outputs = _outputs(task, model, task.test.x[part], dtype)
        target = task.test.y[part]
        if outputs.dim() != 2 or target.dim() != 1 or target.is_floating_point():
            raise Error(f"task {task.name}: confusion needs one class per example and its logits")
        true.append(target.numpy())
        predicted.append(outputs.argmax(-1).numpy())
        count = outputs.shape[-1]
    names = task.classes or [str(number) for number in range(count)]
    if len(names) != count:
        raise Error(f"task {task.name} names {len(names)} classes, but its model has {count}")
    counts = np.zeros((count, count), dtype=np.int64)
    np.add.at(counts, (np.concatenate(true), np.concatenate(predicted)), 1)
    return pd.DataFrame(
        counts, pd.Index(list(names), name="true"), pd.Index(list(names), name="predicted")
    )


def _trained(task: Task, history: History) -> nn.Module:
    """A model with the run's parameters, for evaluation."""
    model = task.new_model()
    tensors = model.state_dict()
    for name, value in history.params.items():
        if name not in tensors or tensors[name].shape != value.shape:
            raise Error(
                f"{history!r} is no run of a model of task {task.name}, which has no {name} of "
                f"shape {tuple(value.shape)}"
            )
    # What is not trained is as the model makes it.
    model.to(next(iter(history.params.values())).dtype)
    model.load_state_dict(history.params, strict=False)
    return model.eval()


@torch.no_grad()
def _outputs(task: Task, model: nn.Module, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The model's outputs ``[B, ...]`` for raw inputs."""
    inputs = task.transform(x.unsqueeze(0), None).squeeze(0)
    outputs: Tensor = model(inputs.to(dtype) if inputs.is_floating_point() else inputs)
    return outputs
