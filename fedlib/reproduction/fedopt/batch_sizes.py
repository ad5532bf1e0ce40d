"""FedOpt's batch sizes beside those of fedlib's tasks."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from fedlib import papers
from fedlib.reproduction import tables
from fedlib.tasks import load_task


def fedopt_table_7(data_root: Path | None = None) -> tuple[None, pd.DataFrame]:
    """The printed batch sizes, and what the clients of fedlib's tasks take.

    Args:
        data_root: as for :func:`fedlib.load_task`; the tasks are loaded with their quick preset,
            which has the paper's batch sizes.

    Returns:
        no figure; task (the paper's name), printed, ours, and the difference.
    """
    printed = papers.table("fedopt", "table7_batch_sizes").set_index("task")["batch_size"]
    rows = []
    for item in tables.find("fedopt", "Table 1"):
        own = load_task(item.task, data_root=data_root).batch_size
        number = int(printed[item.label])
        ours = float("nan") if own is None else own
        rows.append((item.label, number, ours, ours - number))
    return None, pd.DataFrame(rows, columns=["task", "printed", "ours", "difference"])
