"""Server adaptivity: rare and common features, and the rate of FedOpt's corollaries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import Drawing, learning_curves, shared_legend
from fedlib.reproduction.printed import of_task

PANELS = {
    "sparse_features": "features of very different frequency",
    "dense_features": "equally common features",
}


def server_adaptivity(histories: Sequence[History]) -> Drawing:
    """Excess loss over rounds, a panel for the problem with rare features and one without.

    Args:
        histories: runs of tasks named as in :data:`PANELS`, with metric ``"loss"``.

    Raises:
        Error: no runs of any of these tasks.
    """
    shown = [task for task in PANELS if of_task(histories, task)]
    if not shown:
        raise Error(f"no runs to draw; give runs of {' or '.join(PANELS)}")
    frames = []
    how: dict[str, Any] = {"percent": False, "log_y": True, "legend": False}
    with style.panels(1, len(shown), (5.5, 2.6)) as (figure, panels):
        for ax, task in zip(panels, shown, strict=True):
            runs = of_task(histories, task)
            frames.append(learning_curves(runs, "loss", title=PANELS[task], ax=ax, **how)[1])
            ax.set_ylabel("mean loss above the least")
        shared_legend(figure)
    return figure, pd.concat(frames, ignore_index=True)


def convergence_rates(histories: Sequence[History]) -> pd.DataFrame:
    """Squared gradient norms of runs on f = |x|^2 / 2, where they are twice the loss.

    Returns:
        for each run: algorithm, clients (m), local_steps (K), rounds (T), work (m K T), and over
        the points x_0 to x_{T-1} the mean and the least squared gradient norm.

    Raises:
        Error: a run that was not evaluated after every round, or has unequal local steps.
    """
    rows = []
    for history in histories:
        config, loss = history.config, history.series("loss")
        if len(loss) != config.rounds + 1 or not isinstance(config.local_steps, int):
            raise Error(f"{history!r}: need an evaluation per round and one number of local steps")
        square = 2 * loss.to_numpy()[:-1]
        m, K, T = config.clients_per_round, config.local_steps, config.rounds
        rows.append((config.algorithm, m, K, T, m * K * T, square.mean(), square.min()))
    names = ["algorithm", "clients", "local_steps", "rounds", "work", "mean", "least"]
    return pd.DataFrame(rows, columns=names)


def fedopt_rate(histories: Sequence[History]) -> Drawing:
    """Mean and least squared gradient norm over m K T, beside a line of slope -1/2.

    Args:
        histories: see :func:`convergence_rates`.
    """
    data = convergence_rates(histories)
    if data.empty:
        raise Error("no runs to draw; give at least one history")
    work = np.array([data["work"].min(), data["work"].max()])
    with style.panels(1, 2, (5.5, 2.8)) as (figure, panels):
        for ax, column in zip(panels, ("mean", "least"), strict=True):
            for name, part in data.groupby("algorithm", sort=False):
                look = style.look(str(name))
                dots = {"color": look.color, "fillstyle": "none", "label": look.label}
                ax.loglog(part["work"], part[column], look.marker, **dots)
            constant = (data[column] * np.sqrt(data["work"])).max()
            ax.loglog(work, constant / np.sqrt(work), "--", color="0.5", label="slope -1/2")
            ax.set(
                xlabel="m K T", ylabel="squared gradient norm", title=f"{column} over the rounds"
            )
        shared_legend(figure)
    return figure, data


def degree_of_adaptivity(degree: pd.DataFrame, plain: pd.Series, memory: pd.DataFrame) -> Figure:
    """FedAdam's loss over tau beside FedAvgM's, and what servers remember of pseudo-gradients.

    Args:
        degree: a column of losses per problem, indexed by tau.
        plain: FedAvgM's loss on each problem.
        memory: v after each round, a column per algorithm, and the pseudo-gradients as
            ``"signal"``.
    """
    with style.panels(1, 2, (5.5, 2.8)) as (figure, (left, right)):
        for number, name in enumerate(degree):
            color, label = f"C{number}", str(name).replace("_", " ")
            left.loglog(degree.index, degree[name], "o-", color=color, label=label)
            left.axhline(plain[name], color=color, linestyle=":", linewidth=1)
        left.set(xlabel="τ", ylabel="loss / first loss", title="FedAdam; dotted: FedAvgM")
        left.legend()
        for name in memory.columns.drop("signal"):
            look = style.look(str(name))
            right.plot(np.sqrt(memory[name]), color=look.color, label=look.label)
        right.plot(memory["signal"], ":", color="0.5", label="pseudo-gradient")
        right.set(xlabel="round", ylabel="$\\sqrt{v}$", title="what the server divides by")
        right.set_ylim(0, 1.5)
        right.legend(loc="upper left", ncols=2)
    return figure
