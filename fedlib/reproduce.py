"""Run the notebooks headlessly with papermill."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import yaml

from fedlib.errors import Error, unknown
from fedlib.paths import project_root

# A cell that trains longer than this is stuck; papermill itself has no limit.
CELL_SECONDS = 6 * 3600


@dataclass(frozen=True)
class Executed:
    """One notebook's executed copy, seconds, and the error in one line if it failed."""

    name: str
    output: Path
    seconds: float
    error: str | None = None


def notebooks_folder() -> Path:
    """The folder of the notebook series.

    Raises:
        Error: there is none; the notebooks belong to a checkout, not to the installed package.
    """
    folder = project_root() / "notebooks"
    if not folder.is_dir():
        raise Error(f"no notebooks in {folder}; run this in a checkout of fedlib")
    return folder


def notebooks(names: Sequence[str] = ()) -> list[Path]:
    """The notebooks of these names (``10_cifar10``, ``10`` or a file name), or all, in order."""
    every = {path.stem: path for path in sorted(notebooks_folder().glob("[0-9][0-9]_*.ipynb"))}
    chosen = []
    for name in names:
        stem = Path(name).stem
        matches = [one for one in every if one == stem or one.split("_")[0] == stem]
        if not matches:
            raise unknown("notebook", name, every)
        chosen += matches
    return [every[stem] for stem in (sorted(set(chosen)) if names else every)]


def parameters(notebook: Path) -> dict[str, Any]:
    """The names and default values in a notebook's cell tagged ``parameters``: flat literals.

    Raises:
        Error: no such cell, or a line in it that is not ``name = literal``.
    """
    import ast

    for cell in nbformat.read(notebook, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            values = {}
            for statement in ast.parse(cell.source).body:
                try:
                    assert isinstance(statement, ast.Assign)
                    assert isinstance(statement.targets[0], ast.Name)
                    values[statement.targets[0].id] = ast.literal_eval(statement.value)
                except (AssertionError, ValueError):
                    raise Error(
                        f"{notebook.name}: line {statement.lineno} of the parameters cell is not "
                        "'name = literal'"
                    ) from None
            return values
    raise Error(f"{notebook.name}: no cell is tagged 'parameters'")


def quick_settings() -> dict[str, dict[str, Any]]:
    """``notebooks/quick.yaml``: for each notebook its small numbers."""
    path = notebooks_folder() / "quick.yaml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {name: dict(values or {}) for name, values in (settings or {}).items()}


def check_parameters(notebook: Path, given: Mapping[str, Any]) -> None:
    """Refuse a parameter that the notebook does not have; papermill itself only logs it."""
    own = parameters(notebook)
    for name in given:
        if name not in own:
            raise unknown(f"parameter of {notebook.stem}", name, own)


def reproduce(
    names: Sequence[str] = (),
    *,
    preset: str = "quick",
    given: Mapping[str, Any] | None = None,
    output: Path | None = None,
    log: bool = False,
) -> Iterator[Executed]:
    """Execute notebooks one after the other, all parameters checked before the first starts.

    Args:
        names: which; default all.
        preset: ``"quick"`` adds the numbers of ``quick.yaml``; ``"paper"`` runs at the papers'
            settings.
        given: parameters that override both.
        output: folder of the executed copies; default ``build/executed``.
        log: pass the notebooks' output on.
    """
    chosen = notebooks(names)
    output = output or project_root() / "build" / "executed"
    small = quick_settings() if preset == "quick" else {}
    jobs = []
    for notebook in chosen:
        values = {**small.get(notebook.stem, {}), "preset": preset, **(given or {})}
        check_parameters(notebook, values)
        jobs.append((notebook, values))
    output.mkdir(parents=True, exist_ok=True)
    for notebook, values in jobs:
        yield _execute(notebook, output / notebook.name, values, log)


def _execute(notebook: Path, target: Path, values: Mapping[str, Any], log: bool) -> Executed:
    import papermill
    from papermill.exceptions import PapermillExecutionError

    before = os.environ.get("FEDLIB_PRESET")
    os.environ["FEDLIB_PRESET"] = str(values["preset"])
    started, error = time.perf_counter(), None
    try:
        papermill.execute_notebook(
            str(notebook),
            str(target),
            parameters=dict(values),
            kernel_name="python3",
            cwd=str(notebook.parent),
            progress_bar=False,
            log_output=log,
            execution_timeout=CELL_SECONDS,
        )
    except PapermillExecutionError as failure:
        error = f"{failure.ename}: {failure.evalue}".strip().splitlines()[0]
    finally:
        if before is None:
            os.environ.pop("FEDLIB_PRESET")
        else:
            os.environ["FEDLIB_PRESET"] = before
    return Executed(notebook.stem, target, time.perf_counter() - started, error)
