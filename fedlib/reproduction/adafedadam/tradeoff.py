"""AdaFedAdam's exchange of the mean error against its spread over the clients (Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import shared_legend
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.fairness import best_fedprox
from fedlib.results.reading import hyperparameter

# Test metrics: mean error, and standard deviation of the clients' accuracies: around the mean of
# all examples, weighted by them, or with the clients alike.
WEIGHTED = ("accuracy", "accuracy_std_weighted")
ALIKE = ("accuracy_unweighted", "accuracy_std")
# Where the label of a point stands.
_SIDES: tuple[dict[str, Any], ...] = (
    {"xytext": (4, 4), "ha": "left"},
    {"xytext": (4, -9), "ha": "left"},
    {"xytext": (-4, -9), "ha": "right"},
)


def tradeoff(histories: Sequence[History]) -> pd.DataFrame:
    """Error and relative standard deviation of the clients' errors, one row per setting.

    Args:
        histories: runs of one task; those that differ in the seed only are averaged.

    Returns:
        algorithm, setting (alpha or q, NaN for others), error (percent) and rsd, weighted by
        examples, error_alike and rsd_alike (clients alike), worst30_alike (mean accuracy in
        percent of the worst 30 % of the clients, alike), seeds, dominated: whether one of
        AdaFedAdam's rows has no larger error and no larger rsd, and one of them smaller;
        printed_error and printed_rsd of Table 5. Means over :meth:`History.window`.
    """
    if not histories:
        raise Error("no runs to compare; give at least one history")
    rows = []
    for history in best_fedprox(histories):
        weighted, alike = (_measures(*map(history.final, names)) for names in (WEIGHTED, ALIKE))
        rows.append(
            {
                "algorithm": history.config.algorithm,
                "setting": _setting(history),
                **weighted,
                **{f"{name}_alike": value for name, value in alike.items()},
                "worst30_alike": 100 * history.final("accuracy_worst_30"),
            }
        )
    frame = pd.DataFrame(rows)
    groups = frame.groupby(["algorithm", "setting"], sort=False, dropna=False)
    table = groups.mean().assign(seeds=groups.size()).reset_index()
    front = table[table["algorithm"] == "adafedadam"]
    table["dominated"] = [
        bool(
            (
                (front["error"] <= row["error"])
                & (front["rsd"] <= row["rsd"])
                & ((front["error"] < row["error"]) | (front["rsd"] < row["rsd"]))
            ).any()
        )
        for row in table.to_dict("records")
    ]
    printed = _printed()
    of_table_5 = table["setting"].isin([1.0]) | table["setting"].isna()
    for name in ("printed_error", "printed_rsd"):
        table[name] = table["algorithm"].map(printed[name]).where(of_table_5)
    return table


def _measures(mean: Any, spread: Any) -> dict[str, Any]:
    """Error (percent) and RSD from mean and standard deviation of the clients' accuracies."""
    return {"error": 100 * (1 - mean), "rsd": spread / (1 - mean)}


def adafedadam_figure_3(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Mean error and relative standard deviation over rounds per alpha, and against each other."""
    adafedadam = [history for history in histories if history.config.algorithm == "adafedadam"]
    if not adafedadam:
        raise Error("adafedadam/figure_3: no runs of adafedadam among these")
    curves = _curves(adafedadam)
    table = tradeoff(histories)
    with style.panels(1, 3, (5.5, 2.7)) as (figure, (left, middle, right)):
        colors = _colors(curves["setting"].unique())
        for alpha, part in curves.groupby("setting"):
            for ax, name in ((left, "error"), (middle, "rsd")):
                ax.plot(part["round"], part[name], color=colors[alpha], label=f"α = {alpha:g}")
        left.set(xlabel="round", ylabel="mean test error (%)", title="error", yscale="log")
        ticks = [tick for tick in (2, 5, 10, 20, 50, 100) if tick >= curves["error"].min()]
        left.set_yticks(ticks, [str(tick) for tick in ticks])
        left.set_yticks([], minor=True)
        middle.set(xlabel="round", ylabel="RSD of the clients' errors", title="RSD")
        full = all(history.config.task["preset"] == "paper" for history in histories)
        _front(right, table, colors, full)
        printed = Line2D([], [], label="printed (Table 5)", **_hollow("0.4", "o"))
        shared_legend(figure, *([printed] if full else []))
    curves, table = curves.assign(panel="curves"), table.assign(panel="front")
    data = pd.concat([curves, table], ignore_index=True)
    first = ["panel", "algorithm", "setting", "round"]
    data = data[first + [name for name in data.columns if name not in first]]
    data["dominated"] = data["dominated"].astype("boolean")
    return figure, data.astype({"round": "Int64", "seeds": "Int64"})


def _printed() -> pd.DataFrame:
    """Error and RSD that Table 5's averages and spreads give, by algorithm."""
    (table,) = tables.find("adafedadam", "Table 5", "synthetic")
    cells = pd.DataFrame([(c.algorithm, c.metric, c.printed) for c in table.cells])
    values = cells.pivot(index=0, columns=1, values=2)
    error = 100 - values["avg"]
    return pd.DataFrame({"printed_error": error, "printed_rsd": values["std"] / error})


def _setting(history: History) -> float:
    key = {"adafedadam": "alpha", "qfedavg": "q"}.get(history.config.algorithm)
    return float("nan") if key is None else float(hyperparameter(history, key))


def _curves(histories: Sequence[History]) -> pd.DataFrame:
    """Error and RSD per alpha and round, means over the seeds."""
    frames = []
    for history in histories:
        frame = pd.DataFrame(_measures(*map(history.series, WEIGHTED)))
        frames.append(frame.reset_index().assign(setting=_setting(history)))
    groups = pd.concat(frames).groupby(["setting", "round"])
    return groups.mean().reset_index().assign(algorithm="adafedadam", seeds=groups.size().max())


def _colors(alphas: Sequence[float]) -> dict[float, tuple[float, float, float, float]]:
    places = np.linspace(0.0, 0.95, len(alphas))
    shades = matplotlib.colormaps["viridis"](places)
    return {alpha: tuple(shade) for alpha, shade in zip(sorted(alphas), shades, strict=True)}


def _hollow(color: str, marker: str) -> dict[str, Any]:
    """How a printed point is drawn."""
    return {"color": color, "marker": marker, "markerfacecolor": "white", "linestyle": ""}


def _front(
    ax: Axes,
    table: pd.DataFrame,
    colors: dict[float, tuple[float, float, float, float]],
    full: bool,
) -> None:
    """AdaFedAdam's points and what they dominate (shaded), and the other algorithms; at the paper's
    scale also what is printed.
    """
    ours = table[table["algorithm"] == "adafedadam"].sort_values("setting")
    ax.plot(ours["error"], ours["rsd"], color=style.look("adafedadam").color, zorder=1)
    for row in ours.to_dict("records"):
        ax.plot(row["error"], row["rsd"], "*", color=colors[row["setting"]], markersize=7)
    for name, part in table[table["algorithm"] != "adafedadam"].groupby("algorithm", sort=False):
        look = style.look(str(name))
        ax.plot(part["error"], part["rsd"], label=look.label, **look.line())
        # The points of several q lie close together: their labels stand around them.
        for side, row in zip(
            _SIDES, part.dropna(subset="setting").to_dict("records"), strict=False
        ):
            place: dict[str, Any] = {**side, "textcoords": "offset points", "fontsize": 6}
            ax.annotate(f"q={row['setting']:g}", (row["error"], row["rsd"]), **place)
    for row in table.dropna(subset="printed_error").to_dict("records") if full else ():
        look = style.look(row["algorithm"])
        hollow = _hollow(look.color, look.marker)
        ax.plot(row["printed_error"], row["printed_rsd"], zorder=0.5, **hollow)
    ax.margins(0.12)
    (low, high), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    # The smallest rsd of those with at most this error.
    ordered = ours.sort_values("error")
    edge = np.minimum.accumulate(ordered["rsd"].to_numpy())
    x = np.append(ordered["error"].to_numpy(), high)
    ax.fill_between(x, np.append(edge, edge[-1]), top, step="post", color="C0", alpha=0.12, lw=0)
    ax.set(xlim=(low, high), ylim=(bottom, top))
    ax.set(xlabel="mean test error (%)", ylabel="RSD of the clients' errors", title="trade-off")
