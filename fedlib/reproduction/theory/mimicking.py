"""Mime's theory: its table of rates, and what the quadratics of notebook 04 show of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import Drawing, figure_of, shared_legend
from fedlib.randomness import numpy_generator
from fedlib.results.reading import hyperparameter
from fedlib.task import Task
from fedlib.tasks import quadratic_task

# ---------------------------------------------------------------- Table 1

SYMBOLS = {
    r"\epsilon": "ε",
    r"\delta": "δ",
    r"\sigma": "σ",
    r"\mu": "μ",
    r"\Omega": "Ω",
    r"\left(": "(",
    r"\right)": ")",
    r"^{3/2}": "^1.5",
    r"^{\frac{2}{3}}": "^(2/3)",
    "^2": "²",
}


def readable(formula: str) -> str:
    r"""A rate of Table 1 as plain text: ``\frac{LG^2}{S\epsilon^2}`` becomes ``LG²/(Sε²)``.

    Args:
        formula: LaTeX with fractions, square roots of one letter and the letters of the table.

    >>> readable(r"\frac{\delta G}{\sqrt{S}\epsilon^{3/2}}")
    'δG/(√S ε^1.5)'
    """
    for latex, text in SYMBOLS.items():
        formula = formula.replace(latex, text)
    formula = re.sub(r"\\sqrt\{(\w)\}", r"√\1", formula.replace(" ", ""))
    fraction = re.compile(r"\\frac\{([^{}]*)\}\{([^{}]*)\}")
    while match := fraction.search(formula):
        above, below = match.groups()
        outside = re.sub(r"\([^()]*\)", "", above)
        above = f"({above})" if set("+-") & set(outside) else above
        below = f"({below})" if len(below) > 1 else below
        formula = formula[: match.start()] + f"{above}/{below}" + formula[match.end() :]
    formula = re.sub(r"(√\w|\^\([^)]*\))(?=\w)", r"\1 ", formula)
    return re.sub(r"([+-])", r" \1 ", formula)


def mime_table_1() -> tuple[None, pd.DataFrame]:
    """Communication rounds until ||grad f||^2 <= epsilon, as printed.

    Returns:
        None, and group, algorithm, non-convex, mu-PL ("–" where nothing is printed), note.
    """
    frame = papers.table("mime", "table1_rates")
    rates = {name: frame[name].map(readable) for name in ("nonconvex_rate", "pl_rate")}
    frame = frame.assign(**rates).replace("", "–")
    frame["algorithm"] = frame["algorithm"].str.replace("==", "≡")
    return None, frame.rename(columns={"nonconvex_rate": "non-convex", "pl_rate": "μ-PL"})


# ---------------------------------------------------------------- Mime's base optimizers

BASES = {"SGD": "SGD", "Momentum": "momentum", "Adam": "Adam"}


def base_of(history: History) -> str:
    """``"SGD"``, ``"Momentum"`` or ``"Adam"``: the base optimizer of Mime, or FedAvg's server's."""
    method = history.config.method
    return str(method["base" if "base" in method else "server"]["type"])


def mimicking(histories: Sequence[History]) -> Drawing:
    """||grad F||^2 over rounds and over the floats sent, a column per base optimizer.

    Args:
        histories: of a task with ``squared_gradient`` and with ``dimension`` among its options; of
            several runs of a method with one base the one with the smallest last value is drawn.

    Returns:
        the figure, and base, method ("fedavg" with any server optimizer), algorithm, client_lr,
            round, model_sizes (received and sent by a client so far), squared_gradient.
    """
    frames = [_curve(history) for history in tuned(histories)]
    data = pd.concat(frames, ignore_index=True)
    shown = [base for base in BASES if (data["base"] == base).any()]
    with style.panels(2, len(shown), (5.5, 4.2), sharey=True) as (figure, panels):
        above, below = panels.reshape(2, -1)
        for base, over_rounds, over_sizes in zip(shown, above, below, strict=True):
            for method, part in data[data["base"] == base].groupby("method", sort=False):
                look, every = style.look(str(method)), max(1, len(part) // 6)
                line = {"label": look.label, "markevery": every, **look.line()}
                over_rounds.semilogy(part["round"], part["squared_gradient"], **line)
                over_sizes.semilogy(part["model_sizes"], part["squared_gradient"], **line)
            over_rounds.set(xlabel="round", title=f"base: {BASES[base]}")
            over_sizes.set(xlabel="model sizes per client")
        for ax in (above[0], below[0]):
            ax.set(ylabel="$\\Vert\\nabla F(x_t)\\Vert^2$", ylim=(1e-15, None))
        shared_legend(figure)
    return figure, data


def tuned(histories: Sequence[History]) -> list[History]:
    """Of the runs of each method and base the one with the smallest last squared gradient."""
    if not histories:
        raise Error("no runs to draw; give at least one history")
    groups: dict[tuple[str, str], list[History]] = {}
    for history in histories:
        groups.setdefault((base_of(history), _method(history)), []).append(history)
    return [min(runs, key=_last) for runs in groups.values()]


def _last(history: History) -> float:
    last = float(history.series("squared_gradient").iloc[-1])
    return last if history.diverged is None and np.isfinite(last) else np.inf


def _method(history: History) -> str:
    """FedAvg with any server optimizer is FedAvg here, as in Mime's section 5.1."""
    name = history.config.algorithm
    return name if name.startswith("mime") else "fedavg"


def _curve(history: History) -> pd.DataFrame:
    config = history.config
    size = config.clients_per_round * int(config.task["options"]["dimension"])
    sent = history.frame[history.frame["split"] == "communication"]
    sent = sent.groupby("round")["value"].sum().cumsum() / size
    series = history.series("squared_gradient")
    return pd.DataFrame(
        {
            "base": base_of(history),
            "method": _method(history),
            "algorithm": config.algorithm,
            "client_lr": hyperparameter(history, "client_lr"),
            "round": series.index,
            "model_sizes": [0.0, *sent.to_numpy()],
            "squared_gradient": series.to_numpy(),
        }
    )


# ---------------------------------------------------------------- Hessian similarity

TARGET = 1e-4  # of the first squared gradient
TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)
ONE_STEP = "server-only MVR"


def rounds_to(history: History, share: float = TARGET) -> float:
    """The first round with ||grad F||^2 <= ``share`` of its first value; NaN if there is none."""
    series = history.series("squared_gradient")
    reached = series.index[series <= share * series.iloc[0]]
    return float(reached[0]) if len(reached) else float("nan")


def similar_clients(delta: float, seed: int, clients: int = 40, dimension: int = 20) -> Task:
    """Clients in pairs with Hessians H ± delta P_i, where H has norm 1; the optimum is 0.

    Args:
        delta: how far the Hessians differ.
        seed: of P_i and of the gradients at the optimum, which have norm 0.05.
        clients: an even number.
    """
    draw, d = numpy_generator(seed, "similar clients"), dimension
    P, g = draw.standard_normal((clients // 2, d, d)), draw.standard_normal((clients // 2, d))
    P = P + P.swapaxes(1, 2)
    P /= np.linalg.norm(P, 2, axis=(1, 2), keepdims=True)
    g *= 0.05 / np.linalg.norm(g, axis=1, keepdims=True)
    H = np.diag(np.geomspace(1, 0.01, d))
    problem = H + delta * np.concatenate([P, -P]), np.concatenate([g, -g[::-1]])
    start = np.ones(d) / np.linalg.norm(H)
    task = quadratic_task(*problem, x0=start, name="hessian_similarity", test="gradient")
    task.options = {"delta": delta}
    return task


def similarity_rounds(histories: Sequence[History]) -> pd.DataFrame:
    """Rounds to the target with the best step size, for each delta and method.

    Args:
        histories: of tasks with ``delta`` among their options, with ``squared_gradient``. Runs
            with one local step are the server-only method.

    Returns:
        method, delta, client_lr (the best; NaN where no rate reaches the target), rounds (mean
            over the seeds, NaN unless all of them reach it), seeds.
    """
    rows = [
        {
            "method": ONE_STEP if h.config.local_steps == 1 else h.config.algorithm,
            "delta": float(h.config.task["options"]["delta"]),
            "client_lr": hyperparameter(h, "client_lr"),
            "rounds": rounds_to(h),
        }
        for h in histories
    ]
    if not rows:
        raise Error("no runs to draw; give at least one history")
    each = pd.DataFrame(rows).groupby(["method", "delta", "client_lr"], sort=False)["rounds"]
    cells = each.agg(rounds=lambda values: values.mean(skipna=False), seeds="size").reset_index()
    cells = cells.sort_values("rounds", na_position="last", kind="stable")
    best = cells.groupby(["method", "delta"], as_index=False).head(1)
    best.loc[best["rounds"].isna(), "client_lr"] = np.nan
    return best.sort_values(["method", "delta"]).reset_index(drop=True)


def hessian_similarity(histories: Sequence[History]) -> Drawing:
    """Rounds to the target over the Hessian dissimilarity delta, at L = 1."""
    data = similarity_rounds(histories)
    looks = {
        ONE_STEP: style.Look("server-only MVR (K = 1)", "#000000", "o", "--"),
        "mime_mvr": style.look("mime_mvr"),
        "mimelite_mvr": style.look("mimelite_mvr"),
    }
    with style.axes(size=(4.2, 3.0)) as ax:
        for method, look in looks.items():
            part = data[data["method"] == method]
            ax.loglog(part["delta"], part["rounds"], label=look.label, **look.line())
        ax.set(xlabel="Hessian dissimilarity $\\delta$ ($L$ = 1)", ylabel="rounds to the target")
        deltas = sorted(data["delta"].unique())
        ax.set_xticks(deltas, [str(Fraction(float(delta))) for delta in deltas])
        low, high = 0.8 * data["rounds"].min(), 1.25 * data["rounds"].max()
        if low > 0:
            rounds = [n for n in TICKS if low <= n <= high]
            ax.set_yticks(rounds, [str(n) for n in rounds])
            ax.set_ylim(low, high)
        ax.minorticks_off()
        ax.legend()
    return figure_of(ax), data
