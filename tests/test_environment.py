"""environment.yml keeps the rules under which repo2docker, and so Binder, builds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
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


JUPYTER = ["IPython", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_core", "jupyterlab"]
JUPYTER += ["nbclient", "nbformat", "papermill", "traitlets"]
WITHOUT = f"""
import sys
from importlib import metadata
known = metadata.version
def version(name):
    if name in {JUPYTER}:
        raise metadata.PackageNotFoundError(name)
    return known(name)
metadata.version = version
sys.modules.update(dict.fromkeys({JUPYTER}))
"""
README_LINES = """
import fedlib
history = fedlib.run(fedlib.load_task("synthetic"), "fedavg", rounds=2)
fedlib.plot(history)
"""


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        (README_LINES, 0, ""),
        ("from fedlib import cli\nsys.argv = ['fedlib', 'list']\ncli.main()", 0, ""),
        ("from fedlib import cli\nsys.argv = ['fedlib', 'doctor']\ncli.main()", 0, ""),
        (
            "from fedlib import cli\nsys.argv = ['fedlib', 'reproduce']\ncli.main()",
            2,
            "[notebooks]",
        ),
        ("import fedlib.notebook", 1, "pip install 'fedlib[notebooks]'"),
    ],
    ids=["readme", "list", "doctor", "reproduce", "notebook"],
)
def test_without_jupyter(code: str, status: int, said: str) -> None:
    """In a process where nothing of it is installed."""
    done = subprocess.run([sys.executable, "-c", WITHOUT + code], capture_output=True, text=True)
    assert done.returncode == status and said in done.stderr, done.stderr
    assert status != 2 or done.stderr.count("\n") == 1


def test_jupyter_is_an_extra_that_a_checkout_installs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    (lists,) = [each for each in ENVIRONMENT["dependencies"] if isinstance(each, dict)]
    assert "[dev]" in lists["pip"][-1] and "fedlib[notebooks]" in extras["dev"]
    needed = {re.split("[>=<]", each)[0] for each in project["dependencies"]}
    brought = {re.split("[>=<]", each)[0] for each in extras["notebooks"]}
    assert {"jupyterlab", "ipython", "papermill"} <= brought and not needed & brought


def test_fedlib_can_be_imported_where_a_checkout_lies(tmp_path: Path) -> None:
    """In a folder that holds a checkout named fedlib, Python sees an empty namespace there first.

    A path entry, as this package-dir has an editable install write, comes before namespaces; the
    finder that setuptools writes without it does not.
    """
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert tools["setuptools"]["package-dir"] == {"": "."}
    (tmp_path / "fedlib").symlink_to(ROOT)
    run = [sys.executable, "-c", "import fedlib; print(fedlib.load_task.__name__)"]
    there = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    answer = subprocess.run(run, capture_output=True, text=True, check=True, **there)
    assert answer.stdout == "load_task\n"
