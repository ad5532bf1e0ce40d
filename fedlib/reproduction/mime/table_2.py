"""Mime at equal communication: Table 2, and its methods' curves for each base optimizer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
from matplotlib.ticker import MaxNLocator

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import learning_curves
from fedlib.reproduction.compare import VERDICT, cells
from fedlib.reproduction.entry import Drawing, beside, of_task, of_these
from fedlib.reproduction.mime.tables import BASES, LOOKS, row_of
from fedlib.results.reading import hyperparameter
from fedlib.results.selection import held_out_score, winners


def rows(histories: Sequence[History]) -> dict[tuple[str, str], History]:
    """For each row the run that the choosing half of the test clients prefers, in table order.

    Args:
        histories: runs of one task and one seed.
    """
    best = winners(histories, row_of, score=held_out_score)
    order = [(base, name) for base in BASES for name in LOOKS]
    chosen = {row: best[row][0] for row in order if row in best}
    for row, run in chosen.items():
        if math.isinf(held_out_score(run)):
            raise Error(f"{row[1]} with {row[0]}: all runs diverged or lack their clients' values")
    return chosen


def base_panels(histories: Sequence[History], metric: str = "loss") -> Drawing:
    """A test metric over rounds, a panel per base optimizer, a line for FedAvg and the Mimes.

    Args:
        histories: runs of one task and one seed. Several learning rates of a row are tuned.

    Returns:
        The figure, and base and the data of :func:`fedlib.figures.learning_curves`.
    """
    chosen = rows(histories)
    if not chosen:
        raise Error("no runs to draw: give at least one history")
    panels = {base: [run for row, run in chosen.items() if row[0] == base] for base, _ in chosen}
    frames = {}
    size = (style.WIDTH, 2.5)
    with style.panels(1, len(panels), size, sharey=True) as (figure, axes):
        for ax, (base, runs) in zip(axes, panels.items(), strict=True):
            _, frames[base] = learning_curves(
                runs,
                metric,
                title=base,
                log_y=metric == "loss",
                legend=False,
                window=1,
                by=lambda run: LOOKS[row_of(run)[1]],
                ax=ax,
            )
            ax.xaxis.set_major_locator(MaxNLocator(3, integer=True))
            ax.label_outer()
        style.key(figure)
    return figure, pd.concat(frames, names=["base"]).droplevel(1).reset_index()


def model_sizes(history: History, parameters: float) -> float:
    """The model sizes that all clients of a round receive and send, as a mean over the rounds."""
    sent = history.frame[history.frame["split"] == "communication"]
    return float(sent.groupby("round")["value"].sum().mean()) / parameters


def mime_table_2(histories: Sequence[History]) -> Drawing:
    """The paper's rows for the tasks that were run beside ours, and the cost of a round.

    Returns:
        None, and the columns of :func:`fedlib.reproduction.compare.cells` (method: without its
        base, which is the column), with beside (see :func:`fedlib.reproduction.entry.beside`),
        clients_per_round, model_sizes (received and sent by all clients of a round, NaN without
        FedAvgSGD, whose clients receive one) and log10_client_lr.
    """
    frame = cells(histories, of_these(histories, "mime", "Table 2"))
    parameters = {task: _parameters(of_task(histories, task)) for task in frame["task"].unique()}
    by_digest = {history.config.digest: history for history in histories}
    costs = []
    for task, runs in zip(frame["task"], frame["runs"], strict=True):
        cost = (math.nan, math.nan, math.nan)
        if runs:
            run = by_digest[runs[0]]
            log_rate = math.log10(hyperparameter(run, "client_lr"))
            cost = (run.config.clients_per_round, model_sizes(run, parameters[task]), log_rate)
        costs.append(cost)
    names = ["clients_per_round", "model_sizes", "log10_client_lr"]
    frame = frame.join(pd.DataFrame(costs, columns=names)).astype({"clients_per_round": "Int64"})
    printed = papers.table("mime", "table2_accuracy").drop_duplicates("printed_name")
    printed = printed.set_index("printed_name")
    frame = frame.assign(beside=beside(frame, histories))
    for name, source in (("method", "method"), ("column", "base_optimizer")):
        frame[name] = frame["row"].map(printed[source])
    gone = ["paper", "item", "runs", "algorithm", "metric", "ours_unweighted", "row", "unclear"]
    gone += {*VERDICT} - {"outcome"} if frame["outcome"].any() else VERDICT
    return None, frame.drop(columns=gone)


def _parameters(histories: Sequence[History]) -> float:
    """The model's parameters, which a client of FedAvgSGD receives. NaN if that was not run."""
    for history in histories:
        if history.config.algorithm == "fedavg":
            sent = history.series("floats_down", "communication")
            return round(float(sent.iloc[0]) / history.config.clients_per_round)
    return math.nan
