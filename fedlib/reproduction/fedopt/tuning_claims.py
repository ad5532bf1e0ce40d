"""What FedOpt claims about tuning (notebooks 30 to 33), as statements about runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from fedlib.engine.history import History
from fedlib.reproduction.evidence import (
    Evidence,
    Missing,
    Runs,
    Statement,
    above,
    below,
    in_step,
    winners,
)
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import ADAPTIVE, OPTIMIZERS, TAU
from fedlib.reproduction.metrics import METRICS

PLAIN = ("fedavgm", "fedavg")
SPARSE = ("stackoverflow_lr", "stackoverflow_nwp")
# Of Figure 12: the paper says of them that they are otherwise.
EXCEPTIONS = ("emnist_ae", "stackoverflow_lr")


def settled(runs: Sequence[History], metric: str = "accuracy") -> np.ndarray:
    """Each seed's mean over its last rounds, see :func:`outcomes.late`; NaN where it diverged."""
    return np.array([run.final(metric, window=outcomes.late(run)) for run in runs])


# ----------------------------------------------------------------- grids of notebooks 30 to 32


def grid_cells(histories: Sequence[History]) -> pd.DataFrame:
    """What came out of the runs of the tasks that were repeated for the most seeds."""
    if not histories:
        raise Missing("grid")
    cells = outcomes.collect(histories)
    seeds = cells.groupby("task")["seed"].transform("nunique")
    return cells[seeds == seeds.max()]


def _by_seed(numbers: pd.Series, *sides: Sequence[str]) -> list[np.ndarray]:
    """Of each side ``[seeds, names]`` of numbers by seed and algorithm, of the seeds with all."""
    names = [name for side in sides for name in side]
    table = numbers.unstack("algorithm").reindex(columns=names).dropna()
    if table.empty:
        raise Missing(str(names))
    return [table[list(side)].to_numpy(float) for side in sides]


def easy_to_tune(cells: pd.DataFrame) -> list[Statement]:
    """On sparse tasks FedAdam and FedYogi have more good cells (one at least) than the others."""
    statements = []
    for task, part in cells[cells["task"].isin(SPARSE)].groupby("task", sort=False):
        shares = outcomes.good_share(part)
        ours, plain = _by_seed(shares, ("fedadam", "fedyogi"), PLAIN)
        one = part["algorithm"].nunique() / part.groupby("seed").size().min()
        text = f"{task}: share of good cells, min(FedAdam, FedYogi) > max(FedAvgM, FedAvg)"
        statements.append(above(text, ours.min(axis=1), plain.max(axis=1) + one))
    if not statements:
        raise Missing("sparse task")
    return statements


def fixed_tau(cells: pd.DataFrame) -> list[Statement]:
    """tau 1e-3 ends within 2 points (errors: 10 %) of the best tau, rates tuned for each."""
    statements = []
    chosen = outcomes.tuned(cells, "train_loss", "task", "algorithm", "tau")
    for (task, name), part in chosen.groupby(["task", "algorithm"], sort=False):
        ends = part.pivot(index="seed", columns="tau", values="performance").dropna()
        if ends.empty or len(ends.columns) < 2:
            raise Missing(f"several tau, {task}, {name}")
        metric = METRICS[part["metric"].iloc[0]]
        best = ends.mean().idxmin() if metric.smaller else ends.mean().idxmax()
        fixed = ends[min(ends.columns, key=lambda tau: abs(tau - TAU))].to_numpy()
        where = f"{task}, {name}: tau 1e-3 within"
        if metric.smaller:
            worse = fixed / ends[best].to_numpy()
            statements.append(below(f"{where} 10 % of the best", worse, 1.1))
        else:
            short = (ends[best].to_numpy() - fixed) / metric.factor
            statements.append(below(f"{where} 0.02 of the best", short, 0.02))
    left = chosen["loss"] / chosen["initial_loss"]
    worst = left.fillna(np.inf).groupby(chosen["seed"]).max().to_numpy()
    return [*statements, below("test loss at every tau < 0.9 of the untrained model's", worst, 0.9)]


def inverse_rates(cells: pd.DataFrame) -> list[Statement]:
    """The best server rate falls as 1 / client rate without adaptivity, and less with it."""
    statements = []
    for task, part in cells[~cells["task"].isin(EXCEPTIONS)].groupby("task", sort=False):
        slopes = outcomes.slopes(part)
        plain, ours = _by_seed(slopes, PLAIN, ADAPTIVE)
        off = np.abs(plain + 1).max(axis=1)
        statements.append(below(f"{task}: slopes of FedAvg and FedAvgM within 0.5 of -1", off, 0.5))
        text = f"{task}: slopes of FedAdagrad, FedAdam, FedYogi closer to 0 by 0.1"
        statements.append(below(text, np.abs(ours).max(axis=1), np.abs(plain).min(axis=1) - 0.1))
    if not statements:
        raise Missing("dense task")
    return statements


# ------------------------------------------------------------------------------- notebook 33


def falling_rates(histories: Sequence[History]) -> dict[str, Runs]:
    """The runs of each part at their tuned rates: constant, decay, and centralized by base."""
    parts: dict[str, list[History]] = {"constant": [], "decay": [], "centralized": []}
    for run in histories:
        parts[run.meta["plan"]["part"]].append(run)
    central = winners(parts.pop("centralized"), "base")
    return in_step(
        {**{part: winners(runs) for part, runs in parts.items()}, "centralized": central}
    )


def decay(kinds: dict[str, Runs]) -> list[Statement]:
    """ExpDecay ends no lower than a constant rate, and nearer to centralised training."""
    before, after = (
        np.array([settled(kinds[kind][name]) for name in OPTIMIZERS])
        for kind in ("constant", "decay")
    )
    statements = [
        above(f"{name}: ExpDecay >= constant rate", *pair)
        for name, *pair in zip(OPTIMIZERS, after, before, strict=True)
    ]
    if not kinds["centralized"]:
        raise Missing("centralised runs")
    central = np.max([settled(runs) for runs in kinds["centralized"].values()], axis=0)
    wide, narrow = (np.abs(central - ends).mean(axis=0) for ends in (before, after))
    text = "mean gap to the best centralised optimizer: smaller with ExpDecay by 0.001"
    return [*statements, below(text, narrow, wide - 0.001)]


EVIDENCE = (
    Evidence(
        "fedopt-easy-to-tune",
        {"30_learning_rate_grids": ()},
        easy_to_tune,
        grid_cells,
        exceptions={
            "laptop": "of 25 pairs, a factor of 3 to 10 apart, three of FedAdagrad's and one of "
            "FedYogi's come within a tenth of the best; FedAdam's best is further behind it, the "
            "plain servers' much further"
        },
    ),
    Evidence(
        "fedopt-tau",
        {"31_tau": ()},
        fixed_tau,
        grid_cells,
        exceptions={
            "laptop": "on Stack Exchange's tags recall is highest at 1e-5; rates were tried a "
            "factor of 30 to 100 apart, and those that FedAdam gets at 1e-3 lie at the grid's edge"
        },
    ),
    Evidence("fedopt-inverse-rates", {"32_client_server_lr": ()}, inverse_rates, grid_cells),
    Evidence("fedopt-decay", {"33_lr_decay_and_centralized": ()}, decay, falling_rates),
)
