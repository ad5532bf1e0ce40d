"""The papers' printed tables: their cells, and the notebooks that make the runs of these."""

from __future__ import annotations

import pandas as pd

from fedlib import papers
from fedlib.errors import unknown

FEDOPT = {
    "cifar10": "10_cifar10",
    "cifar100": "11_cifar100",
    "emnist_cr": "12_emnist_cr",
    "emnist_ae": "13_emnist_ae",
    "shakespeare": "14_shakespeare",
    "stackoverflow_lr": "16_stackoverflow_lr",
    "stackoverflow_nwp": "15_stackoverflow_nwp",
}
ADAFEDADAM = {
    "fair_femnist": "20_fair_femnist",
    "fair_cifar10": "21_fair_cifar10",
    "fair_sent140": "22_fair_sent140",
    "synthetic": "23_fair_synthetic",
}
IMAGES, TEXTS, ABLATION = "26_autotuned_images", "27_autotuned_text", "39_delta_sgd_ablation"
# Paper and table -> its notebook, or those of its tasks; other tables of Delta-SGD: ABLATION.
NOTEBOOKS: dict[tuple[str, str], str | dict[str, str]] = {
    ("fedopt", "Table 1"): FEDOPT,
    ("fedopt", "Table 10"): FEDOPT,
    ("fedopt", "Table 11"): "33_lr_decay_and_centralized",
    ("adafedadam", "Table 1"): "35_resource_heterogeneity",
    ("adafedadam", "Table 2"): "36_noniid_levels",
    ("adafedadam", "Table 3"): "37_local_solvers",
    ("adafedadam", "Table 5"): ADAFEDADAM,
    ("adafedadam", "Table 6"): "36_noniid_levels",
    ("adafedadam", "Table 7"): "37_local_solvers",
    ("mime", "Table 2"): {
        "emnist_logistic": "24_mime_emnist",
        "emnist_cr": "24_mime_emnist",
        "shakespeare": "25_mime_text",
        "stackoverflow_nwp": "25_mime_text",
    },
    ("delta_sgd", "Table 1"): IMAGES,
    ("delta_sgd", "Table 2a"): TEXTS,
}


def find(paper: str, item: str, task: str | None = None) -> pd.DataFrame:
    """The cells of a printed table, see :func:`fedlib.papers.cells`.

    Args:
        paper, item: for instance ``"fedopt"``, ``"Table 1"``.
        task: only this task's.

    Raises:
        Error: no such table, or it does not have the task.
    """
    cells = papers.cells()
    printed = cells[(cells["paper"] == paper) & (cells["item"] == item)]
    if printed.empty:
        known = (cells["paper"] + " " + cells["item"]).unique()
        raise unknown("printed table", f"{paper} {item}", known)
    chosen = printed if task is None else printed[printed["task"] == task]
    if chosen.empty:
        raise unknown(f"task of {paper}'s {item}", str(task), printed["task"].unique())
    return chosen


def notebook(paper: str, item: str, task: str) -> str:
    """The notebook that makes the runs of a printed table's task."""
    made = NOTEBOOKS.get((paper, item), ABLATION)
    return made if isinstance(made, str) else made[task]


def notebooks(paper: str, item: str) -> dict[str, str]:
    """Task -> the notebook that makes the runs of a printed table.

    >>> notebooks("fedopt", "Table 10")["stackoverflow_nwp"]
    '15_stackoverflow_nwp'
    """
    tasks = find(paper, item)["task"].unique()
    return {task: notebook(paper, item, task) for task in tasks}
