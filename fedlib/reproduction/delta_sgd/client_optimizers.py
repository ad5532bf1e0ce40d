"""Delta-SGD's figures: eight client optimizers whose rates were tuned for one task."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import learning_curves, printed_key, shared_legend
from fedlib.reproduction import tables
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.printed import of_task, printed_curves
from fedlib.reproduction.table import Table
from fedlib.results.reading import client_label, hyperparameter, option
from fedlib.results.selection import settings

# A panel of curves: task and alpha. The text does not print the alphas of Figure 1. (A) is the
# tuned task; what is said of (B) fits Table 1 at 0.01 only, what is said of (C) at 0.1 and at 1.
FIGURE_1 = (("cifar10_resnet18", 0.1), ("mnist", 0.01), ("cifar100_resnet50", 0.1))
FIGURE_6 = (("cifar10_resnet18", 0.1), ("fashion_mnist", 0.1), ("cifar100_resnet50", 0.1))
# A panel of profiles: title, and the settings along x: label, task, alpha.
Profile = tuple[str, tuple[tuple[str, str, float], ...]]


def _alphas(task: str) -> tuple[tuple[str, str, float], ...]:
    return tuple((f"{alpha:g}", task, alpha) for alpha in (0.01, 0.1, 1.0))


FIGURE_2: tuple[Profile, ...] = (
    ("CIFAR-10 ResNet-18, over α", _alphas("cifar10_resnet18")),
    ("FMNIST, over α", _alphas("fashion_mnist")),
    ("CIFAR-100 ResNet-50, over α", _alphas("cifar100_resnet50")),
)
FIGURE_3: tuple[Profile, ...] = (
    (
        "CIFAR-100, α = 0.1",
        (("ResNet-18", "cifar100_resnet18", 0.1), ("ResNet-50", "cifar100_resnet50", 0.1)),
    ),
    ("CNN, α = 0.01", (("MNIST", "mnist", 0.01), ("FMNIST", "fashion_mnist", 0.01))),
    (
        "ResNet-18, α = 0.01",
        (("CIFAR-10", "cifar10_resnet18", 0.01), ("CIFAR-100", "cifar100_resnet18", 0.01)),
    ),
)
ALPHAS = {
    0.01: style.Look("α = 0.01", "#D55E00", "*", "-"),
    0.1: style.Look("α = 0.1", "#0072B2", "X", "--"),
    1.0: style.Look("α = 1", "#009E73", "^", ":"),
}


def delta_sgd_figure_1(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Test accuracy over rounds with the rates of the first panel's task."""
    return _curves(FIGURE_1, histories)


def delta_sgd_figure_2(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Final accuracies over alpha: above as printed, below ours."""
    return _profiles(FIGURE_2, histories)


def delta_sgd_figure_3(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Final accuracies before and after a change of model or data: above as printed, below ours."""
    return _profiles(FIGURE_3, histories)


def delta_sgd_figure_4(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Delta-SGD's final accuracy over delta, a panel per task and a line per alpha."""
    tasks = list(dict.fromkeys(history.config.task["name"] for history in histories))
    frames = []
    with style.context():
        figure, panels = _panels(len(tasks), 2.7)
        for ax, task in zip(panels, tasks, strict=True):
            rows = []
            for runs in settings(of_task(histories, task)):
                alpha, delta = option(runs[0], "alpha"), hyperparameter(runs[0], "delta")
                printed, unclear = _printed(task, alpha).get("delta_sgd", (float("nan"), ""))
                if delta != 0.1:  # Table 1's; the others are printed as a drawing only
                    printed, unclear = float("nan"), ""
                rows.append((task, alpha, delta, *_final(runs), printed, unclear))
            columns = ["task", "alpha", "delta", "mean", "std", "seeds", "printed", "unclear"]
            frame = pd.DataFrame(rows, columns=columns).sort_values(["alpha", "delta"])
            for alpha, part in frame.groupby("alpha"):
                look = ALPHAS.get(float(str(alpha)), style.look(f"α = {alpha}"))
                ax.semilogx(part["delta"], part["mean"], label=look.label, **look.line())
                marked = part.dropna(subset="printed")
                ax.plot(marked["delta"], marked["printed"], "_", color=look.color, markersize=12)
            ax.set(xlabel="δ", title=_item(task).label)
            ax.set_xticks(
                sorted(frame["delta"].unique()), [f"{d:g}" for d in sorted(frame["delta"].unique())]
            )
            ax.minorticks_off()
            frames.append(frame)
        panels[0].set_ylabel("final test accuracy (%)")
        shared_legend(figure, printed_key(*(_item(task).rounds for task in tasks)))
    return figure, pd.concat(frames, ignore_index=True)


def delta_sgd_figure_5(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Delta-SGD's test accuracy over rounds for several local epochs, a panel per alpha."""
    alphas = sorted({option(history, "alpha") for history in histories})
    frames = []
    with style.context():
        figure, panels = _panels(len(alphas), 2.7)
        for ax, alpha in zip(panels, alphas, strict=True):
            runs = [history for history in histories if option(history, "alpha") == alpha]
            _, data = learning_curves(runs, title=f"α = {alpha:g}", legend=False, by=_epochs, ax=ax)
            frames.append(data.assign(alpha=alpha))
        shared_legend(figure)
    data = pd.concat(frames, ignore_index=True).rename(columns={"algorithm": "epochs"})
    return figure, data


def delta_sgd_figure_6(histories: Sequence[History]) -> tuple[Figure, pd.DataFrame]:
    """Test accuracy over rounds, means and bands of ± one standard deviation over seeds."""
    return _curves(FIGURE_6, histories)


def delta_sgd_table_7(histories: Sequence[History]) -> tuple[None, pd.DataFrame]:
    """Means and standard deviations over seeds; the paper's numbers are not in its text."""
    rows = []
    for runs in settings(histories):
        config = runs[0].config
        rows.append(
            {
                "task": config.task["name"],
                "method": client_label(config),
                **dict(zip(("mean", "std", "seeds"), _final(runs), strict=True)),
                "preset": config.task["preset"],
                "rounds": config.rounds,
                "data": "stand-in" if config.task["stand_in"] else "real",
                "note": "the paper's Table 7 is absent from its text",
            }
        )
    return None, pd.DataFrame(rows)


def _curves(
    panels: Sequence[tuple[str, float]], histories: Sequence[History]
) -> tuple[Figure, pd.DataFrame]:
    """Learning curves of those panels that have runs, with Table 1's numbers as marks."""
    shown = [(*panel, runs) for panel in panels if (runs := _at(histories, *panel))]
    if not shown:
        raise Error("none of these runs is of the figure's tasks and alphas")
    frames = []
    with style.context():
        figure, axes = _panels(len(shown), 3.2)
        for ax, (task, alpha, runs) in zip(axes, shown, strict=True):
            item = _item(task)
            data = printed_curves(
                item,
                runs,
                "avg",
                title=f"{item.label}, α = {alpha:g}",
                column=f"alpha {alpha:g}",
                by=client_label,
                ax=ax,
            )
            ax.set_ylabel("test accuracy (%)" if ax is axes[0] else "")
            frames.append(data.assign(alpha=alpha))
        shared_legend(figure, printed_key(*(_item(task).rounds for task, _, _ in shown)))
    return figure, pd.concat(frames, ignore_index=True)


def _profiles(
    panels: Sequence[Profile], histories: Sequence[History]
) -> tuple[Figure, pd.DataFrame]:
    """Final accuracies along a panel's settings, one line per client optimizer, and the printed."""
    shown = [
        panel for panel in panels if any(_at(histories, task, alpha) for _, task, alpha in panel[1])
    ]
    if not shown:
        raise Error("none of these runs is of the figure's tasks and alphas")
    frames = []
    with style.context():
        figure = Figure(figsize=(2.5 * len(shown), 4.6))
        axes = figure.subplots(2, len(shown), squeeze=False, sharex="col", sharey="col")
        for column, (title, places) in zip(axes.T, shown, strict=True):
            frame = _profile(title, places, histories)
            for ax, source in zip(column, ("printed", "ours"), strict=True):
                _draw_profile(ax, frame[frame["source"] == source])
            column[0].set_title(title)
            column[1].set_xticks(range(len(places)), [label for label, _, _ in places])
            column[1].set_xlim(-0.2, len(places) - 0.8)
            frames.append(frame)
        axes[0, 0].set_ylabel("printed accuracy (%)")
        axes[1, 0].set_ylabel("ours (%)")
        shared_legend(figure)
    return figure, pd.concat(frames, ignore_index=True)


def _profile(
    title: str, places: Sequence[tuple[str, str, float]], histories: Sequence[History]
) -> pd.DataFrame:
    """A panel's numbers: those of Table 1 that are legible, and those that were run."""
    rows = []
    for place, (label, task, alpha) in enumerate(places):
        where = (title, place, label, task, alpha)
        for key, (value, unclear) in _printed(task, alpha).items():
            rows.append((*where, key, "printed", value, float("nan"), 0, unclear))
        for runs in settings(_at(histories, task, alpha)):
            rows.append((*where, client_label(runs[0]), "ours", *_final(runs), ""))
    columns = ["panel", "place", "x", "task", "alpha", "algorithm", "source", "value", "std"]
    frame = pd.DataFrame(rows, columns=[*columns, "seeds", "unclear"])
    return frame.dropna(subset="value")


def _draw_profile(ax: Axes, frame: pd.DataFrame) -> None:
    for key, part in frame.groupby("algorithm", sort=False):
        look = style.look(str(key))
        ax.plot(part["place"], part["value"], label=look.label, **look.line())


def _panels(count: int, height: float) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(max(3.2, 2.5 * count), height))
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _at(histories: Sequence[History], task: str, alpha: float) -> list[History]:
    """The runs of a task at an alpha."""
    return [run for run in of_task(histories, task) if option(run, "alpha") == alpha]


def _item(task: str) -> Table:
    (found,) = tables.find("delta_sgd", "Table 1", task)
    return found


def _printed(task: str, alpha: float) -> dict[str, tuple[float, str]]:
    """Table 1's accuracies at an alpha, and what is unclear about them, by client optimizer."""
    cells = [cell for cell in _item(task).cells if cell.column == f"alpha {alpha:g}"]
    return {cell.row.lower().replace("-", "_"): (cell.printed, cell.unclear) for cell in cells}


def _final(runs: Sequence[History]) -> tuple[float, float, int]:
    """The last round's test accuracy in percent: mean and standard deviation over seeds, seeds."""
    metric = METRICS["avg"]
    values = pd.Series([metric.factor * metric(run)[0] for run in runs], dtype=float)
    return values.mean(skipna=False), values.std(skipna=False), len(values)


def _epochs(history: History) -> str:
    return f"E = {history.config.local_epochs}"
