"""Drawings of partitions and of networks: what is drawn is what was given."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib.patches import Rectangle
from torch import nn

from fedlib import figures, models
from tests.refusals import refused

LABELS = np.array([0, 0, 1, 2])
PARTS = [np.array([0, 2]), np.array([], dtype=int), np.array([1, 3, 3])]


def test_client_labels_of_any_partition():
    figure, data = figures.client_labels(LABELS, PARTS, title="Own")
    assert data.to_numpy().tolist() == [
        [0, 0, 1, 0.5],
        [0, 1, 1, 0.5],
        [2, 0, 1, pytest.approx(1 / 3)],
        [2, 2, 2, pytest.approx(2 / 3)],
    ]
    assert figure.axes[0].get_title("left") == "Own" and len(figure.legends) == 1
    refused("no examples", figures.client_labels, LABELS, [np.array([], dtype=int)])


def test_unique_labels_are_means_and_extremes_over_partitions():
    figure, data = figures.unique_labels(LABELS, [PARTS])
    assert data["clients"].tolist() == [1, 0, 2] and not figure.axes[0].lines
    other = [np.array([0, 1]), np.array([2]), np.array([0, 2, 3])]
    figure, data = figures.unique_labels(LABELS, [PARTS, other])
    assert data.to_numpy().tolist() == [[0, 0.5, 0, 1], [1, 1, 0, 2], [2, 1, 0, 2], [3, 0.5, 0, 1]]
    bars = figure.axes[0].containers[0]
    assert [bar.get_height() for bar in bars] == data["clients"].tolist()
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx([0, 1, 2, 3])
    reach = [sorted(line.get_ydata()) for line in figure.axes[0].lines]
    assert reach == data[["smallest", "largest"]].to_numpy().tolist()
    refused("no partitions", figures.unique_labels, LABELS, [])


class Gate(nn.Module):
    """An activation within a layer is the layer's own affair."""

    def forward(self, x):
        return x * torch.sigmoid(x)


class Small(nn.Module):
    """A convolution called twice, functional and module activations, a frozen layer."""

    def __init__(self):
        super().__init__()
        self.conv = models.layers.Conv2d(2, 2, (3, 1), padding=(1, 0))
        self.pool = models.layers.MaxPool2d(2)
        self.flatten = models.layers.Flatten()
        self.hidden = nn.Sequential(models.layers.Linear(8, 5), nn.ReLU())
        self.gate = Gate()
        self.frozen = models.layers.Linear(5, 3).requires_grad_(False)

    def forward(self, x):
        x = torch.sigmoid(self.conv(F.relu(self.conv(x))))
        return self.frozen(self.gate(self.hidden(self.flatten(self.pool(x)))))


def test_layers_follow_the_calls_of_a_forward_pass():
    model = Small()
    frame = figures.layers(model, torch.zeros(1, 2, 4, 4))
    columns = ["layer", "output_shape", "parameters", "frozen", "activation", "settings"]
    assert frame[columns].to_numpy().tolist() == [
        ["Input", "(4, 4, 2)", 0, 0, "", ""],
        ["Conv2d", "(4, 4, 2)", 14, 0, "ReLU", "3 × 1"],
        ["Conv2d", "(4, 4, 2)", 0, 0, "sigmoid", "3 × 1"],  # its weights are counted once
        ["MaxPool2d", "(2, 2, 2)", 0, 0, "", "2 × 2"],
        ["Flatten", "8", 0, 0, "", ""],
        ["Dense", "5", 45, 0, "ReLU", ""],
        ["Gate", "5", 0, 0, "", ""],
        ["Dense", "3", 0, 18, "", ""],
    ]
    assert model.training and not any(module._forward_hooks for module in model.modules())
    figure = figures.draw_layers(frame, "Small")
    boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert len(boxes) == 2 * len(frame) + (frame["frozen"] > 0).sum()
    assert figure.axes[0].get_title("left") == "Small"
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert {"2 × 2 × 2", "45"} <= {*texts} and any("ReLU" in text for text in texts)
    assert any("18 frozen" in text for text in texts)


@pytest.mark.parametrize(
    ("model", "example", "wide"),
    [
        (nn.Linear(784, 2), torch.zeros(1, 784), False),
        (nn.Embedding(9, 3), torch.zeros(1, 25, dtype=torch.int64), True),
    ],
    ids=["features", "words"],
)
def test_an_input_is_as_wide_as_its_words_but_not_as_its_features(model, example, wide):
    figure = figures.draw_layers(figures.layers(model, example))
    boxes = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    first, second = boxes[0].get_width(), boxes[2].get_width()
    assert first == second and (first > 1) == wide
