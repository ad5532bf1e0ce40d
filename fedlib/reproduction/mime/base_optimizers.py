"""Mime's Table 5: base optimizers as pairs (U, V), checked against torch.optim and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from fedlib.figures import style
from fedlib.optimizers import mime as bases
from fedlib.optimizers.mime import State
from fedlib.randomness import numpy_generator
from fedlib.reproduction.entry import Drawing

STEPS, SIZE, LR = 50, 40, 0.01
BETA, BETA1, BETA2, EPS, V0 = 0.9, 0.9, 0.99, 1e-3, 0.1
# From gradients [STEPS, SIZE] to (step over lr, state after it), one by one.
Reference = Callable[[Tensor], Iterator[tuple[Tensor, State]]]


def _torch(make: Callable[..., torch.optim.Optimizer], read: Callable, **options: Any) -> Reference:
    """The steps of a torch optimizer with some options. ``read`` makes our state from its state."""

    def run(gradients: Tensor) -> Iterator[tuple[Tensor, State]]:
        x = torch.zeros(SIZE, dtype=torch.float64, requires_grad=True)
        optimizer = make([x], **options)
        for g in gradients:
            before, x.grad = x.detach().clone(), g.clone()
            optimizer.step()
            yield (before - x.detach()) / LR, read(optimizer.state[x])

    return run


def _adam(params: list[Tensor]) -> torch.optim.Optimizer:
    """torch's Adam after so many steps that its bias corrections are 1."""
    optimizer = torch.optim.Adam(params, lr=LR, betas=(BETA1, BETA2), eps=EPS)
    zero = torch.zeros(SIZE, dtype=torch.float64)
    start = {"step": torch.tensor(1e6), "exp_avg": zero.clone(), "exp_avg_sq": zero.clone()}
    optimizer.state[params[0]] = start
    return optimizer


def _yogi(gradients: Tensor) -> Iterator[tuple[Tensor, State]]:
    m, v = np.zeros(SIZE), np.zeros(SIZE)
    for g in gradients.numpy():
        m = BETA1 * m + (1 - BETA1) * g
        v = v + (1 - BETA2) * np.where(g**2 > v, g**2, -(g**2))
        step = m / (np.sqrt(v) + EPS)
        yield torch.from_numpy(step), {"m": torch.from_numpy(m), "v": torch.from_numpy(v)}


# By base: the paper's U(g, s) and V(g, s), and the known optimizer in words.
TEXTS = {
    "SGD": ("g", "–", "torch.optim.SGD"),
    "Momentum": (
        "(1 - β) g + β m",
        "m ← (1 - β) g + β m",
        "torch.optim.SGD with momentum β and 1 - β times the rate",
    ),
    "Adagrad": ("g / (√v + ε)", "v ← v + g²", "torch.optim.Adagrad"),
    "Adam": (
        "((1 - β₁) g + β₁ m) / (√v + ε)",
        "m ← (1 - β₁) g + β₁ m, v ← (1 - β₂) g² + β₂ v",
        "torch.optim.Adam without bias correction",
    ),
    "Yogi": ("as Adam", "m as Adam, v ← v - (1 - β₂) g² sign(v - g²)", "its formulas in NumPy"),
}
ADAM: dict[str, Any] = {"eps": EPS, "v0": 0.0, "beta1": BETA1, "beta2": BETA2}
# The same bases in fedlib.
BASES: dict[str, bases.Base] = {
    "SGD": bases.SGD(),
    "Momentum": bases.Momentum(momentum=BETA),
    "Adagrad": bases.Adagrad(eps=EPS, v0=V0),
    "Adam": bases.Adam(**ADAM),
    "Yogi": bases.Yogi(**ADAM),
}
HEAVY_BALL = {"lr": LR * (1 - BETA), "momentum": BETA}
REFERENCES: dict[str, Reference] = {
    "SGD": _torch(torch.optim.SGD, lambda state: {}, lr=LR),
    "Momentum": _torch(
        torch.optim.SGD, lambda s: {"m": (1 - BETA) * s["momentum_buffer"]}, **HEAVY_BALL
    ),
    "Adagrad": _torch(
        torch.optim.Adagrad,
        lambda state: {"v": state["sum"]},
        lr=LR,
        eps=EPS,
        initial_accumulator_value=V0,
    ),
    "Adam": _torch(_adam, lambda state: {"m": state["exp_avg"], "v": state["exp_avg_sq"]}),
    "Yogi": _yogi,
}


def moved(base: bases.Base, g: Tensor, s: State) -> State:
    """``s`` with the second moment of V(g, s), which optimizers with a moving state use."""
    return {**s, "v": base.advance(g, s)["v"]} if "v" in s else s


def unlinear(base: bases.Base, s: State, g: Tensor, h: Tensor, frozen: bool) -> float:
    """How far a step is from linear in the gradient, up to a constant, relative to its size."""

    def step(gradient: Tensor) -> Tensor:
        return base.step(gradient, s if frozen else moved(base, gradient, s))

    gap = step(g + h) - step(g) - step(h) + step(torch.zeros_like(g))
    return float(gap.abs().max() / step(g + h).abs().max())


def mime_table_5(seed: int = 0) -> Drawing:
    """The base optimizers as (U, V), compared with known ones on random gradients.

    ``torch.optim`` takes its step with the new second moment. U uses the old one, which keeps it
    linear in g. So three things are compared, over 50 steps in float64: V(g, s) with the
    reference's state, U(g, s) with the reference's step if both divide by the new second moment,
    and U(g + h, s) with the parts U(g, s) + U(h, s) - U(0, s).

    Returns:
        None, and base, U(g, s), V(g, s), vectors (of the size of the model in s), compared with,
        difference of V, difference of U (largest ones), not linear (largest relative gap), and
        not linear with the new v (for the reference's step). The differences are text.
    """
    random = numpy_generator(seed, "base optimizers")
    scale = np.exp(random.normal(size=SIZE))
    gradients = torch.from_numpy(random.normal(size=(STEPS, SIZE)) * scale)
    rows = []
    for name, base in BASES.items():
        s = base.init(torch.zeros(SIZE, dtype=torch.float64))
        gaps = []
        for g, (taken, state) in zip(gradients, REFERENCES[name](gradients), strict=True):
            new, h = base.advance(g, s), gradients[0]
            ours = base.step(g, moved(base, g, s))
            off = [0.0, *((new[key] - value).abs().max() for key, value in state.items())]
            gap = {"difference of V": max(off), "difference of U": (ours - taken).abs().max()}
            if "v" not in s or s["v"].min() > 0:
                gap["not linear"] = unlinear(base, s, g, h, frozen=True)
                gap["not linear with the new v"] = unlinear(base, s, g, h, frozen=False)
            gaps.append({what: float(value) for what, value in gap.items()})
            s = new
        step, advance, known = TEXTS[name]
        row = {"base": name, "U(g, s)": step, "V(g, s)": advance, "vectors": base.vectors}
        row["compared with"] = known
        rows.append({**row, **pd.DataFrame(gaps).max().map(style.short)})
    return None, pd.DataFrame(rows)


def in_brief(frame: pd.DataFrame) -> pd.DataFrame:
    """The table's columns for a reader: the larger difference, and whether U is linear in g."""
    gaps = frame[["difference of V", "difference of U"]].astype(float).max(axis=1)
    old, new = frame["not linear"], frame["not linear with the new v"]
    linear = ("off by " + old).where(old.astype(float) > 1e-9, "yes")
    linear += (", but off by " + new + " with the new v").where(new.astype(float) > 1e-9, "")
    words = frame[["base", "U(g, s)", "V(g, s)", "compared with"]]
    return words.assign(**{"largest difference": gaps.map(style.short), "U linear in g": linear})
