"""Which runs the notebooks need, as pure data.

>>> from fedlib.reproduction import experiments
>>> requests = experiments.plan("23_fair_synthetic", preset="paper")
>>> requests[0].task, requests[0].algorithm, requests[0].part
('synthetic', 'fedavg', 'curves')
"""

from __future__ import annotations

from typing import Any

from fedlib import plans
from fedlib.errors import Error
from fedlib.reproduction.delta_sgd import runs as delta_sgd
from fedlib.reproduction.mime import runs as mime
from fedlib.reproduction.request import Experiment, Numbers, Request

select = plans.select

EXPERIMENTS: dict[str, Experiment] = {
    experiment.notebook: experiment
    for experiment in sorted(
        (
            *mime.EXPERIMENTS,
            *delta_sgd.EXPERIMENTS,
        ),
        key=lambda experiment: experiment.notebook,
    )
}


def planned() -> list[str]:
    """The notebooks whose runs are planned here."""
    old = [name for name, experiment in EXPERIMENTS.items() if experiment.requests]
    try:
        return sorted({*old, *plans.planned()})
    except Error:  # not in a checkout
        return old


def plan(notebook: str, preset: str = "quick", seed: int = 0, **numbers: Any) -> list[Request]:
    """The runs that a notebook needs.

    Args:
        notebook: one of :func:`planned`.
        preset: under ``"quick"`` and ``"laptop"`` numbers that are None or absent are the
            notebook's for these, under ``"paper"`` the paper's own.
        seed: of tasks and runs.
        **numbers: the notebook's own parameters.

    Raises:
        Error: a notebook without a plan.
    """
    experiment = EXPERIMENTS.get(notebook)
    if experiment is None or experiment.requests is None:
        return plans.requests(notebook, preset, seed, **numbers)
    return experiment.requests(preset, seed, filled(notebook, preset, numbers))


def filled(notebook: str, preset: str, numbers: Numbers) -> dict[str, Any]:
    """A notebook's numbers, those that are absent or None from its preset's."""
    if notebook not in EXPERIMENTS and notebook in planned():
        return vars(plans.numbers(plans.read(notebook)[0], preset, 0, numbers))
    known = preset != "paper" and notebook in EXPERIMENTS
    small: Numbers = getattr(EXPERIMENTS[notebook], preset) if known else {}
    set_here = {key: value for key, value in numbers.items() if value is not None}
    return {**dict.fromkeys(numbers), **small, **set_here}
