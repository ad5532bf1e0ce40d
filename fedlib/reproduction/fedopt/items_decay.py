"""Adaptive Federated Optimization, Table 11: centralised optimizers and learning rate decay."""

from __future__ import annotations

from typing import Any

from fedlib.reproduction.table import Method, Table, printed_cells

TABLE = "table11_lr_decay"
# At the paper's 1500 rounds this is ExpDecay: a tenth after 500 rounds, a hundredth after 1000.
SCHEDULE = "exp_decay_thirds"
_TUNED = ("client_lr", "server_lr", "tau")
_COMMON: dict[str, Any] = {
    "paper": "fedopt",
    "name": "Table 11",
    "task": "emnist_cr",
    "notebook": "33_lr_decay_and_centralized",
    "batch_size": 20,
}
_OPTIONS = {"clients": 3400, "width": 1.0}


def _base(label: str) -> Method:
    """The centralised optimizer of a row, for instance ``"SGDM"``."""
    return "centralized", {"base": {"SGDM": "momentum"}.get(label, label.lower())}


def _falling(label: str) -> Method:
    return label.lower(), {"client_schedule": SCHEDULE}


TABLES: tuple[Table, ...] = (
    Table(
        **_COMMON,
        label="EMNIST CR, centralized",
        # The accuracy after 100 epochs; their rates are tuned and not printed.
        cells=printed_cells(
            *("fedopt", TABLE, {"setting": "centralized"}),
            metrics={"accuracy_percent": "last_accuracy"},
            column="centralized",
            method=_base,
            tuned={"centralized": {"client_lr": ()}},
        ),
        rounds=100,
        clients_per_round=1,
        options={**_OPTIONS, "centralized": True},
    ),
    Table(
        **_COMMON,
        label="EMNIST CR",
        cells=(
            *printed_cells(
                *("fedopt", TABLE, {"client_lr_schedule": "constant"}),
                metrics={"accuracy_percent": "accuracy"},
                column="constant",
            ),
            # Tuned on the same grids as the constant rates; the winners are not printed.
            *printed_cells(
                *("fedopt", TABLE, {"client_lr_schedule": "expdecay"}),
                metrics={"accuracy_percent": "accuracy"},
                column="ExpDecay",
                method=_falling,
                tuned={
                    n: dict.fromkeys(_TUNED, ())
                    for n in ("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi")
                },
            ),
        ),
        rounds=1500,
        clients_per_round=10,
        options=_OPTIONS,
    ),
)
