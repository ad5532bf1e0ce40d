"""Which runs the notebooks of Delta-SGD need."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedlib import papers
from fedlib.errors import unknown
from fedlib.reproduction.request import Experiment, Request, grid, repeated

CNN = ("mnist", "fashion_mnist")
RESNETS = ("cifar10_resnet18", "cifar100_resnet18", "cifar100_resnet50")
IMAGES = (*CNN, *RESNETS)
TEXTS = ("ag_news", "dbpedia")
# The tasks of Table 2b and Table 3, and of Figure 6 and Table 7.
TWO = ("cifar10_resnet18", "cifar100_resnet50")
THREE = ("cifar10_resnet18", "fashion_mnist", "cifar100_resnet50")
# The one task whose rates were tuned, at alpha 0.1.
TUNED = "cifar10_resnet18"
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
# Optimizer -> its grid in the paper's settings. The decaying variants take the constant one's rate.
GRIDS = {key: f"{key}_lr_grid" for key in ("sgd", "sgdm", "adam", "adagrad")}
# The paper evaluates every round; here a curve has about so many points. A test on all texts takes
# as long as a round.
POINTS, TEXT_POINTS = 100, 20


def images(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """26_autotuned_images.

    Numbers: rounds, resnet_rounds, resnet_alphas, resnet_optimizers, clients, clients_per_round,
    sizes, resnet_sizes, width, resnet_width, test_examples. Those of the ResNets are their own,
    since they cost so much more than the CNN.

    Parts: ``tuning``, the grids of rates on the one task that the paper tunes; ``table``, Table 1's
    runs, of which Figures 1, 2 and 3 show some.
    """
    requests = []
    stated = papers.settings("delta_sgd")["tuning"]
    for optimizer, name in GRIDS.items():
        settings = _settings(TUNED, seed, numbers, alpha=0.1)
        own = CLIENTS[optimizer]
        rates = {"client_lr": stated[name]}
        requests += grid(TUNED, "fedavg", "tuning", rates, overrides=own, **settings)
    for alpha in papers.settings("delta_sgd")["federated"]["alphas"]:
        few = numbers.get("resnet_alphas")
        shown = CNN if few is not None and alpha not in few else IMAGES
        requests += _each(shown, "fedavg", "table", seed, numbers, alpha=alpha)
    return requests


def texts(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """27_autotuned_text. Numbers: rounds, clients, clients_per_round, sizes, test_examples.

    Part: ``table``, Table 2a's runs.
    """
    rounds, names = numbers.get("rounds"), ("clients", "sizes", "test_examples")
    stated = papers.settings("delta_sgd")["rounds"]["text"]
    settings = {
        "options": {key: numbers[key] for key in names if numbers.get(key) is not None},
        "rounds": rounds,
        "seed": seed,
        "eval_every": max(1, (stated if rounds is None else rounds) // TEXT_POINTS),
        "clients_per_round": numbers.get("clients_per_round"),
        "keep_params": False,
    }
    return [
        Request(task, "fedavg", "table", overrides, **settings)
        for task in TEXTS
        for overrides in CLIENTS.values()
    ]


def ablation(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """39_delta_sgd_ablation.

    Numbers: those of 26_autotuned_images, of which resnet_alphas limits Figures 4 and 5 here, and
    optimizers (the CNN's), seeds, size_range (of Table 3).

    Parts: ``delta`` (Figure 4), ``epochs`` (Figure 5), ``seeds`` (Figure 6, Table 7), ``fedprox``
    (Tables 2b and 6), ``fedavg``: the same without the proximal term, from Table 1, ``sizes``
    (Table 3), ``fedadam`` (Table 4), ``moon`` (Table 5).
    """
    stated = papers.settings("delta_sgd")
    few = numbers.get("resnet_alphas")
    count = stated["figure6_table7"]["seeds"] if numbers.get("seeds") is None else numbers["seeds"]
    sizes = stated["table3"]
    drawn = f"{sizes['examples_per_client_min']}-{sizes['examples_per_client_max']}"
    uneven = drawn if numbers.get("size_range") is None else numbers["size_range"]
    own = CLIENTS["delta_sgd"]
    requests = []
    for alpha in stated["federated"]["alphas"] if few is None else few:
        for task in RESNETS:
            common = {**_settings(task, seed, numbers, alpha=alpha), "overrides": own}
            requests += grid(
                task, "fedavg", "delta", {"delta": stated["figure4"]["delta"]}, **common
            )
        last = _settings("cifar100_resnet50", seed, numbers, alpha=alpha)
        axes = {"local_epochs": stated["figure5"]["local_epochs"]}
        requests += grid("cifar100_resnet50", "fedavg", "epochs", axes, overrides=own, **last)
    return [
        *requests,
        *repeated(_each(THREE, "fedavg", "seeds", seed, numbers, alpha=0.1), count),
        *_each(IMAGES, "fedprox", "fedprox", seed, numbers, alpha=0.01),
        *_each(IMAGES, "fedavg", "fedavg", seed, numbers, alpha=0.01),
        *_each(TWO, "fedavg", "sizes", seed, numbers, alpha=0.1, sizes=uneven),
        *_each((*CNN, *RESNETS[:2]), "fedadam", "fedadam", seed, numbers, alpha=0.1),
        *_each((TUNED,), "moon", "moon", seed, numbers, alpha=0.1),
    ]


def _each(
    tasks: Iterable[str],
    algorithm: str,
    part: str,
    seed: int,
    numbers: Mapping[str, Any],
    **options: Any,
) -> list[Request]:
    """A request per task and client optimizer."""
    return [
        Request(task, algorithm, part, CLIENTS[label], **_settings(task, seed, numbers, **options))
        for task in tasks
        for label in _labels(task, numbers)
    ]


def _labels(task: str, numbers: Mapping[str, Any]) -> list[str]:
    chosen = numbers.get("resnet_optimizers" if task in RESNETS else "optimizers")
    labels = list(CLIENTS) if chosen is None else list(chosen)
    for label in labels:
        if label not in CLIENTS:
            raise unknown("client optimizer of Delta-SGD's tables", label, CLIENTS)
    return labels


def _settings(task: str, seed: int, numbers: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """The other fields of a request, from the notebook's numbers."""
    own = "resnet_" if task in RESNETS else ""
    sizes = {key: numbers.get(own + key) for key in ("sizes", "width")}
    small = {**{key: numbers.get(key) for key in ("clients", "test_examples")}, **sizes}
    rounds = numbers.get(own + "rounds")
    return {
        "options": {key: value for key, value in small.items() if value is not None} | options,
        "rounds": rounds,
        "seed": seed,
        "eval_every": max(1, (_rounds(task) if rounds is None else rounds) // POINTS),
        "clients_per_round": numbers.get("clients_per_round"),
        "keep_params": False,
    }


def _rounds(task: str) -> int:
    """The paper's rounds for an image task."""
    names = {"mnist": "MNIST", "fashion_mnist": "FMNIST", "cifar10_resnet18": "CIFAR-10"}
    rounds: int = papers.settings("delta_sgd")["rounds"][names.get(task, "CIFAR-100")]
    return rounds


EXPERIMENTS = (
    Experiment(
        "26_autotuned_images",
        {
            "rounds": 5,
            "resnet_rounds": 2,
            "resnet_alphas": [0.1, 0.01],
            "resnet_optimizers": ["sgd", "sgdm", "adam", "delta_sgd"],
            "clients": 6,
            "clients_per_round": 2,
            "sizes": 96,
            "resnet_sizes": 8,
            "width": 0.8,
            "resnet_width": 0.03125,
            "test_examples": 50,
        },
        images,
    ),
    Experiment(
        "27_autotuned_text",
        {"rounds": 5, "clients": 6, "clients_per_round": 2, "sizes": 64, "test_examples": 60},
        texts,
    ),
    Experiment(
        "39_delta_sgd_ablation",
        {
            "rounds": 5,
            "resnet_rounds": 2,
            "resnet_alphas": [0.1],
            "optimizers": ["sgd", "adam", "sps", "delta_sgd"],
            "resnet_optimizers": ["sgd", "delta_sgd"],
            "seeds": 2,
            "clients": 6,
            "clients_per_round": 2,
            "sizes": 96,
            "resnet_sizes": 8,
            "size_range": "4-12",
            "width": 0.8,
            "resnet_width": 0.03125,
            "test_examples": 50,
        },
        ablation,
    ),
)

from fedlib.reproduction.delta_sgd import items  # noqa: E402

TABLES = (*items.TABLES,)
