"""The folders of data, stored runs and figures, and fedlib's own data files."""

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
    """The nearest folder at or above the working directory that has a fedlib checkout.

    Notebooks run in ``notebooks/`` and commands in the root, and both must find the same store.
    Outside a checkout it is the working directory.
    """
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file() and (folder / "fedlib").is_dir():
            return folder
    return here


def data_root(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder of data and stored runs: ``path``, else ``FEDLIB_DATA``, else ``data/``.

    Raises:
        Error: the path is not a folder and cannot become one.
    """
    return folder(path or os.environ.get("FEDLIB_DATA") or project_root() / "data")


def figures_root(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder of figures: ``path``, else ``FEDLIB_FIGURES``, else ``figures/``.

    Raises:
        Error: see :func:`data_root`.
    """
    return folder(path or os.environ.get("FEDLIB_FIGURES") or project_root() / "figures")


def preset_figures(preset: str) -> Path:
    """The folder of figures of a preset's runs: ``FEDLIB_FIGURES``, else ``figures/<preset>/``.

    So no run replaces a published picture, which is in ``figures/`` itself, or another preset's.

    Raises:
        Error: see :func:`data_root`.
    """
    named = os.environ.get("FEDLIB_FIGURES")
    return figures_root() if named else figures_root(figures_root() / preset)


def folder(path: str | os.PathLike[str]) -> Path:
    """A folder that exists or can be made.

    Raises:
        Error: see :func:`data_root`.
    """
    place = Path(os.path.expanduser(path))  # as no shell expands paths in .env files
    try:
        if not stat.S_ISDIR(place.stat().st_mode):
            raise Error(f"cannot read or write in {place}: it is not a folder. Give another")
    except FileNotFoundError:
        if place.is_symlink():
            raise Error(f"cannot write in {place}: it links to nothing. Give another") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, Error):
            raise
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise Error(f"cannot write in {place}: {why}. Give another folder") from None
    return place
