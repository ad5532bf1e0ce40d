"""EMNIST of FedOpt and Mime, one client per writer: recognise or reproduce characters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib import losses, papers, partitioners
from fedlib.clients import ClientData
from fedlib.datasets import Dataset
from fedlib.errors import Error
from fedlib.models import EMNISTCNN, MLP, EMNISTAutoencoder, Softmax
from fedlib.task import Fixed, Task, Transform
from fedlib.tasks import images, settings
from fedlib.tasks.presets import ALL, RUN, AtMost, Given, Preset, sample, small_network

CLASSES: int = papers.settings("fedopt")["datasets"]["emnist"]["classes"]
PIXELS = 28 * 28
LABELS = {
    "emnist_cr": "EMNIST CR",
    "emnist_ae": "EMNIST AE",
    "emnist_logistic": "EMNIST logistic",
    "emnist_mlp": "EMNIST MLP",
}
TABLE_2, FIGURE_1 = (papers.settings("mime")[place] for place in ("table2", "figure1"))
AUTOENCODER = {"width": 1.0, "reduction": "sum"}
# The small network's pixels are means of 4x4.
POOLED, SMALL_PIXELS = 4, 7 * 7
NETWORK = {"network": "paper", "cap": 0}
SMALL = {"network": "small", "clients": AtMost(100), "cap": 40}
PAPER, QUICK = {"data": None, "clients": ALL}, {"clients": AtMost(40)}
# Mime's small problem has 40 pictures a writer, 8x16, ten classes, and one hidden layer. The two
# local steps of the network are full-batch steps.
PAIRS, SMALL_HIDDEN = {"data": "digit_writers", "clients": AtMost(120)}, (32,)
FULL_BATCHES = {"clients_per_round": 40, "batch_size": 40, "local_epochs": 2}
paper: dict[str, Preset] = {
    "emnist_cr": {**PAPER, **NETWORK, "width": 1.0, **settings.fedopt_run("EMNIST CR")},
    "emnist_ae": {**PAPER, **NETWORK, **AUTOENCODER, **settings.fedopt_run("EMNIST AE")},
    "emnist_logistic": {
        **PAPER,
        **settings.fedopt_run("EMNIST CR"),
        "rounds": TABLE_2["rounds"],
        "clients_per_round": TABLE_2["fedavg_clients_per_round_derived"]["EMNIST"],
    },
    "emnist_mlp": {
        **PAPER,
        "width": 1.0,
        **settings.fedopt_run("EMNIST CR"),
        **{setting: FIGURE_1[setting] for setting in RUN if setting in FIGURE_1},
    },
}
quick = {
    "emnist_cr": {**paper["emnist_cr"], **SMALL, "rounds": 150},
    "emnist_ae": {**paper["emnist_ae"], **SMALL, "rounds": 500},
    "emnist_logistic": {**paper["emnist_logistic"], **PAIRS, "rounds": 40},
    "emnist_mlp": {**paper["emnist_mlp"], **PAIRS, **FULL_BATCHES, "rounds": 40},
}


def load(given: Given) -> Task:
    """Writers as clients.

    ``emnist_cr`` has 62 classes and a small CNN, with 10 writers a round, batches of 20 and 1500
    rounds. Sources: FedOpt section 4 (task), Table 4 (model), Table 7 (batch), Tables 8 and 9
    (hyperparameters). Paper is 1 and ink 0, as in the federated EMNIST files. Mime's Table 2 has
    this task as "EMNIST CNN" (1000 rounds, 20 clients a round for FedAvg).

    ``emnist_ae`` is FedOpt's autoencoder, whose target is its input, with 3000 rounds. Sources as
    before, with the model from Table 3. Ink is 1 and paper 0, as the authors' code inverts the
    files' pixels.

    ``emnist_logistic`` is Mime's softmax regression, with 20 clients a round, batches of 20, one
    local epoch and 1000 rounds. Source: Mime, section 5 and Table 2. The paper counts
    communication, not clients: FedAvg's 40 model sizes pay for 20 clients a round, and methods that
    send more sample fewer. It gives no batch size, but its setup "closely matches" FedOpt's, whose
    EMNIST batches have 20 examples. Ink is 1 and paper 0, as in the authors' library.

    ``emnist_mlp`` is Mime's 300-100 network (section 5.1 and Figure 1), with 10 local epochs. All
    else is as in the regression.

    In the quick preset these two have a small problem, ``digit_writers``: pictures 8x16 of two
    digits with the first one as label, for the regression or one hidden layer of 32 units. The
    network takes two local epochs in one batch, so that the longest stable step limits its methods.

    Options:
        seed: seed of the choice of writers if there are more than ``clients``.
        data: the prepared data set, with writers. Default: ``emnist``, else ``femnist``, else
            the offline stand-in of ``emnist``.
        clients: number of writers.
        cap: largest number of a writer's training examples, the first ones. 0 for all.
        network: ``"paper"``, or ``"small"``, which takes 7x7 pixels, means of 4x4 of the image. It
            has one softmax layer for characters, and layers of 64, 16 and 64 for the autoencoder.
            Its learning rates are in :func:`fedlib.tasks.settings.small`.
        width: factor on all layer widths. The regression has none.
        reduction: reduction of the autoencoder's mean squared errors over a batch. At the time of
            the paper the code took their ``"sum"``, which fits client learning rates of 10 and
            more. Before and after that it took the ``"mean"``.
    """
    small = hasattr(given, "network") and small_network(given, "paper", "small")
    name, label, cap = given.name, LABELS[given.name], getattr(given, "cap", 0)
    writers = load_writers(given)
    pixels, classes, hidden = PIXELS, CLASSES, FIGURE_1["hidden_units"]
    if writers.data.name == "digit_writers":
        pixels, classes = math.prod(writers.data.train_x.shape[1:]), images.classes(writers.data)
        hidden = SMALL_HIDDEN
    transform: Transform = images.flat_pixels
    if name == "emnist_cr":
        transform = standardized if small else images.grey
    ink = "dark" if name == "emnist_cr" and not small else "bright"
    train, test = (writers.tensors(split, ink) for split in ("train", "test"))
    if small:
        train, test = ((pooled(x), y) for x, y in (train, test))
    values, goal = (settings.small if small else settings.fedopt)(label), dict[str, Any]()
    if name == "emnist_ae":
        train, test = (train[0], train[0]), (test[0], test[0])
        goal = {"loss": squared_error, "metrics": {"mse_x1000": mse_x1000}}
        goal["reduction"] = given.reduction
    else:
        values = settings.mime(label if name != "emnist_cr" else "EMNIST CNN") | values

    def model() -> nn.Module:
        match name:
            case "emnist_cr":
                return Softmax(SMALL_PIXELS, CLASSES) if small else EMNISTCNN(CLASSES, given.width)
            case "emnist_ae" if small:
                return EMNISTAutoencoder(given.width, SMALL_PIXELS, (64, 16))
            case "emnist_ae":
                return EMNISTAutoencoder(given.width)
            case "emnist_logistic":
                return Softmax(pixels, classes)
            case _:
                return MLP(pixels, hidden, classes, given.width)

    return Task(
        name=name,
        model=model,
        train=ClientData(*train, [part[: cap or None] for part in writers.train], writers.ids),
        test=ClientData(*test, writers.test, writers.ids),
        transform=Fixed(transform),
        hyperparameters=values,
        **goal,
        **writers.origin(),
    )


def pooled(x: Tensor) -> Tensor:
    """Images uint8 ``[N, 28, 28]`` to the means of 4x4 pixels, uint8 ``[N, 7, 7]``."""
    return F.avg_pool2d(x.float(), POOLED).round().to(torch.uint8)


def standardized(x: Tensor, keys: Tensor | None) -> Tensor:
    """uint8 ``[..., 7, 7]`` -> float32 ``[..., 49]``, each image with mean 0 and deviation 1."""
    return images.standardize(x.unsqueeze(-1)).flatten(-3)


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error ``[R, B]`` over pixels: outputs in [0, 1], targets uint8."""
    return losses.squared_error(outputs, (targets.to(outputs.dtype) / 255).flatten(-2))


def mse_x1000(outputs: Tensor, targets: Tensor) -> Tensor:
    """1000 times :func:`squared_error`, the unit of the paper's Table 1."""
    return 1000 * squared_error(outputs, targets)


@dataclass(frozen=True)
class Writers:
    """A handwriting data set and the examples of its chosen writers.

    Attributes:
        data: the whole data set.
        train, test: for each writer the indices of its examples, in the two splits.
        ids: the writers' codes.
    """

    data: Dataset
    train: list[np.ndarray]
    test: list[np.ndarray]
    ids: list[str]

    def tensors(self, split: str, ink: str) -> tuple[Tensor, Tensor]:
        """Pixels uint8 ``[N, 28, 28]`` and labels ``[N]`` of a split.

        Args:
            split: ``"train"`` or ``"test"``.
            ink: ``"dark"`` or ``"bright"``. Pixels of the other polarity are inverted.
        """
        x, y = (images.tensor(getattr(self.data, f"{split}_{field}")) for field in "xy")
        other = {"dark": "ink_bright", "bright": "ink_dark"}[ink]
        return (255 - x if self.data.polarity == other else x), y

    def origin(self) -> dict[str, Any]:
        """The fields of a task that describe its data."""
        options = {"data": self.data.name, "clients": len(self.ids)}
        return {"options": options, **images.origin(self.data)}


def load_writers(given: Given, prefer: Sequence[str] = ("emnist", "femnist")) -> Writers:
    """Writers that are in both splits.

    Args:
        given: its ``data`` is the prepared data set. Default: the first of ``prefer`` that is
            prepared, else the offline stand-in of ``prefer[0]``.

    Raises:
        Error: the data have no writers, or there are fewer writers than clients.
    """
    dataset = images.load(given, *prefer)
    if dataset.train_client is None or dataset.test_client is None:
        what = f"task {given.name}: data {dataset.name!r} has no writers"
        raise Error(f"{what}: import it with train_client and test_client")
    train, test = (
        dict(zip(np.unique(codes).tolist(), partitioners.by_user(codes), strict=True))
        for codes in (np.asarray(dataset.train_client), np.asarray(dataset.test_client))
    )
    both = sorted(set(train) & set(test))
    if not both:
        what = f"task {given.name}: no writer of {dataset.name!r} is in both splits"
        raise Error(f"{what}: see data/README.md")
    of = f"the writers of {dataset.name!r} in both splits"
    taken = sample(given.clients, len(both), "clients", given.seed, "writers", of)
    codes = [both[i] for i in taken]
    return Writers(
        dataset, [train[w] for w in codes], [test[w] for w in codes], [str(w) for w in codes]
    )
