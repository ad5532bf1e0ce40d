"""Delta-SGD's printed tables, and which runs its notebooks need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fedlib import papers
from fedlib.errors import unknown
from fedlib.reproduction.fedopt.grids import half_decades
from fedlib.reproduction.request import Experiment, Numbers, Request, given, grid, number, repeated
from fedlib.reproduction.table import Table, printed_cells
from fedlib.tasks import settings
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
CNN = ("mnist", "fashion_mnist")
RESNETS = tuple(task for label, task in TASKS.items() if "ResNet" in label)
IMAGE_TASKS = CNN + RESNETS
# The tasks of Figure 5, of Figure 6 and Table 7, and the one whose rates were tuned, at alpha 0.1.
LONGER = TASKS[STATED["figure5"]["task"]]
THREE = tuple(TASKS[label] for label in STATED["figure6_table7"]["tasks"])
TUNED, TUNED_ALPHA = "cifar10_resnet18", 0.1
TUNED_CLIENTS = ("sgd", "sgdm", "adam", "adagrad")
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
# The paper evaluates every round; here a curve has about so many points. A test on all texts takes
# as long as a round.
POINTS, TEXT_POINTS = 100, 20
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
# What the printed numbers were made with, as the authors' code has it.
_SPLIT = {"author_split": True}
DRAWN_SIZES = "{examples_per_client_min}-{examples_per_client_max}".format(**STATED["table3"])


def _even(sizes: Any) -> bool:
    """Whether all clients have as many examples: not Table 3's runs."""
    return not isinstance(sizes, str)


def _uneven(sizes: Any) -> bool:
    """Whether the clients' examples are drawn from a range: Table 3's runs."""
    return isinstance(sizes, str)


def _draws(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The released script's partition and cohorts, which the printed numbers of images were made
    with, so we assume; not known for texts and for clients of different sizes.
    """
    return {"draws": "authors"} if task in IMAGE_TASKS and "sizes" not in options else {}


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
                **_SPLIT,
                **({"norm": "tracked"} if task in RESNETS else {}),
                **_draws(task, options),
                **options,
            },
        )
    return tables


IMAGES, TEXTS = "26_autotuned_images", "27_autotuned_text"
ABLATION = "39_delta_sgd_ablation"
TABLE_1 = _tables("Table 1", "table1", "fedavg", IMAGES)
TABLE_2A = _tables("Table 2a", "table2a_text", "fedavg", TEXTS)
TABLE_2B = _tables("Table 2b", "table2b_fedprox", "fedprox", ABLATION)
TABLE_3 = _tables("Table 3", "table3_varied_sizes", "fedavg", ABLATION, sizes=DRAWN_SIZES)
TABLE_4 = _tables("Table 4", "table4_fedadam", "fedadam", ABLATION)
TABLE_5 = _tables("Table 5", "table5_moon", "moon", ABLATION)
TABLE_6 = _tables("Table 6", "table6_fedprox_full", "fedprox", ABLATION)
TABLES: tuple[Table, ...] = tuple(
    table
    for tables in (TABLE_1, TABLE_2A, TABLE_2B, TABLE_3, TABLE_4, TABLE_5, TABLE_6)
    for table in tables.values()
)


def table_runs(
    tables: Iterable[Table],
    part: str,
    seed: int,
    numbers: Numbers,
    alphas: Sequence[float] | None = None,
    authors: bool = False,
    **options: Any,
) -> list[Request]:
    """The runs of a printed table's tasks, for one seed or for several.

    Args:
        numbers: see :func:`_common`, and ``tasks``: only these (None: all); ``optimizers``,
            ``resnet_optimizers``: the rows that the CNN and the ResNets have, by the keys of
            :data:`CLIENTS`; ``seeds``.
        alphas: only the cells of these.
        authors: with the released script's draws; see :func:`_draws`.
        options: of the task.
    """
    requests = []
    for table in tables:
        if table.task not in number(numbers, "tasks", [table.task]):
            continue
        name = "resnet_optimizers" if table.task in RESNETS else "optimizers"
        labels = number(numbers, name, CLIENTS)
        for label in labels:
            if label not in CLIENTS:
                raise unknown("client optimizer of Delta-SGD's tables", label, CLIENTS)
        cells = tuple(
            cell
            for cell in table.cells
            if client_of(cell.row) in labels and (alphas is None or cell.options["alpha"] in alphas)
        )
        common = _common(table.task, seed, numbers, authors, **options)
        requests += replace(table, cells=cells).requests(part, **common)
    return repeated(requests, numbers.get("seeds"))


def _common(
    task: str, seed: int, numbers: Numbers, authors: bool, **options: Any
) -> dict[str, Any]:
    """The other fields of a request, from the notebook's numbers: rounds, eval_every, clients,
    clients_per_round, sizes, width, test_examples; and resnet_rounds, resnet_sizes, resnet_width,
    since the ResNets cost so much more than the CNN.
    """
    prefix = "resnet_" if task in RESNETS else ""
    scale = {key: numbers.get(prefix + key) for key in ("rounds", "sizes", "width")}
    small = given({**numbers, **scale}, "clients", "sizes", "width", "test_examples")
    rounds = number(scale, "rounds", (TABLE_1 | TABLE_2A)[task].rounds)
    every = max(1, rounds // (TEXT_POINTS if task in TABLE_2A else POINTS))
    return {
        "options": {**small, **(_draws(task, options) if authors else {}), **options},
        "rounds": scale["rounds"],
        "seed": seed,
        "eval_every": number(numbers, "eval_every", every),
        "clients_per_round": numbers.get("clients_per_round"),
        "keep_params": False,
    }


def images(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """26_autotuned_images. Numbers: those of :func:`table_runs`; resnet_alphas; reach.

    At the paper preset with the released script's draws, at quick with the seeds'.

    Parts: ``tuning``, the grids of rates on the one task that the paper tunes: the printed ones, or
    ``reach`` half-decades around the small problems' rates; ``table``, Table 1's runs, of which
    Figures 1, 2 and 3 show some.
    """
    requests = []
    authors, reach = preset != "quick", numbers.get("reach")
    common = _common(TUNED, seed, numbers, authors, alpha=TUNED_ALPHA)
    near = settings.small_clients() if preset == "quick" else settings.delta_sgd_clients()
    for key in TUNED_CLIENTS:  # the decaying ones take the constant one's rate
        rates = STATED["tuning"][f"{key}_lr_grid"]
        if reach is not None:
            rates = half_decades(near[key]["client_lr"], reach)
        axes = {"client_lr": rates}
        requests += grid(TUNED, "fedavg", "tuning", axes, overrides=CLIENTS[key], **common)
    requests = repeated(requests, numbers.get("seeds"))
    for task, table in TABLE_1.items():
        alphas = numbers.get("resnet_alphas") if task in RESNETS else None
        requests += table_runs([table], "table", seed, numbers, alphas, authors)
    return requests


def texts(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """27_autotuned_text. Numbers: rounds, clients, clients_per_round, sizes, test_examples.

    Part: ``table``, Table 2a's runs.
    """
    return table_runs(TABLE_2A.values(), "table", seed, numbers)


def ablation(preset: str, seed: int, numbers: Numbers) -> list[Request]:
    """39_delta_sgd_ablation.

    Numbers: those of :func:`table_runs`; swept, the tasks of Figures 4 and 5 (None: all), and
    resnet_alphas of both; epochs, the local ones with which all methods of Table 1 are compared on
    epochs_task (None: Delta-SGD's alone are varied, as in the paper); size_range, of Table 3.

    At the paper preset with the released script's draws, but for ``seeds``, whose seeds vary them.

    Parts: ``delta`` (Figure 4), ``epochs`` (Figure 5), ``more_epochs``, ``seeds`` (Figure 6, Table
    7), ``fedprox`` (Tables 2b and 6), at the paper preset ``fedavg``: the same without the proximal
    term, from Table 1, ``sizes`` (Table 3), ``fedadam`` (Table 4), ``moon`` (Table 5).
    """
    requests = []
    authors = preset != "quick"
    swept = [(TASKS[label], "delta", "delta", "figure4") for label in STATED["figure4"]["tasks"]]
    swept += [(LONGER, "epochs", "local_epochs", "figure5")]
    for task, part, key, figure in swept:
        if task not in number(numbers, "swept", RESNETS):
            continue
        axes = {key: STATED[figure][key]}
        for alpha in number(numbers, "resnet_alphas", STATED[figure]["alphas"]):
            common = _common(task, seed, numbers, authors, alpha=alpha)
            common |= {"overrides": CLIENTS["delta_sgd"]}
            requests += grid(task, "fedavg", part, axes, **common)
    requests = repeated(requests, numbers.get("seeds"))
    again, three = STATED["figure6_table7"], [TABLE_1[task] for task in THREE]
    several = {**numbers, "seeds": number(numbers, "seeds", again["seeds"])}
    plain = [TABLE_1[task] for task in TABLE_6]
    sizes = number(numbers, "size_range", DRAWN_SIZES)
    made = partial(table_runs, seed=seed, numbers=numbers, authors=authors)
    if numbers.get("epochs") is not None:
        longer = {"local_epochs": numbers["epochs"]}
        every, alphas = {**numbers, "tasks": None}, [again["alpha"]]
        table = TABLE_1[number(numbers, "epochs_task", LONGER)]
        runs = table_runs([table], "more_epochs", seed, every, alphas, authors)
        requests += [replace(run, overrides={**run.overrides, **longer}) for run in runs]
    if preset != "quick":
        requests += made(plain, "fedavg", alphas=[STATED["table6"]["alpha"]])
    return [
        *requests,
        *table_runs(three, "seeds", seed, several, [again["alpha"]]),
        *made(TABLE_6.values(), "fedprox"),
        *made(TABLE_3.values(), "sizes", sizes=sizes),
        *made(TABLE_4.values(), "fedadam"),
        *made(TABLE_5.values(), "moon"),
    ]


# Small problems: three seeds, a test every other round.
_QUICK = {"seeds": 3, "eval_every": 2}
# Two cores: one seed, but for Figure 6 and Table 7, which show the seeds.
_LAPTOP = {"resnet_alphas": [0.1]}
_SMALL_TASKS = ["mnist", "fashion_mnist", "cifar10_resnet18", "cifar100_resnet50"]
EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        *(IMAGES, {**_QUICK, "reach": 1, "tasks": _SMALL_TASKS}, images),
        {**_LAPTOP, "reach": 0, "tasks": [*CNN, TUNED]},
    ),
    Experiment(TEXTS, _QUICK, texts, {"seeds": 1}),
    Experiment(
        ABLATION,
        {
            **_QUICK,
            **{"resnet_alphas": [0.1], "epochs": 2, "size_range": "20-100"},
            **{"swept": [TUNED, LONGER], "tasks": ["fashion_mnist", TUNED]},
        },
        ablation,
        {
            **{**_LAPTOP, "epochs": 2, "epochs_task": "fashion_mnist"},
            **{"swept": [TUNED], "tasks": ["fashion_mnist"]},
        },
    ),
)
