"""The papers' networks: FedOpt's Tables 3 to 6, and AdaFedAdam's Figures 4 and 5."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import torch
from torch import Tensor, nn

from fedlib import models, papers
from fedlib.errors import unknown
from fedlib.figures import draw_layers, layers
from fedlib.figures.curves import Drawing

# The paper's name of a model -> the model, and an input of one example.
FEDOPT: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "EMNIST AE": (models.EMNISTAutoencoder, torch.zeros(1, 784)),
    "EMNIST CR": (models.EMNISTCNN, torch.zeros(1, 1, 28, 28)),
    "Shakespeare": (models.ShakespeareLSTM, torch.ones(1, 80, dtype=torch.int64)),
    "StackOverflow NWP": (models.NextWordLSTM, torch.ones(1, 20, dtype=torch.int64)),
}


def fedopt_table(label: str) -> tuple[None, pd.DataFrame]:
    """Our layers of a model of FedOpt's Tables 3 to 6, beside the printed parameter counts.

    Args:
        label: ``"EMNIST AE"``, ``"EMNIST CR"``, ``"Shakespeare"`` or ``"StackOverflow NWP"``.

    Raises:
        Error: unknown model.
    """
    if label not in FEDOPT:
        raise unknown("model of FedOpt", label, FEDOPT)
    ours = _layers(*FEDOPT[label]).drop(columns="frozen")
    total = {"layer": "TOTAL", "parameters": ours["parameters"].sum()}
    ours = pd.concat([ours, pd.DataFrame([total])], ignore_index=True).fillna("")
    printed = papers.table("fedopt", "table3_6_models").query("model == @label")
    ours.insert(3, "printed", printed["parameters"].to_numpy())
    return None, ours


def adafedadam_figure_4() -> Drawing:
    """VGG11 for the Cifar10 setup."""
    return _drawn("VGG11", models.VGG11, torch.zeros(1, 3, 32, 32))


def adafedadam_figure_5() -> Drawing:
    """The two-layer LSTM for the Sent140 setup, with the 400,000 words of the GloVe file."""
    # Padding and unknown words are one more. A view of one zero takes no memory.
    vectors = torch.zeros(1).expand(400_001, 300)
    example = torch.zeros(1, 25, dtype=torch.int64)
    return _drawn("Two-layer LSTM", lambda: models.Sent140LSTM(vectors), example)


def _drawn(name: str, make: Callable[[], nn.Module], example: Tensor) -> Drawing:
    frame = _layers(make, example)
    frozen = frame["frozen"].sum()
    more = f" ({frozen:,} frozen)" if frozen else ""
    return draw_layers(frame, f"{name}: {frame['parameters'].sum():,} parameters{more}"), frame


def _layers(make: Callable[[], nn.Module], example: Tensor) -> pd.DataFrame:
    """The layers of a new model; its random initial values leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        return layers(make(), example)
