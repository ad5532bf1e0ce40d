"""Client drift: the paths of clients and server in the plane, still and moving."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from fedlib import paths as folders
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import Drawing, figure_of, learning_curves

LEVELS: dict[str, Any] = {"colors": "0.85", "linewidths": 0.5, "zorder": 0}
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00")  # of the clients, in turn


def local_paths(
    paths: ArrayLike,
    *,
    minimisers: ArrayLike | None = None,
    optimum: ArrayLike | None = None,
    hessian: ArrayLike | None = None,
    shown: int = 3,
    title: str = "",
    ax: Axes | None = None,
) -> Drawing:
    """Where the clients walk in each round, and the server from round to round.

    Args:
        paths: ``[rounds, clients, K + 1, 2]``: every client's K local steps and their start, which
            is the server's model of that round.
        minimisers: ``[clients, 2]``, of the clients' own objectives.
        optimum: ``[2]``, of the mean objective.
        hessian: ``[2, 2]`` of the mean objective around ``optimum``, for level lines.
        shown: rounds whose local steps are drawn; the server's path is drawn to the end.
        title: of the panel.
        ax: draw into these axes; default a new figure.

    Returns:
        the figure, and what is drawn: path ("server" or the client's number), round, step, x1, x2.

    Raises:
        Error: paths of another shape.
    """
    walked, server = _checked(paths), server_path(paths)
    near = walked[:shown]
    with style.axes(ax, size=(3.6, 3.2)) as ax:
        for i in range(walked.shape[1]):
            color = COLORS[i % len(COLORS)]
            for t, path in enumerate(near[:, i]):
                label = f"client {i}, local steps" if t == 0 else None
                ax.plot(*path.T, ".-", color=color, linewidth=0.8, label=label)
            if minimisers is not None:
                label = f"minimiser of client {i}"
                ax.plot(*np.asarray(minimisers)[i], "x", color=color, label=label)
        ax.plot(*server.T, "o-", color="black", label="server, round by round")
        if optimum is not None:
            ax.plot(*np.asarray(optimum), "*", color="0.3", markersize=11, label="optimum")
        if hessian is not None and optimum is not None:
            _levels(ax, np.asarray(hessian), np.asarray(optimum))
        ax.set(xlabel="$x_1$", ylabel="$x_2$", title=title)
    rows = [(str(i), t, k, *near[t, i, k]) for t, i, k in np.ndindex(near.shape[:3])]
    rows += [("server", t, 0, *x) for t, x in enumerate(server)]
    return figure_of(ax), pd.DataFrame(rows, columns=["path", "round", "step", "x1", "x2"])


def server_path(paths: ArrayLike) -> np.ndarray:
    """The server's models ``[rounds + 1, 2]``: the clients' starts, and the mean of the last ends.

    Args:
        paths: ``[rounds, clients, K + 1, 2]`` of clients that count alike.
    """
    walked = _checked(paths)
    return np.concatenate([walked[:, 0, 0], walked[-1:, :, -1].mean(1)])


def animate_paths(
    paths: Mapping[str, ArrayLike],
    id: str,
    *,
    optimum: ArrayLike | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Path:
    """A GIF of the clients' local steps, twelve in a second, a panel per method.

    Args:
        paths: title -> ``[rounds, clients, K + 1, 2]``, all of one shape.
        id: ``<paper>/<name>``; the file is ``<figures>/<id>.gif``.
        optimum: ``[2]``, of the mean objective.
        root: of the figures; default ``FEDLIB_FIGURES``, else ``figures/``.

    Raises:
        Error: no paths, or paths of different shapes.
    """
    walked = {title: _checked(each) for title, each in paths.items()}
    shapes = {each.shape for each in walked.values()}
    if len(shapes) != 1:
        raise Error(f"animation {id}: paths of shapes {sorted(shapes)}; need one shape")
    rounds, clients, points = next(iter(shapes))[:3]
    size, shared = (2.6 * len(walked), 2.8), {"sharex": True, "sharey": True}
    with style.panels(1, len(walked), size, **shared) as (figure, panels):
        moving: list[tuple[np.ndarray, list[Line2D], Line2D]] = []
        for ax, (title, each) in zip(panels, walked.items(), strict=True):
            # Invisible, so that the axes' limits never change.
            ax.plot(*each.reshape(-1, 2).T, alpha=0)
            if optimum is not None:
                ax.plot(*np.asarray(optimum), "*", color="0.3", markersize=11)
            colors = [COLORS[i % len(COLORS)] for i in range(clients)]
            lines = [ax.plot([], [], ".-", color=color)[0] for color in colors]
            moving.append((each, lines, ax.plot([], [], "o-", color="black")[0]))
            ax.set(xlabel="$x_1$", title=title)
        panels[0].set(ylabel="$x_2$")
        text = figure.text(0.01, 0.01, "", fontsize=7)

        def draw(frame: int) -> list[Any]:
            t, k = divmod(frame, points)
            for each, lines, server in moving:
                for i, line in enumerate(lines):
                    line.set_data(*each[t, i, : k + 1].T)
                server.set_data(*each[: t + 1, 0, 0].T)
            text.set_text(f"round {t}, local step {k}")
            return []

        target = folders.figures_root(root) / f"{id}.gif"
        target.parent.mkdir(parents=True, exist_ok=True)
        movie = FuncAnimation(figure, draw, frames=rounds * points, blit=False)
        movie.save(str(target), writer=PillowWriter(fps=12), dpi=100)
    return target


def drift_size(ends: pd.DataFrame, distances: pd.DataFrame) -> Figure:
    """How far clients drift in one round, and how far FedAvg's fixed point is from the optimum.

    Args:
        ends: client_lr, local_steps, and the distances clients_from_start, clients_from_path and
            mean_from_path after the first round (means over the clients, and of their mean model;
            the path is that of as many centralised steps). Zeros are not drawn.
        distances: client_lr, local_steps, mu and distance, of the fixed point from the optimum:
            FedAvg's with mu = 0; with mu > 0 FedProx's, of one client_lr and local_steps.
    """
    plain, proximal = distances[distances["mu"] == 0], distances[distances["mu"] > 0]
    with style.panels(2, 2, (5.5, 4.6)) as (figure, (start, path, fixed, spring)):
        for i, (rate, of_rate) in enumerate(ends.groupby("client_lr", sort=False)):
            look: dict[str, Any] = {"color": COLORS[i], "marker": "os^Dv"[i]}
            steps = of_rate["local_steps"]
            start.loglog(
                steps, of_rate["clients_from_start"], label=f"$\\eta_l$ = {rate:g}", **look
            )
            path.loglog(steps, of_rate["clients_from_path"], **look)
            # The mean of one step is on the path up to rounding.
            off = of_rate["mean_from_path"].where(of_rate["mean_from_path"] > 1e-12)
            path.loglog(steps, off, linestyle="--", markerfacecolor="white", **look)
            points = plain[plain["client_lr"] == rate]
            fixed.semilogx(points["local_steps"], points["distance"], **look)
        spring.plot(proximal["mu"], proximal["distance"], **style.look("fedprox").line())
        ticks = [int(k) for k in ends["local_steps"].unique()]
        for ax in (start, path, fixed):
            ax.set_xticks(ticks, [str(k) for k in ticks])
            ax.set_xticks([], minor=True)
        start.set(title="drift from the start", xlabel="local steps K", ylabel="distance")
        path.set(title="drift from the centralised path", xlabel="local steps K")
        fixed.set(title="FedAvg's fixed point", xlabel="local steps K", ylabel="from the optimum")
        spring.set(title="FedProx's fixed point", xlabel="$\\mu$", ylim=(0, None))
        start.legend()
        grey: dict[str, Any] = {"color": "0.4", "marker": "o"}
        clients = Line2D([], [], label="clients", **grey)
        mean = Line2D([], [], label="their mean", linestyle="--", markerfacecolor="white", **grey)
        path.legend(handles=[clients, mean])
    return figure


def drift_corrected(histories: Sequence[History]) -> Drawing:
    """The squared norm of the mean objective's gradient at the server's model, over the rounds."""
    figure, data = learning_curves(histories, "squared_gradient", percent=False, log_y=True)
    figure.axes[0].set(ylabel="$\\Vert\\nabla F(x_t)\\Vert^2$", ylim=(1e-15, None))
    return figure, data


def _checked(paths: ArrayLike) -> np.ndarray:
    walked = np.asarray(paths, dtype=float)
    if walked.ndim != 4 or walked.shape[-1] != 2 or 0 in walked.shape:
        raise Error(f"paths have shape {walked.shape}; need [rounds, clients, steps + 1, 2]")
    return walked


def _levels(ax: Axes, hessian: np.ndarray, optimum: np.ndarray) -> None:
    """Level lines of a quadratic within the axes' limits."""
    x, y = (np.linspace(*limits, 60) for limits in (ax.get_xlim(), ax.get_ylim()))
    grid = np.stack(np.meshgrid(x, y), -1) - optimum
    values = 0.5 * np.einsum("abi,ij,abj->ab", grid, hessian, grid)
    ax.contour(x, y, values, levels=values.max() * np.linspace(0.1, 1, 8) ** 2, **LEVELS)
    ax.grid(False)
