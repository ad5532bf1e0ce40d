"""A user's method beside five others on five small problems, all tuned by one rule.

The others' runs are those of the notebooks' plans at the preset ``quick``. They are trained once
and then read from the store. The user's method tries every pair of rates that any of the others
tries on a task, with the same seeds, and so the same data, initial models and cohorts. For each
method the pair with the smallest mean training loss over the last rounds wins, as in FedOpt
(section 5.1), and its test metric counts.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from fedlib import engine, plans
from fedlib.algorithms.base import Algorithm
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.reproduction.answers import answer
from fedlib.results import Store
from fedlib.results.reading import hyperparameters
from fedlib.results.selection import late, winners
from fedlib.tasks import load_task

# The notebook with the others' plan on a task, and the metric that counts there, a fraction.
SUITE = {
    "10_cifar10": "accuracy",
    "11_cifar100": "accuracy",
    "12_emnist_cr": "accuracy",
    "15_stackoverflow_nwp": "accuracy",
    "16_stackoverflow_lr": "recall_at_5",
}
PART = "curves"  # a part of these plans with FedAvg, FedAvgM, FedAdagrad, FedAdam, FedYogi
RATES = ("client_lr", "server_lr")
BASELINE, YOURS = "fedavg", "yours"
# Student's t for a two-sided interval of 95 %, by the number of seeds.
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}


def score(
    method: str | Algorithm | type[Algorithm],
    store: Store,
    overrides: Mapping[str, Any] | None = None,
    tune: Sequence[str] = (),
    **execution: Any,
) -> pd.DataFrame:
    """Train and tune a method on the suite, and compare it with the others.

    Args:
        method: see :func:`fedlib.run`. Its rows are named ``"yours"``.
        store: the store of all runs that can be stored.
        overrides: hyperparameters of the method on all tasks.
        tune: the rates to search, of ``client_lr`` and ``server_lr``. Default: those that the
            method has and ``overrides`` does not set.
        execution: ``device`` and ``progress`` of :meth:`fedlib.results.Store.answer`.

    Returns:
        One row for each task, method and seed: the chosen rates, ``value``, the mean test metric
        over the last rounds, and for yours the number of ``settings``, and the rates at the
        ``edge`` of the grid. A run that diverged counts as 0.

    Raises:
        Error: a rate that the method does not have, or anything that :func:`fedlib.run` refuses.
    """
    rows, fixed = [], dict(overrides or {})
    for notebook, metric in SUITE.items():
        asked = [request for request in plans.requests(notebook) if request.part == PART]
        of_seeds = {r.seed: r for r in asked if r.algorithm == BASELINE}.values()
        runs = []
        for request in of_seeds:
            task = load_task(request.task, **request.task_options("quick"))
            settings = {**request.settings(task.rounds), "algorithm": method, "overrides": fixed}
            known = hyperparameters(engine.configure(task, **settings))
            axes = {name: {r.overrides[name] for r in asked} for name in _tuned(known, fixed, tune)}
            for pair in product(*map(sorted, axes.values())):
                settings["overrides"] = {**fixed, **dict(zip(axes, pair, strict=True))}
                runs.append(engine.configure(task, **settings))
        ours = store.answer(runs, keep_params=False, **execution)
        theirs = answer(store, asked, "quick", **execution)
        (best,) = winners(ours, lambda run: YOURS).values()
        for name, seeds in {YOURS: best, **winners(theirs)}.items():
            tried = axes if name == YOURS else {}
            rows += [_row(run, name, metric, tried) for run in seeds]
    return pd.DataFrame(rows)


def _tuned(known: Mapping[str, Any], fixed: Mapping[str, Any], tune: Sequence[str]) -> list[str]:
    has = [rate for rate in RATES if rate in known]
    for name in tune:
        if name not in has:
            raise Error(f"--tune {name}: the method has {' and '.join(has) or 'no rate'} to tune")
    return list(tune) or [rate for rate in has if rate not in fixed]


def _row(
    run: History, method: str, metric: str, tried: Mapping[str, Collection[float]]
) -> dict[str, Any]:
    known = hyperparameters(run)
    value = run.final(metric, window=late(run))
    ends = {name: (min(rates), max(rates)) for name, rates in tried.items() if len(rates) > 1}
    return {
        "task": run.config.task["name"],
        "method": method,
        "seed": run.config.seeds["init"],
        **{rate: known.get(rate) for rate in RATES},
        "settings": math.prod(map(len, tried.values())) if tried else None,
        "edge": ", ".join(name for name, pair in ends.items() if known[name] in pair),
        "value": 0.0 if np.isnan(value) else value,
    }


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The means over the seeds in percent, one row per method, the best first. ``lead`` is the mean
    lead over FedAvg in percentage points, ``low`` and ``high`` its interval of 95 %.

    A seed's lead is its mean over the tasks. The interval is Student's over the seeds, whose runs
    are paired with FedAvg's: it describes how the lead would vary with other seeds on these tasks,
    and not on other tasks.
    """
    percent = 100 * frame.pivot(index=["method", "seed"], columns="task", values="value")
    leads = (percent - percent.loc[BASELINE]).mean(axis=1).groupby("method")
    half = leads.std() * leads.count().map(STUDENT) / leads.count() ** 0.5
    means = percent.groupby("method").mean()[list(frame["task"].unique())]
    mean = leads.mean()
    means = means.assign(lead=mean, low=mean - half, high=mean + half)
    return means.sort_values("lead", ascending=False)
