"""The papers' tables: their cells, and the notebooks that make their runs."""

import pandas as pd

from fedlib import papers
from fedlib.errors import require_known
from fedlib.paths import read_toml

# Paper -> table -> its notebook, or those of its tasks. Other tables of Delta-SGD: ABLATION.
NOTEBOOKS = read_toml("reproduction/notebooks.toml")
FEDOPT: dict[str, str] = NOTEBOOKS["fedopt"]["Table 1"]
ADAFEDADAM: dict[str, str] = NOTEBOOKS["adafedadam"]["Table 5"]
IMAGES, TEXTS = (str(NOTEBOOKS["delta_sgd"][f"Table {number}"]) for number in ("1", "2a"))
ABLATION = "39_delta_sgd_ablation"


def find(
    paper: str | None = None, item: str | None = None, task: str | None = None
) -> pd.DataFrame:
    """The cells of a table, of a paper, or (without arguments) all, see :func:`papers.cells`.

    Args:
        paper, item: for instance ``"fedopt"``, ``"Table 1"``.
        task: only cells of this task.

    Raises:
        Error: there are none.
    """
    cells = papers.cells()
    for column, wanted in {"paper": paper, "item": item, "task": task}.items():
        if wanted is not None:
            require_known(column, wanted, cells[column].unique())
            cells = cells[cells[column] == wanted]
    return cells


def notebook(paper: str, item: str, task: str) -> str:
    """The notebook that makes the runs of a task in a paper's table."""
    source = NOTEBOOKS.get(paper, {}).get(item, ABLATION)
    return str(source if isinstance(source, str) else source[task])


def notebooks(paper: str, item: str) -> dict[str, str]:
    """Task -> the notebook that makes the runs of a paper's table.

    >>> notebooks("fedopt", "Table 10")["stackoverflow_nwp"]
    '15_stackoverflow_nwp'
    """
    tasks = find(paper, item)["task"].unique()
    return {task: notebook(paper, item, task) for task in tasks}


def how_to_make(notebook: str, preset: str = "quick") -> str:
    """The sentence that says how missing runs are made: by a notebook or a command."""
    switch = "" if preset == "quick" else f" --preset {preset}"
    return f"run notebooks/{notebook}.ipynb or: fedlib reproduce {notebook}{switch}"
