"""The figures and tables of this version: how each is drawn, and from which runs it was drawn last.

:func:`draw` remembers the digests of the runs in ``<store>/figures/<paper>__<name>.json``;
:func:`redraw` draws again from the stored runs. Nothing here can train.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedlib.engine.history import History
from fedlib.errors import Error, unknown
from fedlib.figures import adaptivity, architectures, drift, mimicking, partitions, style
from fedlib.figures.curves import (
    client_distribution,
    learning_curves,
    printed_key,
    shared_legend,
)
from fedlib.figures.save import save, write
from fedlib.results.compare import ITEMS, Item, cells, how_to_make
from fedlib.results.store import Store

log = logging.getLogger("fedlib")

Drawing = tuple[Figure | None, pd.DataFrame]


@dataclass(frozen=True)
class Entry:
    """A figure or table.

    Attributes:
        id: ``<paper>/<name>``.
        caption: without the paper's title.
        notebooks: task -> the notebook that makes its runs. A figure of several tasks shows those
            that were run. A figure that needs no runs has the one task "".
        draw: from histories to a figure (None for a table) and its data.
        make: of a figure that needs no runs, from the data root to the same. Without ``draw`` and
            ``make`` the notebook draws the figure itself.
    """

    id: str
    caption: str
    notebooks: Mapping[str, str]
    draw: Callable[[Sequence[History]], Drawing] | None = None
    make: Callable[[Path], Drawing] | None = None

    @property
    def paper(self) -> str:
        """The first part of the id."""
        return self.id.split("/")[0]

    @property
    def notebook(self) -> str:
        """The notebooks' names, with commas."""
        return ", ".join(dict.fromkeys(self.notebooks.values()))


@dataclass(frozen=True)
class Drawn:
    """What was drawn and saved: figure (None for a table), data, path of the PNG or HTML."""

    figure: Figure | None
    data: pd.DataFrame
    path: Path


_FEDOPT = {"cifar10": "10_cifar10", "emnist_cr": "fedlib run emnist_cr ALGORITHM"}
_SYNTHETIC = {"synthetic": "23_fair_synthetic"}
_PARTITIONS = {"": "06_partitions"}
_MODELS = {"": "07_models"}


# ---------------------------------------------------------------- drawing


def _item(paper: str, task: str) -> Item:
    return next(item for item in ITEMS if (item.paper, item.task) == (paper, task))


def _of(histories: Sequence[History], task: str) -> list[History]:
    return [history for history in histories if history.config.task["name"] == task]


def fedopt_figure_1(histories: Sequence[History]) -> Drawing:
    """Validation curves, a panel per task."""
    items = [_item("fedopt", task) for task in _FEDOPT if _of(histories, task)]
    frames = []
    with style.context():
        figure = Figure(figsize=(5.5, 3.0))
        panels = figure.subplots(1, len(items), squeeze=False)[0]
        for ax, item in zip(panels, items, strict=True):
            frames.append(
                _curves(item, "accuracy_percent", _of(histories, item.task), item.label, ax)
            )
        shared_legend(figure, printed_key(*(item.rounds for item in items)))
    return figure, pd.concat(frames, ignore_index=True)


def adafedadam_figure_2(histories: Sequence[History]) -> Drawing:
    """Synthetic: average accuracy over rounds, and the clients' accuracies after the last one."""
    item = _item("adafedadam", "synthetic")
    with style.context():
        figure = Figure(figsize=(5.5, 3.0))
        left, right = figure.subplots(1, 2)
        curves = _curves(item, "avg", histories, "Synthetic, weighted by examples", left)
        _, clients = client_distribution(
            histories, title="Synthetic, after the last round", legend=False, ax=right
        )
        shared_legend(figure, printed_key(item.rounds))
    data = pd.concat([curves.assign(panel="curves"), clients.assign(panel="clients")])
    data = data[["panel", *curves.columns, "value", "share"]]
    counts = {"round": "Int64", "seeds": "Int64", "printed_rounds": "Int64"}
    return figure, data.astype(counts).reset_index(drop=True)


def _curves(
    item: Item, metric: str, histories: Sequence[History], title: str, ax: Axes
) -> pd.DataFrame:
    """Learning curves with the printed values of ``metric`` for the algorithms that are drawn."""
    drawn = {history.config.algorithm for history in histories}
    printed = {
        name: number for name, own, _, number in item.cells() if own == metric and name in drawn
    }
    _, data = learning_curves(
        histories, printed=printed, printed_rounds=item.rounds, title=title, legend=False, ax=ax
    )
    return data.assign(printed=data["algorithm"].map(printed), printed_rounds=item.rounds)


def _table(paper: str) -> Callable[[Sequence[History]], Drawing]:
    def draw(histories: Sequence[History]) -> Drawing:
        items = [item for item in ITEMS if item.paper == paper and _of(histories, item.task)]
        frame = cells(histories, items).drop(columns=["paper", "item", "runs"])
        frame["algorithm"] = [style.look(name).label for name in frame["algorithm"]]
        return None, frame

    return draw


ENTRIES: dict[str, Entry] = {
    entry.id: entry
    for entry in (
        Entry(
            "fedopt/figure_1",
            "Test accuracy over rounds (FedOpt, Figure 1). "
            "Marks at the right edge: the accuracy that Table 1 prints.",
            _FEDOPT,
            fedopt_figure_1,
        ),
        Entry(
            "fedopt/table_1",
            "Average test accuracy in percent over the last 100 rounds (FedOpt, Table 1).",
            _FEDOPT,
            _table("fedopt"),
        ),
        Entry(
            "adafedadam/figure_2",
            "Average test accuracy over rounds, and the distribution of the clients' accuracies "
            "after the last round (AdaFedAdam, Figure 2, Synthetic). "
            "Marks at the right edge: the averages that Table 5 prints.",
            _SYNTHETIC,
            adafedadam_figure_2,
        ),
        Entry(
            "adafedadam/table_5",
            "Average, spread and worst 30 % of the clients' test accuracies in percent "
            "(AdaFedAdam, Table 5, Synthetic).",
            _SYNTHETIC,
            _table("adafedadam"),
        ),
        Entry(
            "theory/client_drift",
            "Two clients in the plane: local steps of the first rounds, and the server's path.",
            {"quadratic": "01_client_drift"},
        ),
        Entry(
            "theory/drift_size",
            "How far clients drift in a round, and where FedAvg and FedProx come to rest.",
            {"quadratic": "01_client_drift"},
        ),
        Entry(
            "theory/drift_corrected",
            "Squared gradient norm of the mean objective over rounds of ten local steps, two "
            "quadratic clients: FedAvg and FedProx come to rest beside the optimum.",
            {"client_drift": "01_client_drift"},
            drift.drift_corrected,
        ),
        Entry(
            "mime/table_1",
            "Communication rounds until the squared gradient norm is at most ε, S clients a round, "
            "logarithmic factors left out (Mime, Table 1, as printed).",
            {"": "04_mimicking_centralized"},
            make=lambda _: mimicking.mime_table_1(),
        ),
        Entry(
            "theory/mimicking",
            "Squared gradient norm of the mean objective over rounds and over the model sizes "
            "sent by a client and to it, per base optimizer. FedAvg has the base on the server.",
            {"mimicking": "04_mimicking_centralized"},
            mimicking.mimicking,
        ),
        Entry(
            "theory/hessian_similarity",
            "Rounds until the squared gradient norm is a 10,000th of its first value, best step "
            "size, over the clients' Hessian dissimilarity.",
            {"hessian_similarity": "04_mimicking_centralized"},
            mimicking.hessian_similarity,
        ),
        Entry(
            "theory/server_adaptivity",
            "Mean loss of servers with their best rate, on a problem whose features are of very "
            "different frequency and on one where all are equally common.",
            {"sparse_features": "02_server_adaptivity", "dense_features": "02_server_adaptivity"},
            adaptivity.server_adaptivity,
        ),
        Entry(
            "theory/degree_of_adaptivity",
            "FedAdam over τ, and what Adam and Yogi remember of pseudo-gradients.",
            {"quadratic": "02_server_adaptivity"},
        ),
        Entry(
            "theory/fedopt_rate",
            "Squared gradient norm over clients x local steps x rounds, at the step sizes of "
            "FedOpt's Corollaries 1 and 2.",
            {"noisy_quadratics": "02_server_adaptivity"},
            adaptivity.fedopt_rate,
        ),
        Entry(
            "delta_sgd/figure_7",
            "The two conditions of Delta-SGD's step size and the step size (Delta-SGD, Figure 7), "
            "for softmax regression. The text does not name the task of the paper's figure.",
            {"synthetic": "05_auto_tuned_clients"},
        ),
        Entry(
            "theory/auto_tuned_clients",
            "SGD, Delta-SGD and SPS over the scale of the losses and a floor below them, and the "
            "Lyapunov function of Delta-SGD's equation 5.",
            {"clients": "05_auto_tuned_clients"},
        ),
        Entry(
            "theory/accumulated_updates",
            "Adam on what N steps of SGD accumulate (N-AccAdam), over rounds and over gradients.",
            {"pooled": "03_fairness_and_certainty"},
        ),
        Entry(
            "theory/fairness_and_certainty",
            "Points of rest of clients with unequal steps, AdaFedAdam's certainty, and mean and "
            "spread of the clients' errors over its α.",
            {"synthetic": "03_fairness_and_certainty"},
        ),
        Entry(
            "fedopt/table_2",
            "Sizes of the data sets (FedOpt, Table 2), and of those that are prepared here.",
            _PARTITIONS,
            make=partitions.fedopt_table_2,
        ),
        Entry(
            "fedopt/figure_14",
            "Different labels per client of the federated CIFAR-100 (FedOpt, Figure 14): Pachinko "
            "allocation of labels with CIFAR-100's structure. Bars: mean over ten partitions, "
            "lines: the smallest and largest number; shaded: 20 to 30 labels.",
            _PARTITIONS,
            make=lambda _: partitions.fedopt_figure_14(),
        ),
        Entry(
            "adafedadam/figure_6",
            "Label distributions of the 16 clients (AdaFedAdam, Figure 6), for labels with "
            "CIFAR-10's structure: ten classes of 5,000.",
            _PARTITIONS,
            make=lambda _: partitions.adafedadam_figure_6(),
        ),
        Entry(
            "delta_sgd/figure_8",
            "Class distributions of 100 clients of 500 examples (Delta-SGD, Figure 8), for labels "
            "with CIFAR-10's structure: ten classes of 5,000.",
            _PARTITIONS,
            make=lambda _: partitions.delta_sgd_figure_8(),
        ),
        Entry(
            "theory/label_heterogeneity",
            "Total variation between a client's labels and those of all, mean and quartiles over "
            "the clients, against the concentration of each partitioner.",
            _PARTITIONS,
            make=lambda _: partitions.label_heterogeneity(),
        ),
        Entry(
            "fedopt/table_3",
            "Layers of the EMNIST autoencoder as built here, and the printed numbers of parameters "
            "(FedOpt, Table 3).",
            _MODELS,
            make=lambda _: architectures.fedopt_table("EMNIST AE"),
        ),
        Entry(
            "fedopt/table_4",
            "Layers of the EMNIST character recognition network as built here, and the printed "
            "numbers of parameters (FedOpt, Table 4).",
            _MODELS,
            make=lambda _: architectures.fedopt_table("EMNIST CR"),
        ),
        Entry(
            "fedopt/table_5",
            "Layers of the Shakespeare network as built here, and the printed numbers of "
            "parameters (FedOpt, Table 5).",
            _MODELS,
            make=lambda _: architectures.fedopt_table("Shakespeare"),
        ),
        Entry(
            "fedopt/table_6",
            "Layers of the Stack Overflow next-word network as built here, and the printed "
            "numbers of parameters (FedOpt, Table 6).",
            _MODELS,
            make=lambda _: architectures.fedopt_table("StackOverflow NWP"),
        ),
        Entry(
            "adafedadam/figure_4",
            "VGG11 for the Cifar10 setup (AdaFedAdam, Figure 4), as built here. The text lacks the "
            "paper's drawing: this is the network of FedNova's code, whose setup it shares.",
            _MODELS,
            make=lambda _: architectures.adafedadam_figure_4(),
        ),
        Entry(
            "adafedadam/figure_5",
            "The two-layer LSTM for the Sent140 setup (AdaFedAdam, Figure 5), as built here: 25 "
            "words, frozen GloVe vectors of 300, the dense layer on the last step. The text lacks "
            "the paper's drawing.",
            _MODELS,
            make=lambda _: architectures.adafedadam_figure_5(),
        ),
    )
}


def entries() -> list[Entry]:
    """All figures and tables of this version."""
    return list(ENTRIES.values())


def entry(id: str) -> Entry:
    """One figure or table by its id.

    Raises:
        Error: unknown id.
    """
    if id not in ENTRIES:
        raise unknown("figure", id, ENTRIES)
    return ENTRIES[id]


# ---------------------------------------------------------------- remembering


def draw(
    id: str,
    histories: Sequence[History] = (),
    *,
    store: Store | None = None,
    root: str | os.PathLike[str] | None = None,
) -> Drawn:
    """Draw a figure, save it, and remember the runs it was drawn from.

    Runs of other tasks that the figure was drawn from before are drawn too; those of the same tasks
    are replaced.

    Args:
        id: see :func:`entries`.
        histories: runs of the figure's tasks, from ``store``; none for a figure without runs.
        store: default the standard one.
        root: of the figures; default ``FEDLIB_FIGURES``, else ``figures/``.

    Raises:
        Error: unknown id, no runs, or runs of tasks that the figure does not show.
    """
    chosen = entry(id)
    store = Store() if store is None else store
    if chosen.make is not None:
        if histories:
            raise Error(f"figure {id} is drawn without runs; it takes none")
        return _draw(chosen, (), store, root)
    if chosen.draw is None:
        raise Error(f"figure {id} is drawn by notebooks/{chosen.notebook}.ipynb itself")
    if not histories:
        raise Error(f"figure {id}: no runs; {how_to_make(next(iter(chosen.notebooks.values())))}")
    for history in histories:
        name = history.config.task["name"]
        if name not in chosen.notebooks:
            raise unknown(f"task of figure {id}", name, chosen.notebooks)
    memory = _remembered(store, id)
    new = {history.config.task["name"] for history in histories}
    every = list(histories)
    for task, digests in memory.items():
        if task in new or task not in chosen.notebooks:
            continue
        try:
            every += [store.load(digest, params=False) for digest in digests]
        except Error as problem:
            log.warning("figure %s: %s left out: %s", id, task, problem)
    drawn = _draw(chosen, every, store, root)
    _remember(store, id, every)
    return drawn


def redraw(
    ids: Sequence[str] | None = None,
    store: Store | None = None,
    root: str | os.PathLike[str] | None = None,
) -> list[Path]:
    """Draw figures again from stored or published runs; never trains.

    Args:
        ids: see :func:`entries`; default all but those that a notebook draws itself.
        store: default the standard one.
        root: of the figures; default ``FEDLIB_FIGURES``, else ``figures/``.

    Returns:
        the files as :func:`fedlib.figures.save` returns them.

    Raises:
        Error: unknown id, or runs that are missing: the message names the notebooks that make them.
            All other figures are drawn before it is raised.
    """
    store = Store() if store is None else store
    wanted = (
        [e for e in entries() if e.draw or e.make] if ids is None else [entry(id) for id in ids]
    )
    made: list[Path] = []
    problems: list[str] = []
    for one in wanted:
        try:
            runs = [] if one.make else _runs(one, store)
            made.append(_draw(one, runs, store, root).path)
        except Error as problem:
            problems.append(str(problem))
    if problems:
        more = f"{len(problems)} of {len(wanted)} figures not drawn: " if len(wanted) > 1 else ""
        raise Error(more + " | ".join(problems))
    return made


def _draw(chosen: Entry, histories: Sequence[History], store: Store, root: Any) -> Drawn:
    if chosen.make is not None:
        figure, data = chosen.make(store.root.parent)
    else:
        assert chosen.draw is not None
        # The order of the entry's tasks, then as given: the same whichever notebook ran last.
        order = list(chosen.notebooks)
        histories = sorted(histories, key=lambda history: order.index(history.config.task["name"]))
        figure, data = chosen.draw(histories)
    path = save(figure, chosen.id, data, caption=chosen.caption, histories=histories, root=root)
    return Drawn(figure, data, path)


def _runs(chosen: Entry, store: Store) -> list[History]:
    if chosen.draw is None:
        raise Error(
            f"figure {chosen.id} is drawn by its notebook itself: {how_to_make(chosen.notebook)}"
        )
    histories = []
    memory = _remembered(store, chosen.id)
    for task, notebook in chosen.notebooks.items():
        try:
            histories += [store.load(digest, params=False) for digest in memory.get(task, ())]
        except Error as problem:
            raise Error(f"figure {chosen.id}: {problem}; {how_to_make(notebook)}") from None
    if not histories:
        ways = " and ".join(how_to_make(notebook) for notebook in chosen.notebooks.values())
        raise Error(f"figure {chosen.id} has not been drawn yet: {ways}")
    return histories


def _file(folder: Path, id: str) -> Path:
    return folder / "figures" / f"{id.replace('/', '__')}.json"


def _remembered(store: Store, id: str) -> dict[str, list[str]]:
    """Task -> digests; from the published runs where the store knows nothing of a task."""
    merged: dict[str, list[str]] = {}
    for folder in (*reversed(store.published), store.root):
        path = _file(folder, id)
        if not path.is_file():
            continue
        try:
            runs = json.loads(path.read_text(encoding="utf-8"))["runs"]
            merged |= {
                str(task): [str(digest) for digest in digests] for task, digests in runs.items()
            }
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as problem:
            remedy = " and ".join(map(how_to_make, entry(id).notebooks.values()))
            raise Error(f"{path} cannot be read ({problem}); delete it, then {remedy}") from None
    return merged


def _remember(store: Store, id: str, histories: Sequence[History]) -> None:
    runs: dict[str, list[str]] = {}
    for history in histories:
        runs.setdefault(history.config.task["name"], []).append(history.config.digest)
    path = _file(store.root, id)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, (json.dumps({"id": id, "runs": runs}, indent=2) + "\n").encode())
