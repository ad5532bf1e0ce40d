"""Which runs FedOpt's text tasks need: panels of Figure 1, columns of Table 1, Table 10."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from fedlib.reproduction.fedopt.runs import convergence
from fedlib.reproduction.request import Experiment, Request


def full_test(requests: Iterable[Request]) -> list[Request]:
    """The same runs for Table 10: the last model, evaluated on all test posts.

    They train again what the curves train, because a run has one test set. Randomness is keyed, so
    the models are the same.
    """
    return [
        dataclasses.replace(
            one, part="full_test", options={**one.options, "validation": 0}, eval_every=0
        )
        for one in requests
    ]


def stackoverflow(
    task: str, label: str, seed: int, numbers: Mapping[str, Any], options: tuple[str, ...]
) -> list[Request]:
    """The runs of a Stack Overflow task. Parts: those of ``convergence``, and ``full_test``.

    Args:
        task, label, seed, options: see :func:`fedlib.reproduction.fedopt.runs.convergence`.
        numbers: as there. A negative ``scaffold_grid`` leaves SCAFFOLD out: at the paper's scale it
            has to remember a model for each of the clients it has seen, tens of thousands.
    """
    reach = numbers.get("scaffold_grid")
    without = reach is not None and reach < 0
    numbers = {**numbers, "scaffold_grid": 0} if without else numbers
    runs = convergence(task, label, seed, numbers, options)
    runs = [run for run in runs if not (without and run.part == "scaffold")]
    return [*runs, *full_test(run for run in runs if run.part == "curves")]


def shakespeare(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """14_shakespeare. Numbers: those of ``convergence``, clients, rows, width, length."""
    options = ("clients", "rows", "width", "length")
    return convergence("shakespeare", "Shakespeare", seed, numbers, options)


def next_word(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """15_stackoverflow_nwp. Numbers: those of ``stackoverflow``, clients, words, width, cap."""
    options = ("clients", "words", "width", "cap")
    return stackoverflow("stackoverflow_nwp", "StackOverflow NWP", seed, numbers, options)


def tags(preset: str, seed: int, numbers: Mapping[str, Any]) -> list[Request]:
    """16_stackoverflow_lr. Numbers: those of ``stackoverflow``, clients, words, cap."""
    options = ("clients", "words", "cap")
    return stackoverflow("stackoverflow_lr", "StackOverflow LR", seed, numbers, options)


EXPERIMENTS = (
    Experiment(
        "14_shakespeare",
        {"rounds": 20, "width": 0.125, "length": 20, "eval_every": 4, "scaffold_grid": 0},
        shakespeare,
    ),
    Experiment(
        "15_stackoverflow_nwp",
        {
            "rounds": 30,
            "clients": 120,
            "clients_per_round": 5,
            "width": 0.125,
            "cap": 16,
            "eval_every": 6,
            "scaffold_grid": 0,
        },
        next_word,
    ),
    Experiment("16_stackoverflow_lr", {"rounds": 10, "clients": 120, "scaffold_grid": 0}, tags),
)
