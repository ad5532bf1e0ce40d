"""Learning-rate schedules: a factor on ``client_lr``, or on the server's rate, for each round."""

import math
from collections.abc import Callable

from fedlib.arguments import called, shown
from fedlib.errors import Error, require_known

Schedule = Callable[[int, int], float]


def constant(round: int, rounds: int) -> float:
    """1 in every round, the setting of FedOpt's main results."""
    return 1.0


def exp_decay(round: int, rounds: int) -> float:
    """0.1 ** (round // 500), ``round`` from 0: ExpDecay of FedOpt section E.6 (Table 11)."""
    return 0.1 ** (round // 500)


def exp_decay_thirds(round: int, rounds: int) -> float:
    """0.1 after a third of the ``rounds``, 0.01 after two: ExpDecay of 1500 rounds, scaled."""
    return 0.1 ** (3 * round // rounds)


def step_decay(round: int, rounds: int) -> float:
    """Divided by 10 after 50 % and again after 75 % of the ``rounds`` (Delta-SGD's baselines).

    The factor changes from round 0.5 * ``rounds`` on, counted from 0. In the authors' code it
    changes one round later.
    """
    return 0.1 ** ((round >= 0.5 * rounds) + (round >= 0.75 * rounds))


SCHEDULES: dict[str, Schedule] = {
    "constant": constant,
    "exp_decay": exp_decay,
    "exp_decay_thirds": exp_decay_thirds,
    "step_decay": step_decay,
}


def require_schedule(field: str, schedule: str | Schedule) -> None:
    """Require a schedule by name, or a function (round, rounds) -> factor."""
    if isinstance(schedule, str):
        require_known(field, schedule, SCHEDULES)


def factor(schedule: str | Schedule, round: int, rounds: int) -> float:
    """The factor of a round, from 0, of ``rounds``.

    Raises:
        Error: the user's function fails, gives no finite number >= 0, or gives a different number
            when it is called again.
    """
    if isinstance(schedule, str):
        return SCHEDULES[schedule](round, rounds)
    what = f"schedule {getattr(schedule, '__name__', schedule)}({round}, {rounds})"
    value, again = (called(what, schedule, round, rounds) for _ in range(2))
    number: float = called(what, float, value)
    if not 0 <= number < math.inf:
        raise Error(f"{what} gives {shown(value)}, but must give a finite factor >= 0")
    if number != called(what, float, again):
        raise Error(f"{what} gives another factor when it is called again: use the round alone")
    return number
