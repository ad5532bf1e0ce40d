"""What works where nothing of Jupyter is installed, in a folder that holds a checkout."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


JUPYTER = ["IPython", "ipykernel", "ipywidgets", "jupyter_client", "jupyter_core", "jupyterlab"]
JUPYTER += ["nbclient", "nbformat", "papermill", "traitlets"]
README_LINES = """
import fedlib
from fedlib.reproduction import claims, compare
assert "matplotlib" not in sys.modules  # it is imported when it is needed
history = fedlib.run(fedlib.load_task("synthetic"), "fedavg", rounds=2)
fedlib.plot(history)
"""
COMMAND = "from fedlib import cli\nsys.argv = ['fedlib', '{}']\ncli.main()"
# What is called, with its exit status and what it says on standard error.
CALLS = [
    (README_LINES + COMMAND.format("doctor"), 0, ""),
    (COMMAND.format("list"), 0, ""),
    (COMMAND.format("reproduce"), 2, "[notebooks]"),
    ("import fedlib.notebook", 1, "pip install '.[notebooks]'"),
]
# In a process where nothing of Jupyter is installed.
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


@pytest.mark.parametrize(("code", "status", "words"), CALLS)
def test_without_jupyter_and_where_a_checkout_lies(tmp_path, code, status, words):
    """In a folder that holds a checkout named fedlib Python sees an empty namespace there first.

    A path entry, as this package-dir has an editable install write, comes before namespaces; the
    finder that setuptools writes without it does not.
    """
    assert PYPROJECT["tool"]["setuptools"]["package-dir"] == {"": "."}
    (tmp_path / "fedlib").symlink_to(ROOT)
    there = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT)}}
    run = [sys.executable, "-c", WITHOUT + code]
    done = subprocess.run(run, capture_output=True, text=True, **there)
    assert done.returncode == status and words in done.stderr
    assert status != 2 or done.stderr.count("\n") == 1
