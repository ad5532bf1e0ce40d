"""FedOpt's printed tables: which runs belong to which printed number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlib import papers
from fedlib.reproduction.table import Cell, Method, Table, named, printed_cells

STATED = papers.settings("fedopt")
# fedlib's task -> the paper's, in the order of Figures 5 to 11.
TASKS: dict[str, str] = {
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "emnist_ae": "EMNIST AE",
    "emnist_cr": "EMNIST CR",
    "shakespeare": "Shakespeare",
    "stackoverflow_lr": "StackOverflow LR",
    "stackoverflow_nwp": "StackOverflow NWP",
}
# The printed order of Tables 1, 8, 10 and 11, and of the heat maps; the first three have a tau.
ADAPTIVE = ("fedadagrad", "fedadam", "fedyogi")
OPTIMIZERS = (*ADAPTIVE, "fedavgm", "fedavg")
# Heat maps and Figure 12 fix it.
TAU: float = STATED["tuning"]["tau_fixed_in_lr_heatmaps"]
# The files' metrics and ours: the mean over the last rounds, or the last model's.
AVERAGED = {
    "accuracy_percent": "accuracy",
    "recall_at_5_x100": "recall_at_5",
    "mse_x1000": "mse_x1000",
}
LAST = {"accuracy_percent": "last_accuracy", "recall_at_5_x100": "last_recall_at_5"}
# ExpDecay, its steps at the thirds of however many rounds there are: at the paper's 1500 a tenth
# after 500 rounds, a hundredth after 1000.
DECAY = "exp_decay_thirds"
_DATA = STATED["datasets"]
# Both CIFARs (Table 2).
_CIFAR = {
    "clients": _DATA["cifar10"]["train_clients"],
    "examples_per_client": _DATA["cifar10"]["examples_per_client"],
    "test_clients": _DATA["cifar10"]["test_clients"],
    "width": 1.0,
    "groups": STATED["models"]["group_norm_groups"],
}
_EMNIST = {"data": "emnist", "clients": _DATA["emnist"]["clients"], "width": 1.0}
_PLAYS = {
    **{"clients": _DATA["shakespeare"]["clients"], "rows": 0, "width": 1.0},
    "length": _DATA["shakespeare"]["sequence_length"],
}
_USERS = _DATA["stackoverflow"]
_POSTS = {
    "data": "stackoverflow",
    **{"clients": _USERS["clients"], "words": _USERS["vocab_words"]},
    "cap": _USERS["nwp_max_sentences_per_client"],
    "validation": STATED["validation"]["stackoverflow_validation_examples"],
}


def _cifar100(data: str) -> bool:
    """Whether the data are CIFAR-100, dealt to clients by the authors or by us."""
    return data in ("cifar100", "fed_cifar100")


# The notebook of a task's column of Table 1, and the task's options in the paper.
SETUPS: dict[str, tuple[str, dict[str, Any]]] = {
    "cifar10": ("10_cifar10", {**_CIFAR, "alpha": _DATA["cifar10"]["dirichlet_alpha"]}),
    # The authors' own partition, where that is prepared, has no concentrations.
    "cifar100": ("11_cifar100", {**_CIFAR, "data": _cifar100}),
    "emnist_cr": ("12_emnist_cr", _EMNIST),
    "emnist_ae": ("13_emnist_ae", {**_EMNIST, "reduction": "sum"}),
    "shakespeare": ("14_shakespeare", _PLAYS),
    "stackoverflow_lr": ("16_stackoverflow_lr", {**_POSTS, "tags": _USERS["lr_tags"]}),
    "stackoverflow_nwp": ("15_stackoverflow_nwp", {**_POSTS, "width": 1.0}),
}


def _table(number: int, task: str, cells: tuple[Cell, ...], **fields: Any) -> Table:
    """A table's part for a task, with the settings of section 4 and Table 7.

    Args:
        fields: that are not the task's usual ones.
    """
    label, (notebook, options) = TASKS[task], SETUPS[task]
    federated = STATED["federated"]
    cohort = federated["clients_per_round"].get(label, federated["clients_per_round_default"])
    usual = {
        **{"label": label, "notebook": notebook, "options": options, "clients_per_round": cohort},
        **{name: STATED[name][label] for name in ("rounds", "batch_size")},
    }
    return Table("fedopt", f"Table {number}", task, cells=cells, **{**usual, **fields})


def _table_1(task: str) -> Table:
    where = {"task": TASKS[task]}
    return _table(1, task, printed_cells("fedopt", "table1_validation", where, metrics=AVERAGED))


def _table_10(task: str) -> Table:
    """Runs that were tested on a sample of the posts (Table 1's) do not belong."""
    file, every = "table10_stackoverflow_test", {"validation": 0}
    cells = printed_cells("fedopt", file, {"task": TASKS[task]}, metrics=LAST, options=every)
    options = {key: value for key, value in SETUPS[task][1].items() if key not in every}
    return _table(10, task, cells, options=options)


def _tables_11() -> tuple[Table, Table]:
    """Centralised optimizers, after their last epoch; federated ones, constant and ExpDecay.

    The centralised rates are tuned, ExpDecay's on the grids of the constant rates; which ones won
    is not printed.
    """

    def base(label: str) -> Method:
        return "centralized", {"base": {"SGDM": "momentum"}.get(label, label.lower())}

    def falling(label: str) -> Method:
        return named(label)[0], {"client_schedule": DECAY}

    def cells(schedule: str, column: str, metrics: Mapping[str, str], **more: Any) -> Any:
        where = {"client_lr_schedule": schedule}
        file = "table11_lr_decay"
        return printed_cells("fedopt", file, where, metrics=metrics, column=column, **more)

    rate = {"centralized": {"client_lr": ()}}
    central = cells("tuned_constant", "centralized", LAST, method=base, tuned=rate)
    three = {name: {"client_lr": (), "server_lr": (), "tau": ()} for name in OPTIMIZERS}
    decay = cells("expdecay", "ExpDecay", AVERAGED, method=falling, tuned=three)
    task, notebook = "emnist_cr", "33_lr_decay_and_centralized"
    return (
        _table(
            11,
            task,
            central,
            label=f"{TASKS[task]}, centralized",
            notebook=notebook,
            rounds=STATED["lr_decay"]["centralized_epochs"],
            clients_per_round=1,
            options={**SETUPS[task][1], "centralized": True},
        ),
        _table(11, task, (*cells("constant", "constant", AVERAGED), *decay), notebook=notebook),
    )


TABLES_1 = {task: _table_1(task) for task in SETUPS}
TABLES_10 = {task: _table_10(task) for task in ("stackoverflow_nwp", "stackoverflow_lr")}
TABLES_11 = _tables_11()
TABLES: tuple[Table, ...] = (*TABLES_1.values(), *TABLES_11, *TABLES_10.values())
