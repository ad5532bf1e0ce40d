"""Client learning-rate schedules: a factor on ``client_lr`` for each round."""

from __future__ import annotations

from collections.abc import Callable

from fedlib.errors import require_known

Schedule = Callable[[int, int], float]


def constant(round: int, rounds: int) -> float:
    """1 in every round: the setting of FedOpt's main results."""
    return 1.0


def exp_decay(round: int, rounds: int) -> float:
    """0.1 ** (round // 500), ``round`` from 0: ExpDecay of FedOpt section E.6 (Table 11)."""
    return 0.1 ** (round // 500)


def exp_decay_thirds(round: int, rounds: int) -> float:
    """0.1 after a third of the ``rounds``, 0.01 after two: ExpDecay of 1500 rounds, scaled."""
    return 0.1 ** (3 * round // rounds)


def step_decay(round: int, rounds: int) -> float:
    """Divided by 10 after 50 % and again after 75 % of the ``rounds`` (Delta-SGD's baselines).

    That is, from round 0.5 * ``rounds`` on, counted from 0. The authors' code begins one round
    later.
    """
    return 0.1 ** ((round >= 0.5 * rounds) + (round >= 0.75 * rounds))


SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "exp_decay": exp_decay,
    "exp_decay_thirds": exp_decay_thirds,
    "step_decay": step_decay,
}


def check_schedule(name: str) -> None:
    """Raise :class:`fedlib.Error` for a schedule that does not exist."""
    require_known("client_schedule", name, SCHEDULES)
