"""Delta-SGD's tasks and client optimizers in the order of its tables."""

from typing import Any

from fedlib import papers
from fedlib.reproduction.tables import find

STATED = papers.settings("delta_sgd")
TABLE_1 = find("delta_sgd", "Table 1")
# The paper's data set and network -> fedlib's task.
IMAGE_TASKS: dict[str, str] = dict(zip(TABLE_1["label"], TABLE_1["task"], strict=True))
RESNETS = tuple(task for label, task in IMAGE_TASKS.items() if "ResNet" in label)
# The tasks of Figure 6 and Table 7.
THREE = tuple(IMAGE_TASKS[label] for label in STATED["figure6_table7"]["tasks"])


def client_of(row: str) -> str:
    """The key in :data:`CLIENTS` of a row of the paper.

    >>> client_of("Delta-SGD")
    'delta_sgd'
    """
    return row.lower().replace("-", "_")


# The paper's eight client optimizers, in its order and by the keys of style.CLIENT_LOOKS.
CLIENTS: dict[str, dict[str, Any]] = dict(
    zip(TABLE_1["row"].map(client_of), TABLE_1["overrides"], strict=True)
)
