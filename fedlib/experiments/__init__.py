"""Which runs the notebooks need: plans, as pure data.

>>> from fedlib import experiments
>>> requests = experiments.plan("23_fair_synthetic", preset="paper")
>>> requests[0].task, requests[0].algorithm, requests[0].part
('synthetic', 'fedavg', 'curves')
"""

from __future__ import annotations

from typing import Any

from fedlib.errors import unknown
from fedlib.experiments import (
    adafedadam,
    adafedadam_variants,
    delta_sgd,
    fedopt,
    fedopt_grids,
    fedopt_text,
    mime,
)
from fedlib.experiments.base import (
    Plan,
    Request,
    filled,
    grid,
    repeated,
    task_key,
    tuned,
)

__all__ = [
    "PLANS",
    "Plan",
    "Request",
    "choose",
    "filled",
    "grid",
    "plan",
    "repeated",
    "task_key",
    "tuned",
]

PLANS: dict[str, Plan] = dict(
    sorted(
        {
            **fedopt.PLANS,
            **fedopt_grids.PLANS,
            **fedopt_text.PLANS,
            **adafedadam.PLANS,
            **adafedadam_variants.PLANS,
            **mime.PLANS,
            **delta_sgd.PLANS,
        }.items()
    )
)


def plan(notebook: str, preset: str = "quick", seed: int = 0, **numbers: Any) -> list[Request]:
    """The runs that a notebook needs.

    Args:
        notebook: one of :data:`PLANS`.
        preset: ``"quick"`` takes numbers that are None or absent from ``notebooks/quick.yaml``;
            under ``"paper"`` they are the paper's own.
        seed: of tasks and runs.
        **numbers: the notebook's own parameters.

    Raises:
        Error: a notebook without a plan.
    """
    if notebook not in PLANS:
        raise unknown("notebook with a plan", notebook, PLANS)
    return PLANS[notebook](preset, seed, filled(notebook, preset, numbers))


def choose(requests: list[Request], *parts: str) -> list[Request]:
    """The requests of some parts; of all without any.

    Raises:
        Error: a part that no request has.
    """
    known = dict.fromkeys(request.part for request in requests)
    for part in parts:
        if part not in known:
            raise unknown("part of this notebook's plan", part, known)
    return [request for request in requests if not parts or request.part in parts]
