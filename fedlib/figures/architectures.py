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

# The papers' names of our layers.
KINDS = {"Linear": "Dense", "Dropout2d": "Dropout", "GlobalAvgPool2d": "AvgPool2d"}
ACTIVATIONS = {"relu": "ReLU", "sigmoid": "sigmoid", "tanh": "tanh"}
COLORS = {
    "Conv2d": "blue",
    "MaxPool2d": "sky",
    "Dense": "amber",
    "LSTM": "green",
    "Embedding": "pink",
}
PASSED_BY = ("MaxPool2d", "Dropout", "Dropout2d")  # an activation is noted at the layer before


class _Activations(TorchFunctionMode):
    """While open, notes the activation functions that are called between layers.

    An activation after max-pooling is noted at the layer before the pooling, where it is the same.
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
        A row for the input and for each layer: layer, output_shape (images as height, width,
        channels, without the batch axis), parameters (trained), frozen (not trained), activation
        (that follows), settings.
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
        rows.append(_row(KINDS.get(name, name), output, trained, frozen, _details(layer)))

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


def _details(layer: nn.Module) -> str:
    parts = []
    if hasattr(layer, "kernel_size"):
        size: Any = layer.kernel_size
        height, width = (size, size) if isinstance(size, int) else size
        parts.append(f"{height} × {width}")
    if isinstance(layer, nn.Conv2d) and layer.stride[0] != 1:
        parts.append(f"stride {layer.stride[0]}")
    if hasattr(layer, "p"):
        parts.append(f"p = {layer.p}")
    return ", ".join(parts)


@checked
def draw_layers(frame: pd.DataFrame, title: str = "") -> Figure:
    """A model from its input down to its output, one line per layer.

    The box in the middle is as wide as the output has rows of pixels, or steps (on a square-root
    scale). To its left is the layer with the layers that follow it. To its right are the output's
    shape and a bar with the number of trained parameters. Frozen parameters are given in words.

    Args:
        frame: result of :func:`layers`.
        title: title of the panel.
    """
    with style.axes(size=(style.WIDTH, 0.4 + 0.165 * len(frame))) as ax:
        words: dict[str, Any] = {"fontsize": style.SMALL, "va": "center"}
        most = max(1, frame["parameters"].max())
        outputs = [[int(n) for n in text.strip("()").split(",")] for text in frame["output_shape"]]
        # Numbers of words are one for each step of the layer that looks them up.
        looked_up = len(outputs[0]) == 1 and outputs[1:2] and outputs[1][:-1] == outputs[0]
        for y, row in enumerate(frame.to_dict("records")):
            shape = outputs[y]
            steps = shape[0] if len(shape) > 1 or (y == 0 and looked_up) else 1
            breadth = 0.15 + math.sqrt(steps) / 3
            color = style.COLORS[COLORS.get(row["layer"], "grey")]
            corner = (-breadth / 2, y - 0.42)
            ax.add_patch(Rectangle(corner, breadth, 0.84, facecolor=color, linewidth=0))
            note = ", ".join(filter(None, [row["layer"], row["settings"], row["activation"]]))
            ax.text(-1.25, y, note, ha="right", **words)
            ax.text(1.25, y, " × ".join(map(str, shape)), **words)
            share = 1.6 * row["parameters"] / most
            ax.add_patch(Rectangle((2.4, y - 0.3), share, 0.6, facecolor=color, linewidth=0))
            numbers = [f"{row['parameters']:,}" if row["parameters"] else ""]
            numbers.append(f"{row['frozen']:,} frozen" if row["frozen"] else "")
            if row["frozen"]:  # far longer than a trained layer's
                corner, share = (2.4 + share, y - 0.3), share + 1.9
                hatched: dict[str, Any] = {"fill": False, "hatch": "/////", "linewidth": 0}
                ax.add_patch(Rectangle(corner, 1.9, 0.6, edgecolor=color, **hatched))
                for shift, white in ((0.0, "0.2"), (0.04, "white"), (0.08, "0.2")):  # a break
                    ax.plot([4.0 + shift, 4.1 + shift], [y + 0.42, y - 0.42], white, lw=1)
            ax.text(2.45 + share, y, ", ".join(filter(None, numbers)), **words)
        what = "rows of pixels" if any(len(shape) == 3 for shape in outputs) else "steps"
        frozen = bool(frame["frozen"].any())
        heads = {
            -1.25: "layer",
            0.0: f"wider: more {what}",
            1.25: "output",
            2.4: "trained parameters",
        }
        heads[2.4] += " (hatched: frozen, cut short)" * frozen
        for x, head in heads.items():
            side = "right" if x < 0 else "left" if x else "center"
            ax.text(x, -1.05, head, ha=side, va="center", fontsize=6, color="0.35")
        ax.set(xlim=(-3.2, 4.9 + frozen), ylim=(len(frame) - 0.4, -1.4))
        style.titled(ax, title)
        ax.set_axis_off()
    return figure_of(ax)
