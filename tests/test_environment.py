"""environment.yml keeps the rules under which repo2docker, and so Binder, builds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def test_nothing_takes_its_place() -> None:
    """A folder ``binder`` or a Dockerfile would be built instead."""
    assert not [name for name in ("binder", ".binder", "Dockerfile") if (ROOT / name).exists()]


def test_python_is_pinned_so_that_it_is_understood() -> None:
    """From this line repo2docker takes its base; without it, it has a version of its own."""
    (line,) = [each for each in ENVIRONMENT["dependencies"] if str(each).startswith("python")]
    assert re.fullmatch(r"python =3\.1[1-9]", line)


def test_pip_is_asked_for_and_its_files_are_there() -> None:
    """Local files make repo2docker copy the whole checkout before it installs."""
    assert "pip" in ENVIRONMENT["dependencies"]
    (lists,) = [each for each in ENVIRONMENT["dependencies"] if isinstance(each, dict)]
    constraints, package = lists["pip"]
    assert (ROOT / constraints.removeprefix("-c ")).is_file()
    extras = re.fullmatch(r"-e \.\[(.+)\]", package)
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
