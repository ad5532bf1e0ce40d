"""The figures and tables of AdaFedAdam; the setups, partitions and networks are drawn here."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedlib import models, papers, partitioners
from fedlib.errors import Error
from fedlib.figures import draw_layers, layers
from fedlib.figures.curves import Drawing
from fedlib.figures.partitions import label_panels
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.fairness import adafedadam_figure_2
from fedlib.reproduction.adafedadam.method import adafedadam_figure_1
from fedlib.reproduction.adafedadam.tradeoff import adafedadam_figure_3
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.printed import printed_entry, side_by_side
from fedlib.tasks import Task, load_task


def table_4(data_root: str | os.PathLike[str] | None = None) -> tuple[None, pd.DataFrame]:
    """Table 4, and our clients, examples, models and data under the paper preset.

    Args:
        data_root: of the prepared data sets; a setup whose data are missing has the printed
            columns alone.
    """
    printed = papers.table("adafedadam", "table4_setups")
    wide = printed.pivot(index="setup", columns="quantity", values="value")
    rows = []
    setups = tables.find("adafedadam", "Table 5").drop_duplicates("task")
    for label, task in zip(setups["label"], setups["task"], strict=True):
        stated, ours = wide.loc[label], _ours(task, data_root)
        rows.append(
            {
                "setup": label,
                "clients (printed)": int(stated["n_clients"]),
                "clients": ours.get("clients", "-"),
                "training examples": ours.get("training examples", "-"),
                "test examples": ours.get("test examples", "-"),
                "model (printed)": stated["model"],
                "model": ours.get("model", "-"),
                "scenario (printed)": stated["scenario"],
                "non-IID type (printed)": stated["non_iid_type"],
                "task type (printed)": stated["task_type"],
                "data": ours.get("data", "not prepared"),
            }
        )
    return None, pd.DataFrame(rows)


def _ours(name: str, data_root: str | os.PathLike[str] | None) -> dict[str, Any]:
    """What Table 4 says of a task under the paper preset; nothing without its data."""
    try:
        task = load_task(name, preset="paper", seed=0, data_root=data_root)
    except Error:
        return {}
    return {
        "clients": len(task.train.sizes),
        "training examples": int(task.train.sizes.sum()),
        "test examples": int(task.test.sizes.sum()),
        "model": _model(task),
        "data": task.options.get("data", "LEAF's generator"),
    }


def _model(task: Task) -> str:
    """The model's class and its parameters that are trained."""
    with torch.random.fork_rng(devices=[]):
        model = task.model()
    trained = sum(value.numel() for value in model.parameters() if value.requires_grad)
    return f"{type(model).__name__}, {trained:,} parameters"


def figure_6() -> Drawing:
    """Label distributions of the 16 Cifar10 clients for four values of beta."""
    betas = papers.settings("adafedadam")["experiments"]["noniid"]["dirichlet_beta"]
    labels = np.repeat(np.arange(10), 5000)  # CIFAR-10's, which are balanced
    silos = {beta: partitioners.silos(labels, 16, beta, seed=0) for beta in betas}
    figure, data = label_panels(labels, silos, "beta", rows=2, size=(5.5, 4.6), shares=False)
    figure.axes[0].set(yticks=range(0, 16, 5))
    return figure, data


def figure_4() -> Drawing:
    """VGG11 for the Cifar10 setup."""
    return _drawn("VGG11", models.VGG11, torch.zeros(1, 3, 32, 32))


def figure_5() -> Drawing:
    """The two-layer LSTM for the Sent140 setup, with the 400,000 words of the GloVe file."""
    # Padding and unknown words are one more. A view of one zero takes no memory.
    vectors = torch.zeros(1).expand(400_001, 300)
    example = torch.zeros(1, 25, dtype=torch.int64)
    return _drawn("Two-layer LSTM", lambda: models.Sent140LSTM(vectors), example)


def _drawn(name: str, make: Callable[[], nn.Module], example: Tensor) -> Drawing:
    with torch.random.fork_rng(devices=[]):  # random initial values are drawn in vain
        frame = layers(make(), example)
    frozen = frame["frozen"].sum()
    more = f" ({frozen:,} frozen)" if frozen else ""
    return draw_layers(frame, f"{name}: {frame['parameters'].sum():,} parameters{more}"), frame


_METHOD = {"": "20_fair_femnist"}
_PARTITIONS = {"": "06_partitions"}
_MODELS = {"": "07_models"}
_TUNED: dict[str, Any] = {"clients": True, "parts": ("curves", "mu")}
_METRICS = {"avg": "average", "std": "spread", "worst30": "worst 30 %"}


def _variant(number: int, setting: str, *parts: str) -> Entry:
    name, more = f"Table {number}", {"clients": True, "parts": parts}
    return side_by_side("adafedadam", name, _METRICS, setting, **more)


ENTRIES: tuple[Entry, ...] = (
    Entry("adafedadam/figure_1", _METHOD, lambda _: adafedadam_figure_1()),
    Entry("adafedadam/figure_2", tables.ADAFEDADAM, adafedadam_figure_2, **_TUNED),
    Entry("adafedadam/figure_3", {"synthetic": "34_fairness_tradeoff"}, adafedadam_figure_3),
    Entry("adafedadam/table_4", _METHOD, table_4),
    printed_entry("adafedadam", "Table 5", **_TUNED),
    Entry("adafedadam/figure_6", _PARTITIONS, lambda _: figure_6()),
    Entry("adafedadam/figure_4", _MODELS, lambda _: figure_4()),
    Entry("adafedadam/figure_5", _MODELS, lambda _: figure_5()),
    _variant(1, "setting", "epochs", "mu"),
    _variant(2, "partition", "levels"),
    _variant(3, "local solver"),
    _variant(6, "partition", "levels"),
    _variant(7, "local solver"),
)
