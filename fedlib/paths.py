"""Where fedlib keeps data, stored runs, figures, and what it declares in files."""

from __future__ import annotations

import os
import stat
import tomllib
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedlib.errors import Error


def read_toml(name: str) -> dict[str, Any]:
    """A TOML file of the package, for instance ``"tasks/small.toml"``, as a fresh dict."""
    return deepcopy(_parsed(name))


@cache
def _parsed(name: str) -> dict[str, Any]:
    return tomllib.loads(files("fedlib").joinpath(name).read_text("utf-8"))


def project_root() -> Path:
    """The nearest folder at or above the working directory that holds a fedlib checkout.

    Notebooks run in ``notebooks/`` and commands in the root; both must find the same store. Outside
    a checkout the working directory itself is used.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file() and (folder / "fedlib").is_dir():
            return folder
    return here


def data_root(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder of data and stored runs: ``path``, else ``FEDLIB_DATA``, else ``data/``.

    Raises:
        Error: there is something else of that name, or nothing can have it.
    """
    return folder(path or os.environ.get("FEDLIB_DATA") or project_root() / "data")


def figures_root(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder of figures: ``path``, else ``FEDLIB_FIGURES``, else ``figures/``.

    Raises:
        Error: as :func:`data_root`.
    """
    return folder(path or os.environ.get("FEDLIB_FIGURES") or project_root() / "figures")


def notebook_figures(preset: str) -> Path:
    """The folder of figures that notebooks draw: ``FEDLIB_FIGURES``, else ``figures/``.

    Where ``figures/`` holds the published ones with their index, as in a checkout, it is
    ``figures/<preset>/`` instead: no quick run takes the place of a published picture.

    Raises:
        Error: as :func:`data_root`.
    """
    root = figures_root()
    published = not os.environ.get("FEDLIB_FIGURES") and (root / "README.md").is_file()
    return figures_root(root / preset) if published else root


def folder(path: str | os.PathLike[str]) -> Path:
    """A folder that is there, or may be made.

    Raises:
        Error: as :func:`data_root`.
    """
    place = Path(os.path.expanduser(path))  # in .env files no shell does it
    try:
        if not stat.S_ISDIR(place.stat().st_mode):
            raise Error(f"cannot write in {place}, nor read: it is not a folder; give another")
    except FileNotFoundError:
        if place.is_symlink():
            raise Error(f"cannot write in {place}: it links to nothing; give another") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, Error):
            raise
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise Error(f"cannot write in {place}: {why}; give another folder") from None
    return place
