"""Where fedlib keeps data, stored runs and figures."""

from __future__ import annotations

import os
from pathlib import Path


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
    """The folder of data and stored runs: ``path``, else ``FEDLIB_DATA``, else ``data/``."""
    return Path(path or os.environ.get("FEDLIB_DATA") or project_root() / "data")


def figures_root(path: str | os.PathLike[str] | None = None) -> Path:
    """The folder of figures: ``path``, else ``FEDLIB_FIGURES``, else ``figures/``."""
    return Path(path or os.environ.get("FEDLIB_FIGURES") or project_root() / "figures")
