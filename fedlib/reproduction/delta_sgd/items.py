"""The tables of Delta-SGD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedlib import papers
from fedlib.reproduction.delta_sgd.runs import CLIENTS, IMAGES, RESNETS, TEXTS, TWO
from fedlib.reproduction.table import Cell, Method, Table, printed_cells

# Task -> the paper's data set and model, and the panel's title.
_PRINTED = {
    "mnist": ("MNIST", "CNN", "MNIST"),
    "fashion_mnist": ("FMNIST", "CNN", "FMNIST"),
    "cifar10_resnet18": ("CIFAR-10", "ResNet-18", "CIFAR-10 ResNet-18"),
    "cifar100_resnet18": ("CIFAR-100", "ResNet-18", "CIFAR-100 ResNet-18"),
    "cifar100_resnet50": ("CIFAR-100", "ResNet-50", "CIFAR-100 ResNet-50"),
    "ag_news": ("AGNews", "DistilBERT", "AGNews"),
    "dbpedia": ("DBpedia", "DistilBERT", "DBpedia"),
}
# What the authors' published commands and code say where the text is illegible: 10 clients a round
# of 100 (5 of 50 for text), batches of 64, 512 tokens, a tenth of DBpedia's test texts.
_IMAGE = {"clients": 100, "sizes": 500, "width": 1.0, "test_examples": 10_000}
_TEXT = {"clients": 50, "sizes": 500, "length": 512, "width": 1.0, "layers": 6}
_TESTED = {"ag_news": 7600, "dbpedia": 7000}
_IMAGES_NOTEBOOK, _TEXT_NOTEBOOK = "26_autotuned_images", "27_autotuned_text"
_ABLATION = "39_delta_sgd_ablation"
_VARIED = "table3_varied_sizes"


def _even(sizes: Any) -> bool:
    """Whether all clients have as many examples: not Table 3's runs."""
    return not isinstance(sizes, str)


def _uneven(sizes: Any) -> bool:
    """Whether the clients' examples are drawn from a range: Table 3's runs."""
    return isinstance(sizes, str)


def client(label: str, algorithm: str = "fedavg") -> Method:
    """What a printed row means: ``"SGD_decay"`` is SGD whose step falls, under FedAvg."""
    return algorithm, CLIENTS[label.lower().replace("-", "_")]


def _cells(
    task: str, table: str, alpha: float, algorithm: str, column: str = ""
) -> tuple[Cell, ...]:
    data, model, _ = _PRINTED[task]
    return printed_cells(
        "delta_sgd",
        table,
        {"dataset": data, "model": model, "alpha": alpha},
        metrics="avg",  # the code reports the last round's accuracy
        row="optimizer",
        column=column,
        method=lambda label: client(label, algorithm),
        options={"alpha": alpha, "sizes": _uneven if table == _VARIED else _even},
    )


def _item(name: str, task: str, notebook: str, cells: tuple[Cell, ...], **more: Any) -> Table:
    data, _, label = _PRINTED[task]
    stated = papers.settings("delta_sgd")
    federated, rounds = stated["federated"], stated["rounds"]
    text = task in TEXTS
    options: Mapping[str, Any] = {**_TEXT, "test_examples": _TESTED[task]} if text else _IMAGE
    return Table(
        *("delta_sgd", name, task, label),
        cells=cells,
        notebook=notebook,
        rounds=rounds["text"] if text else rounds[data],
        clients_per_round=5 if text else 10,
        batch_size=federated["batch_size_text"] if text else 64,
        local_epochs=federated["local_epochs"],
        options={**options, **more},
    )


def _table(
    name: str, file: str, tasks: tuple[str, ...], alpha: float, algorithm: str, **more: Any
) -> list[Table]:
    """A table of the appendix: one alpha, all from the notebook of ablations."""
    return [
        _item(name, task, _ABLATION, _cells(task, file, alpha, algorithm), **more) for task in tasks
    ]


def _table_1(task: str) -> Table:
    cells = tuple(
        cell
        for alpha in papers.settings("delta_sgd")["federated"]["alphas"]
        for cell in _cells(task, "table1", alpha, "fedavg", f"alpha {alpha:g}")
    )
    return _item("Table 1", task, _IMAGES_NOTEBOOK, cells)


TABLES: tuple[Table, ...] = (
    *(_table_1(task) for task in IMAGES),
    *(
        _item("Table 2a", task, _TEXT_NOTEBOOK, _cells(task, "table2a_text", 1.0, "fedavg"))
        for task in TEXTS
    ),
    *_table("Table 2b", "table2b_fedprox", TWO, 0.01, "fedprox"),
    *_table("Table 3", _VARIED, TWO, 0.1, "fedavg", sizes="100-500"),
    *_table("Table 4", "table4_fedadam", (*IMAGES[:2], *RESNETS[:2]), 0.1, "fedadam"),
    *_table("Table 5", "table5_moon", ("cifar10_resnet18",), 0.1, "moon"),
    *_table("Table 6", "table6_fedprox_full", IMAGES, 0.01, "fedprox"),
)
