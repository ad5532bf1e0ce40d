"""The papers' hyperparameters for a task, by algorithm and override key.

They are read from the transcribed tables and settings. A value that a paper does not give is our
choice, and marked as such.
"""

from functools import cache
from typing import Any

from fedlib import papers, paths

Values = dict[str, dict[str, Any]]

CHOSEN = "tasks/chosen.toml"
# The clients' rates in Mime's experiments by base optimizer, half-decades of our choice.
MIME_CLIENT_LR: dict[str, dict[str, float]] = {
    label: {base: 10.0**power for base, power in log10.items()}
    for label, log10 in paths.read_toml(CHOSEN)["mime"].items()
}
# FedAvg with an adaptive server of rate 1 and tau 1e-3: about a hundredth of SGD's rate was best in
# such a grid on the logistic regression.
ADAPTIVE_SERVER_SHARE = 0.01


def fedopt(label: str) -> Values:
    """FedOpt's tuned values for a task: learning rates of Table 8, tau of Table 9.

    SCAFFOLD was tuned too, but the paper does not give its rates. It gets FedAvg's rates.

    Args:
        label: the task's name in the paper, for instance ``"CIFAR-10"``.
    """
    values: Values = {}
    rates = papers.table("fedopt", "table8_learning_rates")
    for row in rates[rates["task"] == label].itertuples():
        values[row.algorithm.lower()] = {
            "client_lr": 10**row.log10_client_lr,
            "server_lr": 10**row.log10_server_lr,
        }
    taus = papers.table("fedopt", "table9_tau")
    for row in taus[taus["task"] == label].itertuples():
        values[row.algorithm.lower()]["tau"] = 10.0**row.log10_tau
    if "fedavg" in values:
        values["scaffold"] = dict(values["fedavg"])
    return values


def small(label: str) -> Values:
    """Values for the small problem that replaces a task of FedOpt in the quick preset.

    Learning rates come from ``small.toml``, chosen on it by the paper's rule. tau is 1e-3. The
    paper finds it nearly as good as a tuned tau on every task (appendix E.3).

    Args:
        label: the task's name in the paper, for instance ``"CIFAR-10"``.
    """
    values = small_rates(label)
    for algorithm in ("fedadagrad", "fedadam", "fedyogi"):
        values[algorithm]["tau"] = 1e-3
    return values


def small_rates(label: str) -> Values:
    """The learning rates of ``small.toml`` (stored as log10) for a label, by algorithm."""
    return {
        algorithm: {f"{side}_lr": 10.0**power for side, power in log10.items()}
        for algorithm, log10 in _small()[label].items()
    }


@cache
def _small() -> dict[str, Any]:
    return paths.read_toml("tasks/small.toml")


def fedopt_run(label: str) -> dict[str, int]:
    """FedOpt's rounds, clients a round, batch size and local epochs for a task."""
    stated = papers.settings("fedopt")
    federated = stated["federated"]
    default = federated["clients_per_round_default"]
    return {
        "rounds": stated["rounds"][label],
        "clients_per_round": federated["clients_per_round"].get(label, default),
        "batch_size": stated["batch_size"][label],
        "local_epochs": federated["local_epochs"],
    }


def adafedadam_run(label: str) -> dict[str, int | None]:
    """AdaFedAdam's settings of a run for a setup: all clients take part in every round."""
    stated = papers.settings("adafedadam")
    return {
        "rounds": stated["setups"][label]["rounds"],
        "clients_per_round": None,
        "batch_size": stated["setups"][label]["batch_size"],
        "local_epochs": stated["general"]["local_epochs"],
    }


def adafedadam(label: str, client_lr: float | None = None) -> Values:
    """AdaFedAdam's values for a setup (appendix C.1).

    Choices of ours: FedProx' mu, tuned by the paper but not given, is 0.01, the grid's middle.
    FedAdam's epsilon, not given either, is Adam's 1e-8. The paper's "q-FedAvg learning rate 1" is
    read as L = 1, which comes closer to Table 5 than L = 1 / client_lr.

    Args:
        label: ``"Femnist"``, ``"Cifar10"``, ``"Sent140"`` or ``"Synthetic"``.
        client_lr: learning rate for all algorithms. Default: the paper's.
    """
    stated = papers.settings("adafedadam")
    printed, stated = stated["setups"][label]["local_lr"], stated["algorithms"]
    client = {"client_lr": printed if client_lr is None else client_lr}
    average = {**client, "server_lr": stated["FedAvg"]["server_lr"]}
    adam = {key: stated["FedAdam"][key] for key in ("server_lr", "beta1", "beta2")}
    fair = {key: stated["AdaFedAdam"][key] for key in ("server_lr", "beta1", "beta2", "alpha")}
    return {
        "fedavg": average,
        "fedprox": {**average, "mu": 0.01},
        "fedadam": {**client, **adam, "tau": 1e-8},
        "fednova": dict(client),
        "qfedavg": {**client, "q": stated["q-FedAvg"]["q"], "L": stated["q-FedAvg"]["server_lr"]},
        "adafedadam": {**client, **fair},
    }


def mime(label: str) -> Values:
    """Values for Mime's experiments: the server's rate is 1, and all else is our choice.

    The clients' rates are :data:`MIME_CLIENT_LR`, also for bases other than momentum (Figure 1). In
    the paper FedAvg's server optimizers have rate 1, and momentum is (1 - beta) g + beta m. FedAvgM
    has the momentum g + beta m, so rate 1 - beta does the same. The mu of FedProx is the smallest
    of the paper's grid.

    Args:
        label: ``"EMNIST logistic"``, ``"EMNIST CNN"``, ``"Shakespeare"`` or ``"StackOverflow"``
            (Table 2), or ``"EMNIST MLP"`` (Figure 1).
    """
    rates = MIME_CLIENT_LR[label]
    grid = papers.settings("mime")["hyperparameters"]["fedprox_mu_grid"]
    sgd = {"client_lr": rates["sgd"], "server_lr": 1.0}
    base = {"client_lr": rates["momentum"], "base": "momentum"}
    adaptive = {"client_lr": ADAPTIVE_SERVER_SHARE * rates["sgd"], "server_lr": 1.0, "tau": 1e-3}
    return {
        "fedavg": sgd,
        "fedavgm": {"client_lr": rates["momentum"], "server_lr": 0.1, "momentum": 0.9},
        "fedadam": {**adaptive, "beta1": 0.9, "beta2": 0.99},
        "fedadagrad": adaptive,
        "fedprox": {**sgd, "mu": min(grid)},
        "scaffold": sgd,
        "mime": base,
        "mimelite": base,
        "loc_mime": base,
    }


def delta_sgd(small: bool = False) -> Values:
    """The Delta-SGD paper's values by algorithm. :func:`delta_sgd_clients` has its clients' values.

    Those that are not in the paper come from the authors' published commands, see ``chosen.toml``.

    Args:
        small: FedAdam's rate is 0.03. With 0.001 no parameter would move by more than 0.04 in the
            forty rounds of a small problem.
    """
    values: Values = paths.read_toml(CHOSEN)["delta_sgd"]
    if small:
        values["fedadam"]["server_lr"] = 0.03
    return values


def delta_sgd_clients() -> Values:
    """The Delta-SGD paper's client optimizers, tuned on CIFAR-10 and used for all its tasks.

    The rates are in ``chosen.toml``. SPS has f* = 0 and c = 0.5 (the defaults). Delta-SGD has its
    default numbers except for delta (appendix B).
    """
    stated = papers.settings("delta_sgd")["delta_sgd"]
    own = {key: stated[key] for key in ("delta", "gamma", "eta0", "theta0")}
    return {**paths.read_toml(CHOSEN)["delta_sgd_clients"], "sps": {}, "delta_sgd": own}


def delta_sgd_task(small: bool) -> dict[str, Any]:
    """The fields of a task with the Delta-SGD paper's values, or with its small problem's."""
    clients = small_clients() if small else delta_sgd_clients()
    return {"hyperparameters": delta_sgd(small), "client_hyperparameters": clients}


def small_clients() -> Values:
    """:func:`delta_sgd_clients` for the small problems, with rates tuned on one of them."""
    tuned = small_rates("Delta-SGD")
    return {name: tuned.get(name, values) for name, values in delta_sgd_clients().items()}
