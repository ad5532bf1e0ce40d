"""AdaFedAdam's claims, as statements about a frame of runs or of the paper's numbers."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd

from fedlib import papers
from fedlib.engine.history import History
from fedlib.reproduction.evidence import (
    Missing,
    Statement,
    above,
    below,
    decides,
    finals,
    most,
    one,
    per,
    printed,
)
from fedlib.reproduction.tables import ADAFEDADAM
from fedlib.results.reading import hyperparameters, value

# The algorithms of Figure 2 in Table 5's order, except FedProx, whose mu comes from a grid.
FIVE = ("fedavg", "fedadam", "qfedavg", "fednova", "adafedadam")
SIX = (*FIVE[:4], "fedprox", FIVE[4])
# Table 6's concentrations.
BETAS: list[float] = papers.settings("adafedadam")["experiments"]["noniid"]["dirichlet_beta"]
# The measure of each number over the clients: weighted by examples, as in Table 5's averages.
AVERAGE, WORST, SPREAD = "accuracy", "accuracy_worst_30_weighted", "accuracy_std_weighted"
OURS = "adafedadam"
# Notebooks, and the parts of their plans.
SETUPS = dict.fromkeys(ADAFEDADAM.values(), ("curves", "mu"))
WORK = {"35_resource_heterogeneity": ("epochs", "mu")}
SOLVERS = {"37_local_solvers": ("solvers", "mu")}


def first(text: str, end: pd.DataFrame, names: Sequence[str]) -> Statement:
    """AdaFedAdam is ahead of all others of some methods."""
    return above(text, one(end, OURS), most(end, [name for name in names if name != OURS]))


def _setting(run: History) -> str:
    """``"adafedadam 4"`` with alpha, ``"qfedavg 2"`` with q, else the algorithm."""
    name = run.config.algorithm
    key = {OURS: "alpha", "qfedavg": "q"}.get(name)
    return f"{name} {value(run, key):g}" if key else name


def solver_of(run: History) -> str:
    """The local solver of a run, as in Table 7: ``"SGD"``, ``"SGD+momentum"``, ..."""
    values = hyperparameters(run)
    if not values.get("momentum"):
        return "SGD"
    return "SGD+Nesterov" if values["nesterov"] else "SGD+momentum"


def _table_6() -> pd.DataFrame:
    rows = printed("adafedadam", "Table 6")
    return rows.assign(beta=rows["options"].str["beta"])


def _table_7() -> pd.DataFrame:
    return printed("adafedadam", "Table 7").rename(columns={"column": "solver"})


@decides("ada-best", SETUPS, printed=partial(printed, "adafedadam", "Table 5"), each="label")
def best(frame: pd.DataFrame) -> Iterator[Statement]:
    """AdaFedAdam is level with the best average, and first for the worst 30 %."""
    end, others = finals(frame, AVERAGE), [name for name in SIX if name != OURS]
    sem = np.nan
    if "sem" in frame:  # the standard error of the paper's number to compare with
        rows = frame[(frame["metric"] == AVERAGE) & frame["algorithm"].isin(others)]
        sem = rows.loc[rows["value"].idxmax(), "sem"]
    text = "average: AdaFedAdam level with the first of the six"
    yield above(text, one(end, OURS), most(end, others), level=sem)
    yield first("worst 30 %: AdaFedAdam > the other five", finals(frame, WORST), SIX)


@decides("ada-resources", WORK, printed=partial(printed, "adafedadam", "Table 1"))
def resources(frame: pd.DataFrame) -> Iterator[Statement]:
    """With drawn epochs AdaFedAdam is first on average and for the worst 30 %."""
    yield first("worst 30 %: AdaFedAdam > the other five", finals(frame, WORST), SIX)
    yield first("average: AdaFedAdam > the other five", finals(frame, AVERAGE), SIX)


@decides("ada-noniid", {"36_noniid_levels": ("levels",)}, per("option.beta"), _table_6)
def noniid(frame: pd.DataFrame) -> Iterator[Statement]:
    """AdaFedAdam's average is first at every beta. With less skew it and the worst 30 % rise."""
    for metric, name in ((AVERAGE, "average"), (WORST, "worst 30 %")):
        ours = finals(frame[frame["algorithm"] == OURS], metric, "beta")
        low, high = one(ours, min(BETAS)), one(ours, max(BETAS))
        text = f"AdaFedAdam's {name} at beta {max(BETAS):g} > at {min(BETAS):g}"
        yield above(text, high, low)
    for beta in BETAS:
        end = finals(frame[frame["beta"] == beta], AVERAGE)
        yield first(f"beta {beta:g}: AdaFedAdam > the other four", end, FIVE)


@decides("ada-momentum", SOLVERS, per(solver=solver_of), _table_7)
def momentum(frame: pd.DataFrame) -> Iterator[Statement]:
    """Momentum on the clients does not hurt AdaFedAdam, and with it AdaFedAdam is first."""
    end = finals(frame, AVERAGE, "solver", "algorithm")
    solvers = [name for name in end.index.unique("solver") if name != "SGD"]
    if not solvers:
        raise Missing("local solvers")
    for solver in solvers:
        plain = one(end, ("SGD", OURS))
        yield above(f"AdaFedAdam: {solver} >= SGD", one(end, (solver, OURS)), plain)
        yield first(f"{solver}: AdaFedAdam > the other five", end.loc[solver], SIX)


@decides("ada-tradeoff", {"34_fairness_tradeoff": ()}, per(algorithm=_setting))
def tradeoff(frame: pd.DataFrame) -> Iterator[Statement]:
    """From alpha 1 to 4 the RSD of the error falls and the error does not. For each other method
    some alpha from 1 on is no worse in either."""
    error = 1 - finals(frame, AVERAGE)
    rsd = finals(frame, SPREAD) / error
    alphas = [name for name in error.index if name.startswith(OURS) and name != f"{OURS} 0"]
    if not alphas:
        raise Missing("alphas above 0")
    alpha_1, alpha_4 = f"{OURS} 1", f"{OURS} 4"
    yield below("RSD: alpha 4 < alpha 1", one(rsd, alpha_4), one(rsd, alpha_1))
    yield above("error: alpha 4 >= alpha 1", one(error, alpha_4), one(error, alpha_1))
    for other in ("fedavg", "fedadam", "fednova", "fedprox", *(f"qfedavg {q}" for q in (1, 2, 4))):
        worse = [
            np.minimum(one(error, other) - error.loc[name], one(rsd, other) - rsd.loc[name])
            for name in alphas
        ]
        text = f"an alpha no worse than {other} in error and RSD"
        yield above(text, pd.concat(worse, axis=1).max(axis=1, skipna=False))
