"""Which runs the notebooks of AdaFedAdam's fairness need: Figures 2 and 3, Table 5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fedlib import papers
from fedlib.experiments.base import Plan, Request, given, grid, repeated, tuned

# The algorithms of Figure 2, in Table 5's order, but FedProx: its mu comes from a grid.
FIVE = ("fedavg", "fedadam", "qfedavg", "fednova", "adafedadam")
# Figure 3. The text says "from 1 to 4" and "alpha > 4" and prints no list; 0 is without fairness.
ALPHAS = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0)
# A curve has about so many points.
POINTS = 100


def femnist(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """20_fair_femnist. Numbers: rounds, clients, width, mus, seeds. Parts: see :func:`setup`."""
    return setup("fair_femnist", "Femnist", seed, numbers, ("clients", "width"))


def cifar10(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """21_fair_cifar10. Numbers: rounds, examples, width, mus, seeds. Parts: see :func:`setup`."""
    return setup("fair_cifar10", "Cifar10", seed, numbers, ("examples", "width"))


def sent140(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """22_fair_sent140. Numbers: rounds, clients, tokens, width, mus, seeds. Parts: as above."""
    return setup("fair_sent140", "Sent140", seed, numbers, ("clients", "tokens", "width"))


def synthetic(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """23_fair_synthetic. Numbers: rounds, mus, seeds. Parts: see :func:`setup`."""
    return setup("synthetic", "Synthetic", seed, numbers)


def setup(
    task: str, label: str, seed: int, numbers: Mapping[str, Any], options: Iterable[str] = ()
) -> list[Request]:
    """A panel of Figure 2 and its rows of Table 5: six algorithms with the paper's values.

    Parts: ``curves``, and ``mu``: FedProx over the paper's grid. The paper's runs are of three
    seeds. A seed is of the division into training and test examples, too.

    Args:
        task, label: fedlib's and the paper's name of the setup.
        numbers: ``rounds``, ``mus``, ``seeds``, and those that are options of the task.
        options: their names.
    """
    common = {
        "options": {key: numbers[key] for key in options if numbers.get(key) is not None},
        **_rounds(label, numbers),
        "seed": seed,
    }
    mus = given(numbers, "mus", papers.settings("adafedadam")["algorithms"]["FedProx"]["mu_grid"])
    curves = tuned(task, FIVE, "curves", **common)
    proximal = grid(task, "fedprox", "mu", {"mu": mus}, **common)
    return repeated([*curves, *proximal], seeds(numbers))


def tradeoff(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """34_fairness_tradeoff. Numbers: rounds, alphas, seeds.

    Parts: ``alpha``, AdaFedAdam's fairness; ``q``, q-FedAvg's; ``baselines``, the others. They are
    the runs of 23_fair_synthetic where both notebooks have them.
    """
    common = {**_rounds("Synthetic", numbers), "seed": seed}
    alphas = given(numbers, "alphas", ALPHAS)
    qs = [
        float(q) for q in papers.settings("adafedadam")["algorithms"]["q-FedAvg"]["q_in_figure_3"]
    ]
    requests = [
        *grid("synthetic", "adafedadam", "alpha", {"alpha": alphas}, **common),
        *grid("synthetic", "qfedavg", "q", {"q": qs}, **common),
        *tuned("synthetic", ("fedavg", "fedadam", "fednova", "fedprox"), "baselines", **common),
    ]
    return repeated(requests, seeds(numbers))


def _rounds(label: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """The rounds, and how often the model is evaluated."""
    own = papers.settings("adafedadam")["setups"][label]["rounds"]
    rounds = numbers.get("rounds")
    return {"rounds": rounds, "eval_every": max(1, given(numbers, "rounds", own) // POINTS)}


def seeds(numbers: Mapping[str, Any]) -> Any:
    """How many seeds, or which, as in the numbers or the paper's."""
    return given(numbers, "seeds", papers.settings("adafedadam")["general"]["seeds"])


PLANS: dict[str, Plan] = {
    "20_fair_femnist": femnist,
    "21_fair_cifar10": cifar10,
    "22_fair_sent140": sent140,
    "23_fair_synthetic": synthetic,
    "34_fairness_tradeoff": tradeoff,
}
