"""What FedOpt claims, as statements about runs."""

from __future__ import annotations

import numpy as np

from fedlib.reproduction.evidence import Evidence, Runs, Statement, above, below, finals
from fedlib.reproduction.fedopt.runs import SETUPS

CURVES = ("curves", "scaffold")
DENSE = ("fedavgm", "fedadam", "fedyogi")


def ahead_on_images(runs: Runs) -> list[Statement]:
    """Momentum, FedAdam and FedYogi end more than 2 points above FedAvg."""
    worst = np.min([finals(runs[name]) for name in DENSE], axis=0)
    text = "min(FedAvgM, FedAdam, FedYogi) > FedAvg + 0.02"
    return [above(text, worst, finals(runs["fedavg"]) + 0.02)]


def cifar10(runs: Runs) -> list[Statement]:
    """As on CIFAR-100, and FedAdagrad ends within 3 points of FedAvg."""
    apart = np.abs(finals(runs["fedadagrad"]) - finals(runs["fedavg"]))
    return [*ahead_on_images(runs), below("|FedAdagrad - FedAvg| < 0.03", apart, 0.03)]


def scaffold(runs: Runs) -> list[Statement]:
    """SCAFFOLD ends at most 1 point above FedAvg."""
    ours, plain = (finals(runs[name]) for name in ("scaffold", "fedavg"))
    return [below("SCAFFOLD <= FedAvg + 0.01", ours, plain + 0.01)]


EVIDENCE = (
    Evidence("fedopt-cifar100", {"11_cifar100": CURVES}, ahead_on_images),
    Evidence("fedopt-cifar10", {"10_cifar10": CURVES}, cifar10),
    Evidence(
        "fedopt-scaffold",
        {SETUPS[task][0]: CURVES for task in ("cifar10", "cifar100")},
        scaffold,
    ),
)
