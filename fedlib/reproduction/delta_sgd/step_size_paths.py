"""Delta-SGD's step sizes on softmax regression, step by step (Delta-SGD, Figure 7).

Our text copy of the paper lacks its drawing and its task. This one is computed from LEAF's
synthetic data, as notebook 05 explains. It needs no runs.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from fedlib.figures import style
from fedlib.figures.curves import plain_log_ticks
from fedlib.optimizers.client import DeltaSGD
from fedlib.randomness import key, numpy_generator
from fedlib.tasks import Task, load_task

CLIENTS, SEED = 10, 0
FULL_STEPS, ROUNDS, LOCAL_STEPS, BATCH = 100, 30, 10, 20
SHOWN = 3  # rounds in the picture
RULE = DeltaSGD()
# The paper's colours of the conditions: green for the local smoothness, blue for the growth.
LINES = {
    "eta": ("step size η: the lower of both", "0.75", 3.0),
    "local": ("1st: local smoothness", style.COLORS["green"], 0.9),
    "growth": ("2nd: growth", style.COLORS["blue"], 0.9),
}
Batch = tuple[Tensor, Tensor]  # examples with a last 1 [B, D], labels [B]


def delta_sgd_figure_7() -> tuple[Figure, pd.DataFrame]:
    """Both conditions and the step size, on full gradients and in a federated client's batches."""
    paths = softmax_paths()
    return step_sizes(paths), pd.concat(paths, names=["panel", "step"]).reset_index()


def step_sizes(paths: Mapping[str, pd.DataFrame]) -> Figure:
    """Delta-SGD's two conditions over local steps, and the step size, which is the lower one.

    Args:
        paths: title of a panel -> one row per step. The columns are local, the condition from the
            local smoothness (infinite if there is none), growth, which bounds the growth of steps,
            and eta, the step size.
    """
    lowest = min(path["eta"].min() for path in paths.values())
    highest = max(path["growth"].max() for path in paths.values())
    with style.panels(len(paths), 1, (5.5, 0.4 + 1.6 * len(paths))) as (figure, panels):
        for ax, (title, path) in zip(panels, paths.items(), strict=True):
            length = LOCAL_STEPS if len(path) > FULL_STEPS else len(path)
            for name, (label, color, width) in LINES.items():
                how = {"color": color, "linewidth": width}
                for first in range(0, len(path), length):  # lines end with their round
                    part = path[name].iloc[first : first + length]
                    ax.semilogy(part, label=label if first == 0 else "_", **how)
            ax.set_ylim(lowest / 1.3, 2.5 * highest)
            ax.set(ylabel="step size η", xlim=(0, len(path) - 1))
            growth, fall = longest(path["eta"].to_numpy())
            found = f"growth for up to {growth} steps, a fall within {fall}"
            note = "softmax regression on Synthetic, the largest client"
            if len(path) > FULL_STEPS:  # for many rounds the first three, with their borders
                ax.set_xlim(0, SHOWN * LOCAL_STEPS - 1)
                note += f", {SHOWN} of {len(path) // LOCAL_STEPS} rounds of {LOCAL_STEPS} steps"
                note += "; grey line: a new round"
                found = "every round begins anew"
                for border in range(1, SHOWN):
                    ax.axvline(border * LOCAL_STEPS - 0.5, color="0.6", linewidth=0.6)
            plain_log_ticks(ax)
            style.titled(ax, f"{title.capitalize()}: {found}", note)
        panels[-1].set_xlabel("local step")
        style.key(figure)
    return figure


def longest(eta: np.ndarray) -> tuple[int, int]:
    """The steps of the longest growth of a step size, and of its longest fall.

    >>> longest(np.array([3.0, 1.0, 2.0, 3.0, 4.0, 2.0, 1.0, 2.0]))
    (3, 2)
    """
    ways = np.sign(np.diff(eta))
    parts = np.split(ways, np.flatnonzero(np.diff(ways)) + 1)
    growth, fall = (
        max((len(each) for each in parts if each[0] == way), default=0) for way in (1, -1)
    )
    return growth, fall


def softmax_paths() -> dict[str, pd.DataFrame]:
    """Panel's title -> one row per local step of the largest client. See :func:`client_round`."""
    task = load_task("synthetic", clients=CLIENTS, seed=SEED, init="keras")
    inputs = torch.nn.functional.pad(task.train.x.double(), (0, 1), value=1.0)
    sizes = task.train.sizes
    owned = [(inputs[i], task.train.y[i]) for i in task.train.index.split(sizes.tolist())]
    start, largest = initial_weights(task), int(sizes.argmax())
    alone = client_round(start, FULL_STEPS * [owned[largest]])[1]
    draw, w, steps = numpy_generator(SEED, "batches"), start, []
    for _ in range(ROUNDS):
        # All draws of a round come before its steps, client by client, as in notebook 05.
        drawn = [[draw.permutation(len(y))[:BATCH] for _ in range(LOCAL_STEPS)] for _, y in owned]
        ends = [
            client_round(w, [(x[i], y[i]) for i in map(torch.from_numpy, places)])
            for (x, y), places in zip(owned, drawn, strict=True)
        ]
        shares = (sizes / sizes.sum()).tolist()
        w = torch.stack([share * end for share, (end, _) in zip(shares, ends, strict=True)]).sum(0)
        steps.append(ends[largest][1])
    batches = pd.concat(steps, ignore_index=True)
    return {"full gradients": alone, "federated, in batches": batches}


def initial_weights(task: Task) -> Tensor:
    """Initial weights and biases ``[classes, features + 1]`` of a run of this seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(SEED, "init"))
        weight, bias = (p.detach().double() for p in task.model().parameters())
    return torch.column_stack([weight, bias])


def client_round(w: Tensor, batches: list[Batch]) -> tuple[Tensor, pd.DataFrame]:
    """Delta-SGD's steps on some batches, from the weights ``w``.

    Returns:
        The last weights, and one row per step: local, gamma / 2 over the local smoothness (infinite
        if there is none), growth, which bounds the growth of steps, and eta, the step size.
    """
    flat = w.flatten()
    state, rows = RULE.init(flat), []
    for x, y in batches:
        g, before = (
            cross_entropy_gradient(at.view_as(w), x, y).flatten()
            for at in (flat, state["previous"])
        )
        moved = float(torch.linalg.vector_norm(flat - state["previous"]))
        turned = float(torch.linalg.vector_norm(g - before))
        local = RULE.gamma * moved / (2 * turned) if turned > 0 else np.inf
        growth = float(state["eta"]) * np.sqrt(1 + RULE.delta * float(state["theta"]))
        flat, state = RULE.advance(flat, g, before, state)
        rows.append((local, growth, float(state["eta"])))
    return flat.view_as(w), pd.DataFrame(rows, columns=["local", "growth", "eta"])


def cross_entropy_gradient(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The mean cross-entropy's gradient ``[classes, D]`` of a linear model, in closed form."""
    wrong = (x @ w.T).softmax(-1)
    wrong[torch.arange(len(y)), y] -= 1
    return wrong.T @ x / len(y)
