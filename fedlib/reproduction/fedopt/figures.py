"""The figures and tables of FedOpt; the curves and the batch sizes are drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from fedlib import papers, tasks
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.reproduction import tables
from fedlib.reproduction.entry import Drawing, Entry
from fedlib.reproduction.evidence import best_of
from fedlib.reproduction.fedopt import heat_maps, setups, tuning
from fedlib.reproduction.fedopt.tables import OPTIMIZERS, TASKS
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.printed import of_task, printed_curves, printed_entry
from fedlib.results.reading import option

COLUMNS = 3
# Figure 4 has this task, Figure 1 all others.
ALONE = "emnist_cr"


def convergence(histories: Sequence[History]) -> Drawing:
    """Figures 1 and 4: test metrics over rounds, a panel per task that was run.

    What Table 1 prints stands in brackets in panels whose runs have the paper's rounds.

    Returns:
        the figure and what is drawn: see :func:`fedlib.reproduction.printed.printed_curves`; the
        metric, which is the one that Table 1 prints, added.

    Raises:
        Error: no run of a task of Table 1.
    """
    there = {history.config.task["name"] for history in histories}
    printed = tables.find("fedopt", "Table 1")
    shown = [cells for task, cells in printed.groupby("task", sort=False) if task in there]
    if not shown:
        raise Error("none of these runs is of the figure's tasks")
    columns = style.columns(len(shown), COLUMNS)
    rows = -(-len(shown) // columns)
    size = (5.5, 3.4) if len(shown) == 1 else (3.2 * columns, 2.5 * rows)
    frames = []
    with style.panels(rows, columns, size, len(shown)) as (figure, panels):
        for ax, cells in zip(panels, shown, strict=True):
            task, metric = cells.iloc[0][["task", "metric"]]
            runs = of_task(histories, task)
            whole = all(run.config.rounds == tasks.rounds(task, "paper") for run in runs)
            data = printed_curves(cells, runs, metric, series=metric, beside=whole, ax=ax)
            if METRICS[metric].smaller:
                ax.set_ylabel(f"{ax.get_ylabel()} (lower is better)")
            frames.append(data.assign(metric=metric))
    return figure, pd.concat(frames, ignore_index=True)


def batch_sizes() -> Drawing:
    """Table 7: the printed batch sizes, and what the clients of fedlib's tasks take.

    Returns:
        no figure; task (the paper's name), printed, ours (of the paper preset), and the difference.
    """
    printed = papers.table("fedopt", "table7_batch_sizes").set_index("task")["batch_size"]
    rows = [
        (TASKS[name], int(printed[TASKS[name]]), tasks.batch_size(name, "paper"))
        for name in tables.FEDOPT
    ]
    frame = pd.DataFrame(rows, columns=["task", "printed", "ours"])
    return None, frame.assign(difference=frame["ours"] - frame["printed"])


_PARTITIONS = {"": "06_partitions"}
_GRIDS = "30_learning_rate_grids"
_TAUS = dict.fromkeys(TASKS, "31_tau")
_TUNED: dict[str, Any] = {"parts": ("curves", "scaffold"), "choose": best_of}


def _layers(number: int, label: str) -> Entry:
    id, notebooks = f"fedopt/table_{number}", {"": "07_models"}
    return Entry(id, notebooks, make=lambda _: setups.network(label))


def _map(number: int, task: str, *algorithms: str) -> Entry:
    return Entry(f"fedopt/figure_{number}", {task: _GRIDS}, heat_maps.grids(*algorithms))


def _on_all_posts(histories: Sequence[History]) -> list[History]:
    """The tuned ones of the runs that were tested on all posts, not on a sample of them."""
    return best_of([run for run in histories if option(run, "validation") == 0])


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "fedopt/figure_1",
        {task: notebook for task, notebook in tables.FEDOPT.items() if task != ALONE},
        convergence,
        **_TUNED,
    ),
    printed_entry("fedopt", "Table 1", **_TUNED),
    Entry("fedopt/figure_4", {ALONE: tables.FEDOPT[ALONE]}, convergence, **_TUNED),
    Entry("fedopt/table_7", {"": tables.FEDOPT["emnist_ae"]}, make=lambda _: batch_sizes()),
    Entry("fedopt/table_2", _PARTITIONS, make=setups.data_sets),
    Entry("fedopt/figure_14", _PARTITIONS, make=lambda _: setups.labels_of_cifar100_clients()),
    *(_layers(number, label) for number, label in enumerate(setups.MODELS, 3)),
    _map(2, "stackoverflow_nwp", "fedadam", "fedyogi", "fedavgm"),
    Entry("fedopt/figure_3", _TAUS, tuning.against_tau("train_loss")),
    *(_map(number, task, *OPTIMIZERS) for number, task in enumerate(TASKS, 5)),
    Entry(
        "fedopt/figure_12",
        dict.fromkeys(TASKS, "32_client_server_lr"),
        tuning.server_against_client,
    ),
    Entry("fedopt/figure_13", _TAUS, tuning.against_tau("test")),
    Entry(
        "fedopt/table_8",
        dict.fromkeys(TASKS, _GRIDS),
        tuning.selected("table8_learning_rates", "client_lr", "server_lr"),
    ),
    Entry(
        "fedopt/table_9",
        _TAUS,
        tuning.selected("table9_tau", "tau", "client_lr", "server_lr"),
    ),
    printed_entry("fedopt", "Table 11"),
    printed_entry(
        "fedopt", "Table 10", parts=("curves", "scaffold", "full_test"), choose=_on_all_posts
    ),
)
