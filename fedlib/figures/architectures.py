"""Network architectures as tables and drawings, made from the models themselves."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fedlib.arguments import checked
from fedlib.figures import style
from fedlib.figures.curves import figure_of

# What papers call our layers.
KINDS = {"Linear": "Dense", "Dropout2d": "Dropout", "GlobalAvgPool2d": "AvgPool2d"}
ACTIVATIONS = {"relu": "ReLU", "sigmoid": "sigmoid", "tanh": "tanh"}
COLORS = {
    "Conv2d": "#0072B2",
    "MaxPool2d": "#56B4E9",
    "Dense": "#E69F00",
    "LSTM": "#009E73",
    "Embedding": "#CC79A7",
}
PASSED_BY = ("MaxPool2d", "Dropout", "Dropout2d")  # of an activation that is noted at a layer
GAP = 0.5  # between two boxes


class _Activations(TorchFunctionMode):
    """While open, notes the activation functions that are called between layers.

    One behind max-pooling is noted at the layer before that: there it would give the same.
    """

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        super().__init__()
        self.rows = rows
        self.inside = False

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        if name in ACTIVATIONS and not self.inside:
            owner = next(row for row in reversed(self.rows) if row["layer"] not in PASSED_BY)
            owner["activation"] = ACTIVATIONS[name]
        return function(*args, **(kwargs or {}))


@checked
def layers(model: nn.Module, example: Tensor) -> pd.DataFrame:
    """The layers of a model in the order in which they are called.

    Args:
        model: called once, in evaluation mode.
        example: one input with a batch axis, ``[1, ...]``.

    Returns:
        a row for the input and for each layer: layer, output_shape (images as height, width,
        channels; without the batch axis), parameters (trained ones), frozen (those that are not),
        activation (that follows), settings.
    """
    rows: list[dict[str, Any]] = [_row("Input", example)]
    counted: set[int] = set()
    activations = _Activations(rows)

    def enter(layer: nn.Module, _: Any) -> None:
        activations.inside = True

    def leave(layer: nn.Module, _: Any, output: Tensor) -> None:
        activations.inside = False
        new = [p for p in layer.parameters(recurse=False) if id(p) not in counted]
        counted.update(map(id, new))
        trained, frozen = (
            sum(p.numel() for p in new if p.requires_grad == kind) for kind in (True, False)
        )
        name = type(layer).__name__
        rows.append(_row(KINDS.get(name, name), output, trained, frozen, _settings(layer)))

    handles = []
    for module in model.modules():
        if not list(module.children()) and not isinstance(module, nn.ReLU):
            handles.append(module.register_forward_pre_hook(enter))
            handles.append(module.register_forward_hook(leave))
    training = model.training
    try:
        with torch.no_grad(), activations:
            model.eval()(example)
    finally:
        model.train(training)
        for handle in handles:
            handle.remove()
    return pd.DataFrame(rows)


def _row(
    layer: str, output: Tensor, parameters: int = 0, frozen: int = 0, settings: str = ""
) -> dict[str, Any]:
    shape = list(output.shape[1:])
    if len(shape) == 3:
        shape = [*shape[1:], shape[0]]
    text = str(shape[0] if len(shape) == 1 else tuple(shape))
    row = {"layer": layer, "output_shape": text, "parameters": parameters, "frozen": frozen}
    return {**row, "activation": "", "settings": settings}


def _settings(layer: nn.Module) -> str:
    parts = []
    if hasattr(layer, "kernel_size"):
        size: Any = layer.kernel_size
        height, width = (size, size) if isinstance(size, int) else size
        parts.append(f"{height}x{width}")
    if isinstance(layer, nn.Conv2d) and layer.stride[0] != 1:
        parts.append(f"stride {layer.stride[0]}")
    if hasattr(layer, "p"):
        parts.append(f"p = {layer.p}")
    return ", ".join(parts)


@checked
def draw_layers(frame: pd.DataFrame, title: str = "") -> Figure:
    """A model as a row of boxes, one per layer.

    A box is as high as its output has rows of pixels, or steps (on a square-root scale; flat
    without such), and as broad as it has channels or units (logarithmic). Above it stands its
    output's shape, below it the layer with its parameters to train.

    Args:
        frame: from :func:`layers`.
        title: of the panel.
    """
    many = len(frame) > 8
    shapes = [[int(n) for n in text.strip("()").split(",")] for text in frame["output_shape"]]
    if len(shapes[0]) == 1 and len(shapes[1]) == 2:
        shapes[0] = [shapes[0][0], 1]  # a sequence of numbers
    with style.axes(size=(5.5, 2.8 if many else 2.2)) as ax:
        words: dict[str, Any] = {"fontsize": 5.5, "rotation": 90 if many else 0, "ha": "center"}
        left = 0.0
        for row, shape in zip(frame.to_dict("records"), shapes, strict=True):
            height = 0.4 + math.sqrt(shape[0] if len(shape) > 1 else 1)
            breadth = 0.6 + math.log2(shape[-1] + 1) / 4
            corner, color = (left, -height / 2), COLORS.get(row["layer"], "0.75")
            ax.add_patch(Rectangle(corner, breadth, height, facecolor=color, edgecolor="0.2"))
            centre, size = left + breadth / 2, "×".join(str(number) for number in shape)
            ax.text(centre, height / 2 + 0.2, size, va="bottom", **words)
            lines = [row["layer"], row["settings"], row["activation"]]
            lines.append(f"{row['parameters']:,}" if row["parameters"] else "")
            lines.append(f"{row['frozen']:,} frozen" if row["frozen"] else "")
            text = (", " if many else "\n").join(line for line in lines if line)
            ax.text(centre, -height / 2 - 0.2, text, va="top", **words)
            if left and not many:
                arrow = {"arrowstyle": "->", "color": "0.2", "shrinkA": 0, "shrinkB": 0}
                ax.annotate("", (left, 0), (left - GAP, 0), arrowprops=arrow)
            left += breadth + GAP
        low, high = (-10, 6.5) if many else (-4.9, 4)
        ax.set(xlim=(-0.2, left - GAP + 0.2), ylim=(low, high))
        told = "above a box: its output's shape; below: the layer, its activation and parameters"
        style.titled(ax, title, told)
        ax.set_axis_off()
    return figure_of(ax)
