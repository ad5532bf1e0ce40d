"""Mime's figures and tables: the rounds that theory promises, and the ablation with FedProx's
regularizer. Table 2 and Table 5 have their own files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import learning_curves
from fedlib.figures.scale import scale, small
from fedlib.reproduction import tables
from fedlib.reproduction.entry import Drawing, Entry
from fedlib.reproduction.mime.base_optimizers import in_brief, mime_table_5
from fedlib.reproduction.mime.table_2 import mime_table_2
from fedlib.reproduction.mime.tables import line_of, mu_line, mu_of
from fedlib.results.reading import hyperparameter, hyperparameters
from fedlib.results.selection import winners

# Figure 1's panels and lines: algorithms, and two that differ from theirs only in the base.
PANELS: dict[str, tuple[str, ...]] = {
    "all methods": ("mime", "mimelite", "fedavgm", "scaffold", "fedprox"),
    "with and without momentum": ("mime", "mime_sgd", "fedavgm", "fedavg"),
    "fixed and local state": ("mime", "loc_mime"),
}
LINES = (*PANELS["all methods"], "fedavg", "mime_sgd", "loc_mime")
_FEDAVG = style.look("fedavg")
# Lines whose look differs from their algorithm's.
LOOKS: dict[str, style.Look] = {
    "fedavgm": style.Look("FedAvg", _FEDAVG.color, "v", "-"),
    "mime_sgd": style.Look("Mime, β 0", style.look("mime").color, "v", style.DOT),
    "fedavg": style.Look("FedAvg, β 0", _FEDAVG.color, "v", style.DOT),
    "mime_whole": style.Look("Mime, gradients of all", style.look("mime").color, "v", style.DASH),
}
PLAIN = {"mime_sgd", "fedavg"}  # lines without momentum
OWN = "rates by training loss"


def lines(histories: Sequence[History]) -> dict[str, list[History]]:
    """For each line the best setting, all its seeds: rates, beta and mu are tuned."""
    best = winners(histories, line_of)
    return {name: best[name] for name in LINES if name in best}


def mime_figure_1(histories: Sequence[History]) -> Drawing:
    """Test accuracy over rounds: all methods, momentum, and where the state is updated.

    Only panels whose lines were all run are drawn.

    Returns:
        The figure, and panel, task, algorithm (the line), round, mean, std, seeds, client_lr,
        momentum and mu (of the chosen setting).

    Raises:
        Error: no panel has all its lines.
    """
    best = lines(histories)
    shown = {title: names for title, names in PANELS.items() if set(names) <= set(best)}
    if not shown:
        missing = sorted(set(PANELS["all methods"]) - set(best))
        raise Error(f"Mime's Figure 1: no panel is complete, the first lacks runs of {missing}")
    frames: dict[str, pd.DataFrame] = {}
    every = [run for runs in best.values() for run in runs]
    _, all_lines = learning_curves(every, by=line_of, looks=LOOKS)
    with style.panels(1, len(shown), (style.WIDTH, 2.6), sharey=True) as (figure, panels):
        for ax, (title, names) in zip(panels, shown.items(), strict=True):
            for name, part in all_lines.groupby("algorithm"):
                if name not in names:
                    ax.plot(part["round"], part["line"], color="0.88", linewidth=0.7, zorder=0)
            part = {name: best[name] for name in names}
            frames[title] = _draw(ax, part, line_of, LOOKS, title, legend=False)
            ends = frames[title].groupby("algorithm")["line"].last()
            betas: dict[str, list[str]] = {}
            for name, beta in chosen(part)["momentum"].items():
                if beta > 0:
                    betas.setdefault(f"{beta:g}", []).append(_label(str(name)))
            about = "; ".join(f"{style.listed(names)} {beta}" for beta, names in betas.items())
            style.titled(ax, finding(title, ends), f"β: {about}", small=small(every))
            ax.label_outer()
        data = pd.concat(frames, names=["panel"]).droplevel(1).reset_index()
        note = f"{scale(every)}; {OWN}"
        note += "; grey: other panels" if len(shown) > 1 else ""
        style.headed(figure, overall(data.groupby("algorithm")["line"].last()), note)
        style.key(figure, columns=4)
    return figure, data


def _label(line: str) -> str:
    """A line's name in the picture."""
    return LOOKS[line].label if line in LOOKS else style.name(line)


def overall(ends: pd.Series) -> str:
    """Whether momentum helps Mime, and which methods end ahead of it, from the lines' last numbers.

    >>> overall(pd.Series({"mime": 77.4, "mime_sgd": 71.7, "scaffold": 80.7, "fedavgm": 79.2}))
    'Momentum helps Mime, but SCAFFOLD and FedAvg end ahead of it'
    >>> overall(pd.Series({"mime": 77.4, "scaffold": 71.7, "loc_mime": 78.0}))
    'No other method ends ahead of Mime'
    """
    others = ends.drop(["mime", "mime_sgd", "loc_mime"], errors="ignore")
    best_first = others.sort_values(ascending=False).items()
    ahead = [_label(str(name)) for name, end in best_first if style.ahead(end, ends["mime"]) > 0]
    names = style.listed(list(dict.fromkeys(label.split(",")[0] for label in ahead)))
    if not names:
        return "No other method ends ahead of Mime"
    if "mime_sgd" in ends and ends["mime"] - ends["mime_sgd"] > 1:
        verb = "end" if " and " in names else "ends"
        return f"Momentum helps Mime, but {names} {verb} ahead of it"
    return f"Ahead of Mime at the end: {names}"


def finding(panel: str, ends: pd.Series) -> str:
    """The finding of a panel of Figure 1, from its lines' last numbers.

    >>> finding("with and without momentum", pd.Series({"mime": 77.4, "mime_sgd": 71.7}))
    'Momentum: +5.7 for Mime'
    >>> finding("all methods", pd.Series({"mime": 77.4, "scaffold": 80.7}))
    'SCAFFOLD ends first'
    """
    if panel == "all methods":
        return f"{_label(str(ends.idxmax()))} ends first"
    if panel == "with and without momentum":
        gain = f"{style.ahead(ends['mime'], ends['mime_sgd']):+.1f}".replace("-", "−")
        return f"Momentum: {gain} for Mime"
    cost = style.ahead(ends["mime"], ends["loc_mime"])
    return f"Local state costs {cost:.1f}".replace("-", "−")


def chosen(best: Mapping[str, Sequence[History]]) -> pd.DataFrame:
    """The settings of some lines' runs: client_lr, momentum and mu, NaN if there is none."""
    known = pd.DataFrame({name: hyperparameters(runs[0]) for name, runs in best.items()}).T
    frame = known.reindex(columns=["client_lr", "momentum", "mu"]).astype(float)
    frame.loc[frame.index.isin(PLAIN), "momentum"] = 0.0
    return frame


def search(histories: Sequence[History]) -> pd.DataFrame:
    """The tuning range of each line of Figure 1, and its choice.

    Returns:
        By line: client_lr, beta (0 without momentum), mu (NaN except for FedProx), smallest and
        largest (of the tried rates), and edge: whether the chosen rate is one of these.
    """
    frame = chosen(lines(histories)).rename(columns={"momentum": "beta"}).fillna({"beta": 0.0})
    rates = pd.Series([hyperparameter(run, "client_lr") for run in histories])
    tried = rates.groupby([line_of(run) for run in histories])
    frame = frame.assign(smallest=tried.min(), largest=tried.max())
    ends = frame[["smallest", "largest"]].eq(frame["client_lr"], axis=0)
    return frame.assign(edge=ends.any(axis=1))


def mime_figure_5(histories: Sequence[History]) -> Drawing:
    """Test accuracy and loss over rounds: FedAvg, and FedProx, each mu at its own best rate.

    Returns:
        The figure, and metric, task, algorithm ("fedavg", or for instance "mu 0.1"), round, mean,
        std, seeds, client_lr, momentum, mu (0 for FedAvg).
    """
    by_mu = winners(histories, mu_of)
    every = [run for runs in by_mu.values() for run in runs]
    best: dict[str, list[History]] = {}
    looks: dict[str, style.Look] = {}
    pinks = LinearSegmentedColormap.from_list(
        "", ["#DDA9CF", style.look("fedprox").color, "#451539"]
    )
    shades = map(to_hex, pinks(np.linspace(0, 1, max(2, len({*by_mu} - {0.0})))))
    for mu in sorted(by_mu):
        name, label = mu_line(by_mu[mu][0]), f"μ = {mu:g}" if mu else "FedAvg (μ = 0)"
        best[name] = by_mu[mu]
        shade = next(shades) if mu else _FEDAVG.color
        looks[name] = style.Look(label, shade, "o", "-" if mu else style.DASH)
    frames = {}
    with style.panels(1, 2, (style.WIDTH, 2.5)) as (figure, panels):
        for ax, metric in zip(panels, ("accuracy", "loss"), strict=True):
            frames[metric] = _draw(ax, best, mu_line, looks, "", metric, legend=False)
            ends = frames[metric].groupby("algorithm", sort=False)["line"].last()
            digits = 1 if metric == "accuracy" else 2
            moved = style.ahead(ends.iloc[-1], ends.iloc[0])
            title = f"Test {metric}: {moved:+.{digits}f} from μ = {min(by_mu):g} to {max(by_mu):g}"
            style.titled(ax, title.replace("-", "−"), small=small(every))
        accuracy = frames["accuracy"].groupby("algorithm", sort=False)["line"].last()
        falls = "the larger μ, the lower the test accuracy"
        found = falls if (accuracy.diff().dropna() < 0).all() else "the effect of μ"
        style.headed(figure, f"FedProx: {found}", f"{scale(every)}; {OWN}")
        style.key(figure)
    return figure, pd.concat(frames, names=["metric"]).droplevel(1).reset_index()


def _draw(
    ax: Axes,
    best: Mapping[str, Sequence[History]],
    by: Callable[[History], str],
    looks: Mapping[str, style.Look],
    title: str,
    metric: str = "accuracy",
    *,
    legend: bool = True,
) -> pd.DataFrame:
    """Draw lines into some axes. Returns the drawn data, with the settings."""
    shown = [history for runs in best.values() for history in runs]
    how: dict[str, Any] = {"by": by, "looks": looks, "legend": legend, "ax": ax}
    _, data = learning_curves(shown, metric, title=title, **how)
    return data.join(chosen(best), on="algorithm")


def mime_table_1() -> tuple[None, pd.DataFrame]:
    """Communication rounds until ||grad f||^2 <= epsilon, from the paper.

    Returns:
        None, and group, algorithm, non-convex, mu-PL ("–" if the paper gives nothing), needs.
    """
    frame = papers.table("mime", "table1_rates")
    frame["algorithm"] = frame["algorithm"].replace({"==": "≡", " lower bound": ""}, regex=True)
    rates = {"nonconvex_text": "non-convex", "pl_text": "μ-PL"}
    frame[["group", *rates]] = frame[["group", *rates]].replace("", "–")
    return None, frame[["group", "algorithm", *rates, "needs"]].rename(columns=rates)


_ABLATION = {"emnist_mlp": "38_mime_ablation"}

ENTRIES: tuple[Entry, ...] = (
    Entry("mime/table_1", {"": "04_mimicking_centralized"}, lambda _: mime_table_1()),
    Entry("mime/table_2", tables.notebooks("mime", "Table 2"), mime_table_2, clients=True),
    Entry("mime/table_5", {"": "24_mime_emnist"}, lambda _: (None, in_brief(mime_table_5()[1]))),
    Entry("mime/figure_1", _ABLATION, mime_figure_1, parts=("curves",)),
    Entry("mime/figure_5", _ABLATION, mime_figure_5, parts=("prox",)),
)
