"""FedOpt's figures and tables. This file makes curves, data sets, layers and batch sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from matplotlib.textpath import TextPath
from matplotlib.transforms import ScaledTranslation
from torch import Tensor, nn

from fedlib import models, papers, partitioners, tasks
from fedlib.datasets import store
from fedlib.engine.history import History
from fedlib.figures import layers, style, unique_labels
from fedlib.figures.curves import figure_of
from fedlib.figures.scale import whole
from fedlib.reproduction import tables
from fedlib.reproduction.entry import (
    Drawing,
    Entry,
    of_task,
    of_these,
    printed_curves,
    printed_entry,
)
from fedlib.reproduction.evidence import best_of
from fedlib.reproduction.fedopt import tuning
from fedlib.reproduction.fedopt.tables import ADAPTIVE, OPTIMIZERS, TASKS
from fedlib.reproduction.metrics import METRICS
from fedlib.results.reading import option

PARTITIONS = 10  # number of partitions in Figure 14
PER_CLIENT = 100  # examples of a CIFAR client
# Table 2: the paper's name -> our data sets, the papers' own first.
PREPARED = {
    "CIFAR-10": ("cifar10",),
    "CIFAR-100": ("fed_cifar100", "cifar100"),
    "EMNIST-62": ("emnist", "emnist_byclass", "femnist"),
    "Shakespeare": ("shakespeare",),
    "StackOverflow": ("stackoverflow", "stackexchange"),
}
# Tables 3 to 6: the paper's name -> the model, and an input of one example.
MODELS: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "EMNIST AE": (models.EMNISTAutoencoder, torch.zeros(1, 784)),
    "EMNIST CR": (models.EMNISTCNN, torch.zeros(1, 1, 28, 28)),
    "Shakespeare": (models.ShakespeareLSTM, torch.ones(1, 80, dtype=torch.int64)),
    "StackOverflow NWP": (models.NextWordLSTM, torch.ones(1, 20, dtype=torch.int64)),
}


def labels_of_cifar100_clients() -> Drawing:
    """Figure 14: unique labels per client of the federated CIFAR-100, over ten partitions.

    A partition uses labels only, and CIFAR-100's are balanced, so no images are needed.
    """
    fine = np.repeat(np.arange(100), 500)
    splits = [
        partitioners.pachinko(fine // 5, fine, 500, PER_CLIENT, 0.1, 10.0, seed)
        for seed in range(PARTITIONS)
    ]
    with style.axes() as ax:
        ax.axvspan(19.5, 30.5, color="0.93", zorder=0)
        figure, data = unique_labels(fine, splits, ax=ax)
        inside = data["unique_labels"].between(20, 30)
        share = data.loc[inside, "clients"].sum() / data["clients"].sum()
        title = f"500 clients of 100 examples; {100 * share:.0f} % have 20 to 30 of the 100 labels"
        note = "bars: mean of ten partitions; lines: from the smallest to the largest number"
        style.titled(ax, title, f"{note}; shaded: 20 to 30 labels")
    return figure, data


def data_sets(data_root: Path) -> tuple[None, pd.DataFrame]:
    """Table 2: sizes of the paper's data sets, beside those of the data sets prepared here.

    CIFAR has no clients of its own. The number is that of a partition into clients of 100 examples.

    Returns:
        None, and one row per data set of the paper: data set, prepared (the name of the data set
        prepared for it, or ""), and its and our sizes (NA without).
    """
    frame = papers.table("fedopt", "table2_datasets")
    rows = []
    for dataset, part in frame.groupby("dataset", sort=False):
        name, ours = _prepared(str(dataset), data_root)
        row = {"data set": dataset, "prepared": name}
        for quantity, value in zip(part["quantity"], part["value"], strict=True):
            both = {"printed": value, "ours": ours.get(quantity)}
            row |= {f"{quantity.replace('_', ' ')}, {whose}": n for whose, n in both.items()}
        rows.append(row)
    data = pd.DataFrame(rows)
    return None, data.astype(dict.fromkeys(data.columns[2:], "Int64"))


def _prepared(dataset: str, data_root: Path) -> tuple[str, dict[str, int | None]]:
    """The name of the first prepared data set for a row of Table 2, or "", and its sizes."""
    for name in PREPARED.get(dataset, ()):
        card = store.read_card(name, data_root)
        if card is not None:
            counts = card.get("counts", {})
            sizes: dict[str, int | None] = {}
            for split in {"train", "test"} & set(counts):
                cut = counts[split] // PER_CLIENT if dataset.startswith("CIFAR") else None
                sizes[f"{split}_examples"] = counts[split]
                sizes[f"{split}_clients"] = counts.get(f"{split}_clients", cut)
            return name, sizes
    return "", {}


def network(label: str) -> tuple[None, pd.DataFrame]:
    """Tables 3 to 6: our layers of a model, beside the paper's parameter counts.

    Args:
        label: ``"EMNIST AE"``, ``"EMNIST CR"``, ``"Shakespeare"`` or ``"StackOverflow NWP"``.
    """
    make, example = MODELS[label]
    with torch.random.fork_rng(devices=[]):  # as making the model draws random initial values
        ours = layers(make(), example).drop(columns="frozen")
    total = {"layer": "total", "parameters": ours["parameters"].sum()}
    ours = pd.concat([ours, pd.DataFrame([total])], ignore_index=True).fillna("")
    shapes = ours["output_shape"].str.strip("()").str.split(", ")
    ours["output_shape"] = [" × ".join(f"{int(n):,}" for n in shape if n) for shape in shapes]
    printed = papers.table("fedopt", "table3_6_models").query("model == @label")
    ours.insert(2, "parameters, printed", printed["parameters"].to_numpy())
    names = {"output_shape": "output shape", "parameters": "parameters, ours"}
    return None, ours.loc[:, (ours != "").any()].rename(columns=names)


COLUMNS = 3
ONE_LINE = 36  # letters of a grey line above one of three panels
# Figure 4 has this task, Figure 1 all others.
ALONE = "emnist_cr"
# A level that needs no training: the error of an autoencoder that always outputs the mean image of
# this many writers, measured by notebook 13 on the published runs' data.
MEAN_IMAGE = {("femnist", 105): 17.3}


def convergence(histories: Sequence[History]) -> Drawing:
    """Figures 1 and 4: test metrics over rounds, a panel per task that was run.

    Table 1's values follow in brackets in panels whose runs have the paper's data.

    Returns:
        The figure and the drawn data, see :func:`fedlib.reproduction.entry.printed_curves`, with
        the metric, which is the one in Table 1.
    """
    printed = of_these(histories, "fedopt", "Table 1")
    shown = [cells for _, cells in printed.groupby("task", sort=False)]
    rows, columns = style.grid(len(shown), COLUMNS)
    size = (style.COLUMN, 2.3) if len(shown) == 1 else (style.WIDTH, 0.7 + 1.95 * rows)
    frames = []
    with style.panels(rows, columns, size, len(shown)) as (figure, panels):
        for ax, cells in zip(panels, shown, strict=True):
            task, metric = cells.iloc[0][["task", "metric"]]
            runs = of_task(histories, task)
            alone = len(shown) == 1
            how: Any = {"title": tuning.SHORT.get(task, ""), "legend": alone, "cut": not alone}
            data = printed_curves(cells, runs, metric, beside=whole(runs), lead=_lead, ax=ax, **how)
            options = runs[0].config.task["options"]
            data_set = tuple(options.get(key) for key in ("data", "clients", "words"))
            if METRICS[metric].smaller:
                ax.set_ylabel(f"{style.name(metric)}\n(low is good)")
                if (level := MEAN_IMAGE.get(data_set[:2])) is not None:
                    style.level(ax, level, "mean image", above=False)
            elif metric == "recall_at_5" and data_set in tuning.COMMONEST_TAGS:
                style.level(ax, tuning.COMMONEST_TAGS[data_set], "commonest tags")
            if alone and " within " in ax.get_title("left"):
                _bracket(ax, data.groupby("algorithm")["line"].last())
            frames.append(data.assign(metric=metric))
        data = pd.concat(frames, ignore_index=True)
        if len(shown) > 1:
            seeds = sorted(map(int, data["seeds"].unique()))
            one, several = seeds[0] == 1, seeds[-1] > 1
            over = " or ".join(["seeds"] * several + ["near rounds"] * one)
            note = f"{'/'.join(map(str, seeds))} seed{'s' * several}; bands: ± std of {over}; "
            note = "; ".join([note + "titles: against FedAvg", *_in_common([*panels])])
            style.headed(figure, _overall(data), note)
            style.key(figure)
    return figure, data


def _bracket(ax: Axes, ends: pd.Series) -> None:
    """A bracket behind the labels of the lines that end within a point of the best."""
    near = ends[ends > ends.max() - tuning.POINTS]
    first = {style.name(str(name)) for name in near.index}
    labels = [text for text in ax.texts if text.get_text().split(" ")[0].strip(",") in first]
    heights = [text.xyann[1] for text in labels if isinstance(text, Annotation)]
    paths = (TextPath((0, 0), text.get_text(), size=float(text.get_fontsize())) for text in labels)
    wide = max(path.get_extents().x1 for path in paths)
    low, high = min(heights) - 0.02, max(heights) + 0.02
    aside = ScaledTranslation((wide + 3) / 72, 0, figure_of(ax).dpi_scale_trans)
    how: dict[str, Any] = {"transform": ax.transAxes + aside, "clip_on": False, "label": "_"}
    x, y = [1.04, 1.06, 1.06, 1.04], [low, low, high, high]
    ax.add_line(Line2D(x, y, color="0.35", linewidth=0.7, **how))
    words = f"within\n{style.ahead(near.max(), near.min()):.1f}"
    at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate(words, (1.06, (low + high) / 2), (wide + 6, 0), va="center", fontsize=6.5, **at)


def _overall(data: pd.DataFrame) -> str:
    """On how many tasks the best server optimizer is clearly ahead of FedAvg."""
    ahead = []
    for (_, metric), part in data.groupby(["task", "metric"], sort=False):
        ends = part.groupby("algorithm")["line"].last()
        others = ends[ends.index.isin([*ADAPTIVE, "fedavgm"])]
        if "fedavg" in ends and len(others):
            far = tuning.POINTS if part["seeds"].min() > 1 else tuning.ONE_SEED
            if METRICS[metric].smaller:
                ahead.append(others.min() < (1 - tuning.SHARE) * ends["fedavg"])
            else:
                ahead.append(others.max() > ends["fedavg"] + far)
    count = f"{sum(ahead)} of {len(ahead)} tasks"
    return f"The best server optimizer ends clearly ahead of FedAvg on {count}" if ahead else ""


def _in_common(panels: Sequence[Axes]) -> list[str]:
    """Take what several panels say below their titles out of them, and what is longer than a line,
    and say it once.
    """
    said = {ax: style.below(ax).split(", ") for ax in panels}
    places: dict[tuple[Axes, ...], list[str]] = {}
    for part in dict.fromkeys(part for parts in said.values() for part in parts if part):
        places.setdefault(tuple(ax for ax in said if part in said[ax]), []).append(part)
    for ax in panels:
        own = ", ".join(places.get((ax,), []))
        if len(own) <= ONE_LINE:
            places.pop((ax,), None)
        title = ax.get_title("left").replace("\n", " ")
        style.titled(ax, title, "" if (ax,) in places else own)
    names = {ax: ax.get_title("left").split(":")[0] for ax in panels}
    return [
        f"{style.listed([names[ax] for ax in sharing]) if sharing != (*panels,) else 'all'}: "
        f"{', '.join(parts)}"
        for sharing, parts in sorted(places.items(), key=lambda each: len(", ".join(each[1])))
    ]


def _lead(ends: pd.Series, smaller: bool) -> str:
    """The best of some methods' last numbers, and its lead over FedAvg's: points, or a share of its
    error. If the lead is below a point: how many methods are that close to the best.

    >>> _lead(pd.Series({"fedavg": 12.0, "fedadam": 20.25}), smaller=False)
    'FedAdam +8.2'
    >>> _lead(pd.Series({"fedavg": 86.9, "fedadam": 87.5, "scaffold": 80.0}), smaller=False)
    '2 within 0.6'
    """
    if "fedavg" not in ends or ends.drop("fedavg").isna().all():
        return ""
    name = ends.idxmin() if smaller else ends.idxmax()
    ahead = style.ahead(ends[name], ends["fedavg"])
    if not smaller and ahead < tuning.POINTS:
        near = ends[ends > ends[name] - tuning.POINTS]
        lost = style.listed([style.name(str(each)) for each in ends.index[ends.isna()]])
        found = f"{len(near)} within {style.ahead(ends[name], near.min()):.1f}"
        return found + (f", {lost} diverges" if lost else "")
    far = f"{100 * ahead / ends['fedavg']:.0f} %" if smaller else f"+{ahead:.1f}"
    return f"{style.name(str(name))} {far}".replace(" -", " −")


def batch_sizes() -> Drawing:
    """Table 7: the paper's batch sizes, and those of the clients of fedlib's tasks.

    Returns:
        No figure. The columns task (the paper's name), batch size, printed, batch size, ours (in
        the paper preset), and small problem (ours in the quick preset).
    """
    printed = papers.table("fedopt", "table7_batch_sizes").set_index("task")["batch_size"]
    rows = []
    for name in tables.FEDOPT:
        ours = (tasks.preset_values(name, preset)["batch_size"] for preset in ("paper", "quick"))
        rows.append((TASKS[name], int(printed[TASKS[name]]), *ours))
    columns = ["task", "batch size, printed", "batch size, ours", "small problem"]
    return None, pd.DataFrame(rows, columns=columns)


_PARTITIONS = {"": "06_partitions"}
_GRIDS = "30_learning_rate_grids"
_MAPS, _TAUS, _PAIRS = (
    dict.fromkeys(TASKS, notebook) for notebook in (_GRIDS, "31_tau", "32_client_server_lr")
)
_RATES = ("client_lr", "server_lr")
_THREE = ("fedadam", "fedyogi", "fedavgm")  # in Figure 2. Figure 11 has all methods' maps
# Table 11's centralised optimizers, and their names on a federated server: one row for both.
_ROWS = {"Adagrad": "FedAdagrad", "Adam": "FedAdam", "Yogi": "FedYogi"}
_ROWS |= {"SGDM": "FedAvgM", "SGD": "FedAvg"}
_OTHERS = {task: notebook for task, notebook in tables.FEDOPT.items() if task != ALONE}
_TUNED: dict[str, Any] = {"parts": ("curves", "scaffold"), "choose": best_of}


def _layers(number: int, label: str) -> Entry:
    id, notebooks = f"fedopt/table_{number}", {"": "07_models"}
    return Entry(id, notebooks, lambda _: network(label))


def _map(number: int, task: str, *algorithms: str) -> Entry:
    return Entry(f"fedopt/figure_{number}", {task: _GRIDS}, partial(tuning.grids, algorithms))


def _on_all_posts(histories: Sequence[History]) -> list[History]:
    """The tuned runs among those that were tested on all posts, not on a sample of them."""
    return best_of([run for run in histories if option(run, "validation") == 0])


ENTRIES: tuple[Entry, ...] = (
    Entry("fedopt/figure_1", _OTHERS, convergence, **_TUNED),
    printed_entry("fedopt", "Table 1", **_TUNED),
    Entry("fedopt/figure_4", {ALONE: tables.FEDOPT[ALONE]}, convergence, **_TUNED),
    Entry("fedopt/table_7", {"": tables.FEDOPT["emnist_ae"]}, lambda _: batch_sizes()),
    Entry("fedopt/table_2", _PARTITIONS, data_sets),
    Entry("fedopt/figure_14", _PARTITIONS, lambda _: labels_of_cifar100_clients()),
    *(_layers(number, label) for number, label in enumerate(MODELS, 3)),
    Entry("fedopt/figure_2", {"stackoverflow_nwp": _GRIDS}, partial(tuning.margins, _THREE)),
    Entry("fedopt/figure_3", _TAUS, partial(tuning.against_tau, "train_loss")),
    *(_map(number, task, *OPTIMIZERS) for number, task in enumerate(TASKS, 5)),
    Entry("fedopt/figure_12", _PAIRS, tuning.server_against_client),
    Entry("fedopt/figure_13", _TAUS, partial(tuning.against_tau, "test")),
    Entry("fedopt/table_8", _MAPS, partial(tuning.selected, "table8_learning_rates", _RATES)),
    Entry("fedopt/table_9", _TAUS, partial(tuning.selected, "table9_tau", ("tau", *_RATES))),
    printed_entry("fedopt", "Table 11", rows=_ROWS),
    printed_entry(
        "fedopt", "Table 10", parts=("curves", "scaffold", "full_test"), choose=_on_all_posts
    ),
)
