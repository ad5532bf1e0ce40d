"""Which runs the notebooks of Mime need: Figures 1 and 5, Table 2."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fedlib import algorithms, papers
from fedlib.reproduction.request import Experiment, Request, grid
from fedlib.tasks import settings

# "The learning rates were individually tuned", over grids of appendix C that the text does not
# have. These are ours: half-decades.
RATES = tuple(10.0 ** (half / 2) for half in range(-6, 2))
# Of "tuned beta" in Figure 1; beta = 0 is the base SGD, which is a line of its own.
BETAS = (0.9, 0.99)
_WITH_MOMENTUM = ("mime", "mimelite", "loc_mime", "fedavgm")
# A curve of the paper's length has about so many points.
POINTS = 100

# Table 2's columns: our task -> (the column, its row in settings.MIME_CLIENT_LR, whose budget).
TABLE_2 = {
    "emnist_logistic": ("EMNIST logistic", "EMNIST"),
    "emnist_cr": ("EMNIST CNN", "EMNIST"),
    "shakespeare": ("Shakespeare", "Shakespeare"),
    "stackoverflow_nwp": ("StackOverflow", "StackOverflow"),
}
# Adagrad's second moment before the first round: the default of the libraries that the authors use,
# and what makes the printed Adagrad rows of Mime so like its SGD rows. From 0, weights of rare
# words, without a gradient in the first round, would take steps of 1 / eps in the second.
ADAGRAD_V0 = 0.1
# FedAvg has the base optimizer on the server, at rate 1. The paper's momentum is (1 - beta) g +
# beta m, so that FedAvgM's g + beta m goes at 1 - beta. The other values are ours.
_SERVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("fedavg", {"server_lr": 1.0}),
    "Momentum": ("fedavgm", {"server_lr": 0.1, "momentum": 0.9}),
    "Adam": ("fedadam", {"server_lr": 1.0, "tau": 1e-3, "beta1": 0.9, "beta2": 0.99}),
    "Adagrad": ("fedadagrad", {"server_lr": 1.0, "tau": 1e-3, "v0": ADAGRAD_V0}),
}


def method(name: str, base: str) -> tuple[str, dict[str, Any]]:
    """The algorithm and overrides of a row of Table 2, all but the client learning rate.

    Args:
        name: ``"FedAvg"``, ``"MimeLite"`` or ``"Mime"``; the Mimes with their cohort in halves.
        base: ``"SGD"``, ``"Momentum"``, ``"Adam"`` or ``"Adagrad"``, as printed.

    >>> method("Mime", "Adam")
    ('mime', {'base': 'adam', 'split': True})
    """
    if name == "FedAvg":
        algorithm, overrides = _SERVERS[base]
        return algorithm, dict(overrides)
    start = {"v0": ADAGRAD_V0} if base == "Adagrad" else {}
    return name.lower(), {"base": base.lower(), "split": True, **start}


def budget(task: str) -> float:
    """Model sizes that a round of Table 2 sends and receives, of all clients together."""
    sizes = papers.settings("mime")["table2"]["total_communication_per_round_model_sizes"]
    return float(sizes[TABLE_2[task][1]])


def cohort(name: str, base: str, model_sizes: float) -> int:
    """How many clients a row of Table 2 can pay for in a round."""
    algorithm, overrides = method(name, base)
    return algorithms.clients_for_budget(algorithms.build(algorithm, **overrides), model_sizes)


def rates(own: float, count: int | None) -> list[float]:
    """The client learning rates that are tried: the whole grid, or those nearest to ``own``.

    Args:
        count: how many; the smaller of two equally near ones first. None: all.
    """
    if count is None:
        return list(RATES)
    nearest = sorted(RATES, key=lambda rate: (round(abs(math.log10(rate / own)), 6), rate))
    return sorted(nearest[:count])


def table_2(
    task: str,
    part: str,
    seed: int,
    *,
    rounds: int | None = None,
    model_sizes: float | None = None,
    count: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[Request]:
    """The twelve rows of a column of Table 2, each with its learning rates and its cohort.

    Args:
        rounds: default the paper's 1000.
        model_sizes: of a round; default the paper's 40 or 100.
        count: how many learning rates are tried; default all.
        options: of the task.
    """
    column, _ = TABLE_2[task]
    table = papers.table("mime", "table2_accuracy")
    rounds = papers.settings("mime")["table2"]["rounds"] if rounds is None else rounds
    model_sizes = budget(task) if model_sizes is None else float(model_sizes)
    requests = []
    for row in table[table["dataset"] == column].itertuples():
        algorithm, overrides = method(row.method, row.base_optimizer)
        own = _own_rate(column, row.method, row.base_optimizer)
        requests += grid(
            task,
            algorithm,
            part,
            {"client_lr": rates(own, count)},
            overrides=overrides,
            options=options or {},
            rounds=rounds,
            seed=seed,
            eval_every=max(1, rounds // POINTS),
            clients_per_round=cohort(row.method, row.base_optimizer, model_sizes),
        )
    return requests


def _own_rate(column: str, name: str, base: str) -> float:
    """The client learning rate that the grid is searched around, where not all of it is."""
    own = settings.MIME_CLIENT_LR[column]
    if base == "Adagrad":  # its first steps are SGD's, divided by sqrt(v0)
        return own["sgd"] * math.sqrt(ADAGRAD_V0)
    adam = name == "FedAvg" and base == "Adam"
    return settings.ADAPTIVE_SERVER_SHARE * own["sgd"] if adam else own[base.lower()]


def figure_1(
    part: str, seed: int, numbers: Mapping[str, Any], lines: Iterable[str]
) -> list[Request]:
    """Lines of Figure 1 on the EMNIST MLP, each over its rates; beta and mu are tuned, too.

    Args:
        numbers: ``rounds``, ``width``, ``cohort`` (clients per round), ``rates`` (how many),
            ``betas``, ``mus``.
        lines: names of algorithms; ``"mime_sgd"`` is Mime without momentum.
    """
    own = settings.MIME_CLIENT_LR["EMNIST MLP"]
    rounds = numbers.get("rounds")
    betas = numbers.get("betas") or BETAS
    common = {
        "options": _given(numbers, "width"),
        "rounds": rounds,
        "seed": seed,
        "eval_every": max(1, (rounds or papers.settings("mime")["figure1"]["rounds"]) // POINTS),
        "clients_per_round": numbers.get("cohort"),
    }
    requests = []
    for line in lines:
        algorithm = line.removesuffix("_sgd")
        base = "momentum" if line in _WITH_MOMENTUM else "sgd"
        axes: dict[str, Any] = {"client_lr": rates(own[base], numbers.get("rates"))}
        if algorithm == "fedprox":
            axes = {"mu": numbers.get("mus") or _mus(), **axes}
        for overrides in _settings(line, betas):
            requests += grid("emnist_mlp", algorithm, part, axes, overrides=overrides, **common)
    return requests


def _settings(line: str, betas: Iterable[float]) -> list[dict[str, Any]]:
    """What sets a line of Figure 1 apart, once for each beta. Mime's cohort is in halves: section
    5.1 has clients send equally much in all methods.
    """
    if line == "fedavgm":  # (1 - beta) g + beta m at rate 1 is g + beta m at 1 - beta
        return [{"momentum": beta, "server_lr": round(1 - beta, 6)} for beta in betas]
    if line in _WITH_MOMENTUM:
        return [{"momentum": beta, "split": True} for beta in betas]
    return [{"base": "sgd", "split": True}] if line == "mime_sgd" else [{}]


def _mus() -> list[float]:
    return list(papers.settings("mime")["hyperparameters"]["fedprox_mu_grid"])


def _given(numbers: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Those of the numbers that are not None."""
    return {name: numbers[name] for name in names if numbers.get(name) is not None}


def emnist(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """24_mime_emnist. Numbers: rounds, cohort, rates, mus, width; table_rounds; cnn_rounds,
    cnn_budget, cnn_rates.

    Parts: ``curves``, runs of Figure 1's first panel, which 38_mime_ablation has, too; ``logistic``
    and ``cnn``, Table 2.
    """
    lines = ("mime", "mimelite", "fedavgm", "scaffold", "fedprox")
    table = {"rounds": numbers.get("table_rounds"), "count": numbers.get("rates")}
    cnn: dict[str, Any] = {
        "rounds": numbers.get("cnn_rounds"),
        "model_sizes": numbers.get("cnn_budget"),
        "count": numbers.get("cnn_rates"),
        "options": _given(numbers, "width"),
    }
    return [
        *figure_1("curves", seed, numbers, lines),
        *table_2("emnist_logistic", "logistic", seed, **table),
        *table_2("emnist_cr", "cnn", seed, **cnn),
    ]


def text(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """25_mime_text. Numbers: rounds, budget, rates, width, words. Parts: shakespeare,
    stackoverflow.
    """
    common = {
        "rounds": numbers.get("rounds"),
        "model_sizes": numbers.get("budget"),
        "count": numbers.get("rates"),
    }
    width, both = _given(numbers, "width"), _given(numbers, "width", "words")
    return [
        *table_2("shakespeare", "shakespeare", seed, **common, options=width),
        *table_2("stackoverflow_nwp", "stackoverflow", seed, **common, options=both),
    ]


def ablation(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """38_mime_ablation. Numbers: rounds, width, cohort, rates, betas, mus.

    Parts: ``curves``, all lines of Figure 1's panels, and ``prox``, those of Figure 5.
    """
    lines = ("mime", "mimelite", "fedavgm", "scaffold", "fedprox")
    more = ("fedavg", "mime_sgd", "loc_mime")
    return [
        *figure_1("curves", seed, numbers, (*lines, *more)),
        *figure_1("prox", seed, numbers, ("fedavg", "fedprox")),
    ]


EXPERIMENTS = (
    Experiment(
        "24_mime_emnist",
        {
            "rounds": 8,
            "cohort": 6,
            "width": 0.125,
            "rates": 2,
            "betas": [0.9],
            "mus": [0.1],
            "table_rounds": 10,
            "cnn_rounds": 2,
            "cnn_budget": 20,
            "cnn_rates": 1,
        },
        emnist,
    ),
    Experiment(
        "25_mime_text", {"rounds": 4, "budget": 20, "rates": 1, "width": 0.0625, "words": 300}, text
    ),
    Experiment(
        "38_mime_ablation",
        {
            "rounds": 8,
            "cohort": 6,
            "width": 0.125,
            "rates": 2,
            "betas": [0.9],
            "mus": [0.1, 0.5, 1.0],
        },
        ablation,
    ),
)

from fedlib.reproduction.mime import items  # noqa: E402

TABLES = (*items.TABLES,)
