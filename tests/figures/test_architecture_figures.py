"""Architectures: what is drawn is what the model does, and the printed counts are its own."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import Tensor, nn

import fedlib
from fedlib import engine, figures, models, papers
from fedlib.figures import architectures
from fedlib.results import Store

IDS = [f"fedopt/table_{number}" for number in (3, 4, 5, 6)]
IDS += ["adafedadam/figure_4", "adafedadam/figure_5"]


class Gate(nn.Module):
    """An activation within a layer is the layer's own affair."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(x)


class Small(nn.Module):
    """A convolution called twice, functional and module activations, a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = models.layers.Conv2d(2, 2, (3, 1), padding="same")
        self.pool = models.layers.MaxPool2d(2)
        self.flatten = models.layers.Flatten()
        self.hidden = nn.Sequential(models.layers.Linear(8, 5), nn.ReLU())
        self.gate = Gate()
        self.frozen = models.layers.Linear(5, 3).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.sigmoid(self.conv(F.relu(self.conv(x))))
        return self.frozen(self.gate(self.hidden(self.flatten(self.pool(x)))))


def test_layers_follow_the_calls_of_a_forward_pass() -> None:
    model = Small()
    frame = figures.layers(model, torch.zeros(1, 2, 4, 4))
    columns = ["layer", "output_shape", "parameters", "frozen", "activation", "settings"]
    assert frame[columns].to_numpy().tolist() == [
        ["Input", "(4, 4, 2)", 0, 0, "", ""],
        ["Conv2d", "(4, 4, 2)", 14, 0, "ReLU", "3x1"],
        ["Conv2d", "(4, 4, 2)", 0, 0, "sigmoid", "3x1"],  # its weights are counted once
        ["MaxPool2d", "(2, 2, 2)", 0, 0, "", "2x2"],
        ["Flatten", "8", 0, 0, "", ""],
        ["Dense", "5", 45, 0, "ReLU", ""],
        ["Gate", "5", 0, 0, "", ""],
        ["Dense", "3", 0, 18, "", ""],
    ]
    assert model.training and not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("label", architectures.FEDOPT)
def test_fedopts_tables_hold_the_printed_counts_and_shapes(label: str) -> None:
    figure, ours = architectures.fedopt_table(label)
    printed = papers.table("fedopt", "table3_6_models").query("model == @label")
    assert figure is None and len(ours) == len(printed)
    assert ours["layer"].tolist() == printed["layer"].tolist()
    assert ours["output_shape"].tolist() == printed["output_shape"].tolist()
    assert (ours["parameters"] == ours["printed"]).all()
    assert (ours["printed"].to_numpy() == printed["parameters"].to_numpy()).all()
    make, _ = architectures.FEDOPT[label]
    assert ours["parameters"].iloc[-1] == sum(p.numel() for p in make().parameters())
    with pytest.raises(fedlib.Error, match="unknown model of FedOpt 'EMNIST'"):
        architectures.fedopt_table("EMNIST")


def test_fedopts_activations_are_those_of_the_code() -> None:
    tables = {label: architectures.fedopt_table(label)[1] for label in architectures.FEDOPT}
    dense = tables["EMNIST AE"].query("layer == 'Dense'")
    assert dense["activation"].tolist() == ["sigmoid"] * 3 + [""] + ["sigmoid"] * 4
    weighty = tables["EMNIST CR"].query("parameters > 0 and layer != 'TOTAL'")
    assert weighty["activation"].tolist() == ["ReLU", "ReLU", "ReLU", ""]
    assert (tables["StackOverflow NWP"]["activation"] == "").all()
    assert tables["EMNIST CR"]["settings"].iloc[1] == "3x3"


def test_adafedadams_drawings_show_every_layer() -> None:
    for draw, parameters, kinds in (
        (architectures.adafedadam_figure_4, 9_750_922, {"Conv2d": 8, "MaxPool2d": 5, "Dense": 3}),
        (architectures.adafedadam_figure_5, 241_802, {"Embedding": 1, "LSTM": 2, "Dense": 1}),
    ):
        figure, data = draw()
        assert data["parameters"].sum() == parameters
        counted = data["layer"].value_counts()
        assert {kind: counted[kind] for kind in kinds} == kinds
        ax = figure.axes[0]
        boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert len(boxes) == len(data)
        assert f"{parameters:,}" in ax.get_title()
        words = " ".join(text.get_text() for text in ax.texts)
        for row in data.query("parameters > 0").itertuples():
            assert f"{row.parameters:,}" in words
        # Boxes follow each other and lie inside the panel.
        edges = np.array([(box.get_x(), box.get_x() + box.get_width()) for box in boxes])
        assert (edges[1:, 0] > edges[:-1, 1]).all()
        assert ax.get_xlim()[0] < edges.min() and edges.max() < ax.get_xlim()[1]
    assert data["frozen"].sum() == 400_001 * 300


def test_vggs_boxes_shrink_with_the_images_and_grow_with_the_channels() -> None:
    figure, data = architectures.adafedadam_figure_4()
    boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    convolutions = [b for b, kind in zip(boxes, data["layer"], strict=True) if kind == "Conv2d"]
    heights = [box.get_height() for box in convolutions]
    widths = [box.get_width() for box in convolutions]
    assert heights == sorted(heights, reverse=True) and len(set(heights)) == 5
    assert widths == sorted(widths) and len(set(widths)) == 4


def test_they_are_drawn_without_runs_data_or_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained or loaded")

    monkeypatch.setattr(engine, "execute", refuse)
    monkeypatch.setattr("fedlib.datasets.load", refuse)
    state = torch.random.get_rng_state()
    made = figures.redraw(IDS, store=Store(tmp_path / "runs"))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [path.name for path in made] == [
        *(f"table_{number}.html" for number in (3, 4, 5, 6)),
        *("figure_4.png", "figure_5.png"),
    ]
    assert {figures.entry(id).notebook for id in IDS} == {"07_models"}
    for path in made:
        assert len(pd.read_csv(path.with_suffix(".csv"))) >= 5
        record = json.loads(path.with_suffix(".json").read_text())
        assert record["runs"] == [] and record["data"] == "none" and record["note"] == ""
        if path.suffix == ".png":
            image = matplotlib.image.imread(path)
            assert image.shape[1] == 1100 and len(np.unique(image[..., :3].sum(-1))) > 20
    before = made[-1].read_bytes()
    assert figures.redraw(IDS[-1:], store=Store(tmp_path / "runs"))[0].read_bytes() == before
