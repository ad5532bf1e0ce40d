"""A round of AdaFedAdam on two quadratic clients in the plane (AdaFedAdam, Figure 1).

Our text copy of the paper lacks its drawing. This one is computed from Algorithms 1 and 2.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.figures import style

# Client k's objective is (x - c_k)' A_k (x - c_k) / 2. One is steep and one is flat.
CURVATURES = np.array([[[3.0, 0.0], [0.0, 1.0]], [[0.3, 0.0], [0.0, 0.6]]])
MINIMISERS = np.array([[0.0, 1.6], [3.0, 0.0]])
START = np.array([-1.4, -1.2])
SHARES = np.array([0.5, 0.5])  # p_k
CLIENT_LR, STEPS = 0.15, 8
SERVER_LR, BETAS, ROUNDS = 0.1, (0.9, 0.999), 120
COLORS = (style.COLORS["pink"], style.COLORS["green"])
DRAWN = 0.3  # share of a gradient's length that is drawn
HEADS = {"fedadam": (22, 36), "adafedadam": (6, 16)}  # rounds in which an arrowhead is
NEAR = (-0.72, 1.98), (0.0, 2.1)  # the right panel, of the left one's shape
NAMES = {"fedadam": (1.0, 1.0), "adafedadam": (-0.64, 1.18)}  # places of the servers' names


def optimum() -> np.ndarray:
    """The minimiser of the weighted mean objective, ``[2]``."""
    steep = np.einsum("k,kij->ij", SHARES, CURVATURES)
    return np.linalg.solve(steep, np.einsum("k,kij,kj->i", SHARES, CURVATURES, MINIMISERS))


def one_round(x: np.ndarray) -> SimpleNamespace:
    """Algorithm 2 without fairness control (alpha = 0), from the server's model ``[2]``.

    Returns:
        paths: the local steps ``[clients, steps + 1, 2]``.
        gradients: of the clients' objectives at the server's model, ``[clients, 2]``.
        updates: U_k, ``[clients, 2]``, as long as the gradients.
        certainties: C_k, ``[clients]``.
        pseudo_gradient, certainty: g ``[2]`` and C, with weights p_k (in the first round I_k = 1).
    """
    paths = [np.stack([x, x])]
    for _ in range(STEPS):
        paths.append(paths[-1] - CLIENT_LR * _gradients(paths[-1]))
    gradients, moved = _gradients(paths[0]), paths[-1] - x
    # e_k is the rate of a single step as long as the client's path.
    e = np.linalg.norm(moved, axis=1) / np.linalg.norm(gradients, axis=1)
    updates, certainties = -moved / e[:, None], np.log(e / CLIENT_LR) + 1
    return SimpleNamespace(
        paths=np.stack(paths, 1),
        gradients=gradients,
        updates=updates,
        certainties=certainties,
        pseudo_gradient=SHARES @ updates,
        certainty=float(SHARES @ certainties),
    )


def adafedadam_figure_1() -> tuple[Figure, pd.DataFrame]:
    """One round, and the server's path to the optimum compared with FedAdam's."""
    first, best = one_round(START), optimum()
    walked = {name: server_path(name) for name in ("fedadam", "adafedadam")}
    with style.panels(1, 2, (style.WIDTH, 2.46)) as (figure, (left, right)):
        _landscape(left, best, (3, -12))
        _landscape(right, best, (-13, -4))
        for k, color in enumerate(COLORS):
            thin: dict[str, Any] = {"linewidth": 0.7, "markersize": 3}
            left.plot(*first.paths[k].T, ".-", color=color, **thin)
            end, place = first.paths[k, -1], ((-6, 6), (4, 2))[k]
            how: dict[str, Any] = {"textcoords": "offset points", "xytext": place}
            style.say(
                left, f"client {k + 1}: $x_{k + 1}$", end, color, ha=("right", "left")[k], **how
            )
            _arrow(left, -first.updates[k], f"$-U_{k + 1}$", color, ((-24, 0), (2, -9))[k])
            start, steepest = START, START - DRAWN * first.gradients[k]
            left.plot(
                *zip(start, steepest, strict=True), color=color, ls=style.DOT, lw=1.2, zorder=1
            )
        ours = style.look("adafedadam").color
        _arrow(left, -first.pseudo_gradient, "$-g$", ours, (4, 6))
        left.annotate("$x^t$", START, (-11, -8), textcoords="offset points")
        values = " and ".join(f"{certainty:.2f}" for certainty in first.certainties)
        note = f"dotted: −gradients; −g: the mean of −U;\narrows × {DRAWN:g}; certainties {values}"
        style.titled(left, "A round: updates as long as gradients", note)
        far = {name: float(np.linalg.norm(path[-1] - best)) for name, path in walked.items()}
        white = {"facecolor": "white", "linewidth": 0, "pad": 1}
        for name, path in walked.items():
            look, end = style.look(name), path[-1]
            right.plot(*path.T, color=look.color, zorder=2)
            right.plot(*end, "o", color=look.color, markersize=4.5)
            right.plot(*zip(end, best, strict=True), color="0.3", linewidth=0.8, linestyle=":")
            for n in HEADS[name]:
                way: dict[str, Any] = {"arrowstyle": "-|>", "color": look.color}
                way |= {"mutation_scale": 10, "shrinkA": 0, "shrinkB": 0}
                right.annotate("", path[n + 1], path[n], arrowprops=way)
            words = f"{look.label}:\nends {far[name]:.2f} away"
            style.say(right, words, NAMES[name], look.color, bbox=white)
        right.set(xlim=NEAR[0], ylim=NEAR[1])
        nearest = style.name(min(far, key=lambda name: far[name]))
        note = f"{ROUNDS} rounds of the server, enlarged; dotted: the distance to x*"
        style.titled(right, f"{nearest} ends nearer to x*", note)
    return figure, _data(first, best, walked)


def _gradients(points: np.ndarray) -> np.ndarray:
    """Each client's gradient at its point, ``[clients, 2]``."""
    return np.einsum("kij,kj->ki", CURVATURES, points - MINIMISERS)


def server_path(name: str) -> np.ndarray:
    """The server's models ``[ROUNDS + 1, 2]`` of AdaFedAdam's Algorithm 1, or of FedAdam: the mean
    update as gradient, and C = 1.
    """
    x, m, v = START, np.zeros(2), np.zeros(2)
    c_m = c_v = 1.0
    path = [x]
    for _ in range(ROUNDS):
        step = one_round(x)
        g, C = SHARES @ (x - step.paths[:, -1]), 1.0
        if name == "adafedadam":
            g, C = step.pseudo_gradient, max(step.certainty, 0.1)
        b1, b2 = BETAS[0] ** C, BETAS[1] ** C
        c_m, c_v = c_m * b1, c_v * b2
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        x = x - C * SERVER_LR * (m / (1 - c_m)) / (np.sqrt(v / (1 - c_v)) + 1e-8)
        path.append(x)
    return np.stack(path)


def _landscape(ax: Axes, best: np.ndarray, name: tuple[float, float]) -> None:
    """Contours and minimisers of both clients, the server's model, and the optimum, with its name
    at this distance in points.
    """
    x, y = np.linspace(-2, 3.6, 80), np.linspace(-2, 2.7, 80)
    for k, color in enumerate(COLORS):
        away = np.stack(np.meshgrid(x, y), -1) - MINIMISERS[k]
        values = 0.5 * np.einsum("abi,ij,abj->ab", away, CURVATURES[k], away)
        levels = values.max() * np.array([0.004, 0.03, 0.1])
        ax.contour(x, y, values, levels=levels, colors=color, linewidths=0.4, alpha=0.5)
        ax.plot(*MINIMISERS[k], "x", color=color)
        ax.annotate(f"$x_{k + 1}^*$", tuple(MINIMISERS[k]), (4, 4), textcoords="offset points")
    ax.plot(*best, "*", color="0.3", markersize=8)
    ax.annotate("$x^*$", tuple(best), name, textcoords="offset points")
    ax.plot(*START, "o", color="black", zorder=3)
    ax.set(xlim=(-1.9, 3.5), ylim=(-1.7, 2.5), aspect="equal", xticks=[], yticks=[], anchor="S")
    ax.grid(False)
    ax.spines[:].set_visible(False)


def _arrow(ax: Axes, way: np.ndarray, text: str, color: str, offset: tuple[float, float]) -> None:
    """An arrow from the server's model, shortened, and its name at the tip."""
    look: dict[str, Any] = {"arrowstyle": "-|>", "color": color, "shrinkA": 0, "shrinkB": 0}
    tip = tuple(START + DRAWN * way)
    ax.annotate("", tip, tuple(START), arrowprops=look, zorder=4)
    ax.annotate(text, tip, offset, textcoords="offset points", color=color, fontsize=6)


def _data(first: SimpleNamespace, best: np.ndarray, walked: dict[str, np.ndarray]) -> pd.DataFrame:
    """All drawn data: kind, client, step or round, the point or vector, and C."""
    rows: list[tuple[str, int | None, int | None, float, float, float | None]] = []
    for k in range(2):
        rows += [("local step", k + 1, n, *point, None) for n, point in enumerate(first.paths[k])]
        rows.append(("minimiser", k + 1, None, *MINIMISERS[k], None))
        rows.append(("gradient", k + 1, None, *first.gradients[k], None))
        rows.append(("U", k + 1, None, *first.updates[k], first.certainties[k]))
    rows.append(("g", None, None, *first.pseudo_gradient, first.certainty))
    rows.append(("optimum", None, None, *best, None))
    for name, path in walked.items():
        rows += [(f"{name} server", None, t, *point, None) for t, point in enumerate(path)]
    frame = pd.DataFrame(rows, columns=["what", "client", "number", "x1", "x2", "certainty"])
    return frame.astype({"client": "Int64", "number": "Int64", "certainty": float})
