"""AdaFedAdam's four setups: what the paper prints of them, and what fedlib's tasks are."""

from __future__ import annotations

import os

import pandas as pd
import torch

from fedlib import papers
from fedlib.results import items
from fedlib.tasks import Task, load_task


def adafedadam_table_4(
    data_root: str | os.PathLike[str] | None = None,
) -> tuple[None, pd.DataFrame]:
    """Table 4, and our clients, examples, models and data under the paper preset.

    Args:
        data_root: of the prepared data sets; those that are missing have stand-ins, with fewer
            clients.
    """
    printed = papers.table("adafedadam", "table4_setups")
    wide = printed.pivot(index="setup", columns="quantity", values="value")
    rows = []
    for item in items.find("adafedadam", "Table 5"):
        task = load_task(item.task, preset="paper", seed=0, data_root=data_root)
        stated = wide.loc[item.label]
        rows.append(
            {
                "setup": item.label,
                "clients (printed)": int(stated["n_clients"]),
                "clients": len(task.train.sizes),
                "training examples": int(task.train.sizes.sum()),
                "test examples": int(task.test.sizes.sum()),
                "model (printed)": stated["model"],
                "model": _model(task),
                "scenario (printed)": stated["scenario"],
                "non-IID type (printed)": stated["non_iid_type"],
                "task type (printed)": stated["task_type"],
                "data": "stand-in"
                if task.stand_in
                else task.options.get("data", "LEAF's generator"),
            }
        )
    return None, pd.DataFrame(rows)


def _model(task: Task) -> str:
    """The model's class and its parameters that are trained."""
    with torch.random.fork_rng(devices=[]):
        model = task.model()
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    return f"{type(model).__name__}, {trained:,} parameters"
