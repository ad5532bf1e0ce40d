"""The tables of docs/results/ that follow from published runs alone; see :mod:`docs.tables`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from math import isnan, nan

import numpy as np
import pandas as pd

from fedlib import papers, plans
from fedlib.engine.history import History
from fedlib.figures import style
from fedlib.paths import project_root
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import AVERAGE, WORST
from fedlib.reproduction.adafedadam.tables import DRAWN_EPOCHS, FIVE
from fedlib.reproduction.compare import compare
from fedlib.reproduction.delta_sgd.tables import CLIENTS, client_of
from fedlib.reproduction.evidence import MEAN, winners
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import OPTIMIZERS
from fedlib.reproduction.matching import Index
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.mime.ablation import LOOKS as LINE_LOOKS
from fedlib.reproduction.mime.ablation import line_of
from fedlib.reproduction.mime.claims import RIVALS, lines, reached
from fedlib.reproduction.mime.table_2 import BASES, LOOKS
from fedlib.results import reading
from fedlib.results.selection import late
from fedlib.results.store import Store

# The methods of FedOpt's Figure 1.
METHODS = (*OPTIMIZERS, "scaffold")
# Delta-SGD's printed tables of Fashion-MNIST.
PRINTED = ("Table 1", "Table 4", "Table 6")


def number(value: float) -> str:
    """``"79.5"``; "–" of NaN."""
    return "–" if isnan(value) else f"{value:.1f}"


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(head), ["---" for _ in head], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@cache
def published() -> Store:
    """Only the runs that the checkout publishes."""
    root = project_root() / "data" / "results"
    return Store(root / "none", published=[root])


@cache
def compared() -> pd.DataFrame:
    """The printed numbers beside those of the published runs."""
    return compare(published())


def mime_table() -> str:
    """Mime's Table 2 on EMNIST logistic regression: printed, ours, and the rates that were chosen.

    A row per base optimizer; FedAvg, MimeLite and Mime in this order. "–" of runs that were
    published without their values per client, among which no rate can be chosen.
    """
    frame = compared()
    frame = frame[(frame["paper"] == "mime") & (frame["task"] == "emnist_logistic")]
    stated = papers.table("mime", "table2_accuracy").drop_duplicates("printed_name")
    names = stated.set_index("printed_name")[["base_optimizer", "method"]]
    cells = frame.join(names, on="row").set_index([*names]).to_dict("index")
    rows = []
    for base in BASES:
        part = [cells[base, method] for method in LOOKS]
        rates = ["–" if isnan(row["ours"]) else _rate(row["runs"]) for row in part]
        numbers = [[number(row[name]) for row in part] for name in ("printed", "ours")]
        rows.append((base, *map(", ".join, (*numbers, rates))))
    methods = ", ".join(LOOKS)
    head = ("base optimizer", f"printed: {methods}", "ours", "client learning rates chosen")
    return markdown(head, rows)


def ablation_table() -> str:
    """Mime's ablation on FEMNIST, the published runs of the preset laptop: a row a line, fastest
    first, each at its best setting.
    """
    histories = laptop_runs("38_mime_ablation")
    needed = reached(lines(histories)).xs(MEAN, axis=1, level="round").iloc[:, 0]
    rows = []
    for name, (run,) in winners(histories, line_of).items():
        there = f"{needed[name]:.0f}" if needed[name] <= run.config.rounds else "not in 100"
        rate = f"{reading.hyperparameter(run, 'client_lr'):.2g}"
        look = LINE_LOOKS.get(name) or style.look(name)
        label = RIVALS.get(name, look.label)
        rows.append((needed[name], (label, rate, there, f"{100 * run.final():.1f}")))
    head = ("line", "client learning rate", "rounds to the target", "accuracy at the end")
    return markdown(head, [row for _, row in sorted(rows)])


def silos_table(notebook: str, head: str, setting: Callable[[History], str]) -> str:
    """AdaFedAdam's cut of CIFAR-10, the published runs of the preset laptop: a row a setting, a
    column a method; average and worst 30 % of the clients over the last rounds, in percent.
    """
    ends: dict[str, dict[str, str]] = {}
    for run in laptop_runs(notebook):
        numbers = [100 * run.final(name, window=late(run)) for name in (AVERAGE, WORST)]
        text = "diverged" if run.diverged is not None else " / ".join(map(number, numbers))
        ends.setdefault(setting(run), {})[run.config.algorithm] = text
    rows = [(text, *(row.get(name, "–") for name in FIVE)) for text, row in ends.items()]
    return markdown((head, *(style.look(name).label for name in FIVE)), rows)


def level_of(run: History) -> str:
    """The concentration of a run's label skew."""
    return f"{reading.option(run, 'beta'):g}"


def work_of(run: History) -> str:
    """How many local epochs a run's clients do."""
    drawn = tuple(np.atleast_1d(run.config.local_epochs)) == DRAWN_EPOCHS
    return "one to three, drawn" if drawn else "two for all"


def ends_table() -> str:
    """FedOpt's tasks, the published runs of the preset laptop: a row a task, a column a method; the
    end of the test curve as the claims take it, and in brackets the number of Table 1.
    """
    rows = []
    for task, table in tables.find("fedopt", "Table 1").groupby("task", sort=False):
        digits = 2 if METRICS[table["metric"].iloc[0]].smaller else 1
        best = winners(laptop_runs(tables.FEDOPT[str(task)]))
        ours = {name: outcomes.collect(runs).iloc[0] for name, runs in best.items()}
        numbers = table.set_index("algorithm")["printed"]
        printed = {name: f" ({value:.{digits}f})" for name, value in numbers.items()}
        cells = []
        for name in METHODS if ours else ():
            end = ours[name]["performance"] if name in ours else nan
            failed = "diverged" if name in ours else "–"
            text = failed if isnan(end) else f"{end:.{digits}f}"
            cells.append(text + printed.get(name, ""))
        rows += [(f"`{task}`", *cells)] if cells else []
    return markdown(("task", *(style.look(name).label for name in METHODS)), rows)


def fashion_table() -> str:
    """Delta-SGD on Fashion-MNIST, the published runs of the preset laptop: a row a setting, a
    column a client optimizer; accuracy over the last 100 rounds, and in brackets the printed one,
    or the mean and standard deviation over the seeds.
    """
    runs = [*laptop_runs("26_autotuned_images"), *laptop_runs("39_delta_sgd_ablation")]
    once = {run.config.digest: run for run in runs if run.config.task["name"] == "fashion_mnist"}
    rows = []
    for authors in (True, False):
        drawn = [run for run in once.values() if ("draws" in run.config.task["options"]) == authors]
        settings = reading.group(drawn, "local_epochs", "algorithm", "option.alpha")
        # One epoch before two, FedAvg before the others, the largest alpha first.
        order = sorted(settings, key=lambda own: (own[0], own[1] != "fedavg", own[1], -own[2]))
        for epochs, algorithm, alpha in order:
            words = [style.look(algorithm).label, f"alpha {alpha:g}"]
            words += [f"{epochs} local epochs"] * (epochs != 1) + ["our own draws"] * (not authors)
            printed = {
                client_of(cell["row"]): cell["printed"]
                for item in PRINTED * (authors and epochs == 1)
                for cell in tables.find("delta_sgd", item, "fashion_mnist").to_dict("records")
                if (cell["algorithm"], cell["options"]["alpha"]) == (algorithm, alpha)
            }
            own = settings[epochs, algorithm, alpha]
            cells = [
                _fashion_cell(
                    [run for run in own if reading.client_label(run) == client],
                    printed.get(client, nan),
                )
                for client in CLIENTS
            ]
            rows.append((", ".join(words), *cells))
    return markdown(("", *(style.CLIENT_LOOKS[client].label for client in CLIENTS)), rows)


def _fashion_cell(runs: Sequence[History], printed: float) -> str:
    """``"79.5 (86.5)"``, ``"76.4 ± 0.6"`` of several seeds, or ``"diverged"``."""
    if any(run.diverged is not None for run in runs):
        return "diverged"
    ends = 100 * np.array([run.final(window=100) for run in runs])
    spread = f" ± {ends.std():.1f}" if len(ends) > 1 else ""
    return f"{ends.mean():.1f}{spread}" + ("" if isnan(printed) else f" ({printed:.1f})")


@cache
def known() -> Index:
    """The published runs, by what they are."""
    return Index(published().stored(published=True))


@cache
def laptop_runs(notebook: str) -> Sequence[History]:
    """The published runs of a notebook's plan at the preset laptop, without parameters."""
    return known().plan(plans.requests(notebook, "laptop"), "laptop")


def _rate(digests: Sequence[str]) -> str:
    """The client learning rate that some runs share."""
    run = published().load(digests[0], params=False)
    return f"{reading.hyperparameter(run, 'client_lr'):.2g}"
