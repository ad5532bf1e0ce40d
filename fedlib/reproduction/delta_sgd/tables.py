"""Delta-SGD's printed tables: which runs belong to which printed number."""

from __future__ import annotations

from typing import Any

from fedlib import papers
from fedlib.reproduction.table import Table, printed_cells
from fedlib.tasks.news import WEIGHTS

STATED = papers.settings("delta_sgd")
# The paper's data sets and models, and fedlib's tasks.
TASKS = {
    "MNIST CNN": "mnist",
    "FMNIST CNN": "fashion_mnist",
    "CIFAR-10 ResNet-18": "cifar10_resnet18",
    "CIFAR-100 ResNet-18": "cifar100_resnet18",
    "CIFAR-100 ResNet-50": "cifar100_resnet50",
    "AGNews DistilBERT": "ag_news",
    "DBpedia DistilBERT": "dbpedia",
}
RESNETS = tuple(task for label, task in TASKS.items() if "ResNet" in label)
# The tasks of Figure 6 and Table 7.
THREE = tuple(TASKS[label] for label in STATED["figure6_table7"]["tasks"])
# The paper's eight client optimizers, in its order and by the keys of style.CLIENT_LOOKS.
CLIENTS: dict[str, dict[str, Any]] = {
    "sgd": {"client_optimizer": "sgd"},
    "sgd_decay": {"client_optimizer": "sgd", "client_schedule": "step_decay"},
    "sgdm": {"client_optimizer": "sgdm"},
    "sgdm_decay": {"client_optimizer": "sgdm", "client_schedule": "step_decay"},
    "adam": {"client_optimizer": "adam"},
    "adagrad": {"client_optimizer": "adagrad"},
    "sps": {"client_optimizer": "sps"},
    "delta_sgd": {"client_optimizer": "delta_sgd"},
}
_SHARED = STATED["federated"]
# What the authors' published commands and code say where the text is illegible: 10 clients a round
# (5 for text), batches of 64, 512 tokens, a tenth of DBpedia's test texts.
_SIZES = {"sizes": _SHARED["examples_per_client"]}
_IMAGE = {"clients": _SHARED["clients_image"], **_SIZES, "width": 1.0, "test_examples": 10_000}
_TEXT = {
    "pretrained": WEIGHTS,
    "clients": _SHARED["clients_text"],
    **_SIZES,
    "length": 512,
    "width": 1.0,
    "layers": 6,
}
_TESTED = {"ag_news": 7600, "dbpedia": 7000}
_DRAWN = "{examples_per_client_min}-{examples_per_client_max}".format(**STATED["table3"])


def _even(sizes: Any) -> bool:
    """Whether all clients have as many examples: not Table 3's runs."""
    return not isinstance(sizes, str)


def _uneven(sizes: Any) -> bool:
    """Whether the clients' examples are drawn from a range: Table 3's runs."""
    return isinstance(sizes, str)


def client_of(row: str) -> str:
    """A printed row's key in :data:`CLIENTS`.

    >>> client_of("Delta-SGD")
    'delta_sgd'
    """
    return row.lower().replace("-", "_")


def _tables(
    name: str, file: str, algorithm: str, notebook: str, **options: Any
) -> dict[str, Table]:
    """A printed table, task by task; if it has several alphas, they are its columns."""
    printed = papers.table("delta_sgd", file)
    alphas = [float(alpha) for alpha in printed["alpha"].unique()]
    tables = {}
    for data, model in dict.fromkeys(zip(printed["dataset"], printed["model"], strict=True)):
        task, text = TASKS[f"{data} {model}"], model == "DistilBERT"
        cells = [
            cell
            for alpha in alphas
            for cell in printed_cells(
                *("delta_sgd", file, {"dataset": data, "model": model, "alpha": alpha}),
                metrics="avg",  # the code reports the last round's accuracy
                row="optimizer",
                column=f"alpha {alpha:g}" if len(alphas) > 1 else "",
                method=lambda label: (algorithm, CLIENTS[client_of(label)]),
                options={"alpha": alpha, "sizes": _uneven if "sizes" in options else _even},
            )
        ]
        tables[task] = Table(
            *("delta_sgd", name, task, f"{data} {model}" if task in RESNETS else data),
            cells=tuple(cells),
            notebook=notebook,
            rounds=STATED["rounds"]["text" if text else data],
            clients_per_round=5 if text else 10,
            batch_size=_SHARED["batch_size_text"] if text else 64,
            local_epochs=_SHARED["local_epochs"],
            options={
                **(_TEXT | {"test_examples": _TESTED[task]} if text else _IMAGE),
                "author_split": True,  # as the code behind the printed numbers has it
                **({"norm": "tracked"} if task in RESNETS else {}),
                # The partition and the cohorts of the authors' script, so we assume: not known for
                # texts and for clients of different sizes.
                **({} if text or "sizes" in options else {"draws": "authors"}),
                **options,
            },
        )
    return tables


IMAGES, TEXTS = "26_autotuned_images", "27_autotuned_text"
ABLATION = "39_delta_sgd_ablation"
TABLE_1 = _tables("Table 1", "table1", "fedavg", IMAGES)
TABLE_2A = _tables("Table 2a", "table2a_text", "fedavg", TEXTS)
TABLE_2B = _tables("Table 2b", "table2b_fedprox", "fedprox", ABLATION)
TABLE_3 = _tables("Table 3", "table3_varied_sizes", "fedavg", ABLATION, sizes=_DRAWN)
TABLE_4 = _tables("Table 4", "table4_fedadam", "fedadam", ABLATION)
TABLE_5 = _tables("Table 5", "table5_moon", "moon", ABLATION)
TABLE_6 = _tables("Table 6", "table6_fedprox_full", "fedprox", ABLATION)
TABLES: tuple[Table, ...] = tuple(
    table
    for tables in (TABLE_1, TABLE_2A, TABLE_2B, TABLE_3, TABLE_4, TABLE_5, TABLE_6)
    for table in tables.values()
)
