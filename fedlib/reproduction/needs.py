"""Which data sets the notebooks' runs need. Nothing is loaded to find out."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

from fedlib.datasets.catalogue import edition_for
from fedlib.plans import Request
from fedlib.tasks import defaults, load_task
from fedlib.tasks.presets import NotPrepared


def editions(asked: Mapping[str, Sequence[Request]], preset: str) -> dict[str, list[str]]:
    """The editions that runs need, each with the notebooks that need it.

    Each task says which data sets would serve when it is loaded where none are; of these the one
    that :func:`fedlib.datasets.catalogue.edition_for` says is taken.

    Args:
        asked: requests by notebook, as :func:`fedlib.plans.by_notebook` gives them.
        preset: theirs.
    """
    needed: dict[str, list[str]] = {}
    tasks: dict[str, str | None] = {}  # by a key of the request: the edition's name
    with tempfile.TemporaryDirectory() as nowhere:
        for notebook, requests in asked.items():
            for request in requests:
                key = request.task_key(preset)
                if key not in tasks:
                    tasks[key] = _edition(request, preset, nowhere)
                name = tasks[key]
                if name and notebook not in needed.setdefault(name, []):
                    needed[name].append(notebook)
    return needed


def _edition(request: Request, preset: str, nowhere: str) -> str | None:
    """The edition that a request's task needs; None: its data come with fedlib, or are made."""
    if "data" not in defaults(request.task):
        return None
    try:
        load_task(request.task, data_root=nowhere, **request.task_options(preset))
    except NotPrepared as missing:
        found = edition_for(preset, missing.names)
        return found.name if found else None
    return None
