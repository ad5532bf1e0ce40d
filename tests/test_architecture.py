"""The rules of docs/architecture.md, read from the imports; and docstrings' examples run."""

import ast
import doctest
import importlib
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "fedlib"
# Rooms from the ground up; a room is a folder, or a file of the package itself.
FLOORS = """\
errors arguments paths files process randomness losses component items clients task
models datasets partitioners papers
tasks optimizers
algorithms
engine
results figures plans
reproduction
cli notebook __main__
""".splitlines()
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms.split()}
NOTEBOOKS = {path.stem for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}


def room(module):
    """``fedlib.engine.run`` -> ``engine``."""
    return module.split(".")[1] if "." in module else ""


@cache
def modules():
    """Every module of the package and its file."""
    files = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def tree(module):
    return ast.parse(modules()[module].read_text(encoding="utf-8"))


def imports(module):
    """The modules of fedlib that a module imports, wherever in its code."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: relative import in line {node.lineno}"
            base = node.module or ""
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in modules():
                name = name.rpartition(".")[0]
            if name.startswith("fedlib") and name != module:
                yield name


def test_every_room_has_a_floor():
    assert {room(module) for module in modules()} - {""} == set(FLOOR)


def test_no_import_runs_upwards():
    pairs = [(n, imported) for n in modules() if n != "fedlib" for imported in imports(n)]
    for name, imported in pairs:
        here = room(name)
        there = room(imported)
        # `from fedlib import __version__` or a package's own root: nothing but names of the top.
        assert there, f"{name} imports the package's root; import the module that has it"
        if there == here:
            continue
        assert FLOOR[there] <= FLOOR[here], f"{name} ({here}) imports {imported}, which is above it"
        apart = FLOOR[here] in (0, FLOOR["cli"]) or FLOOR[there] < FLOOR[here]
        assert apart, f"{name} imports {imported}, of another room of its floor"


def test_there_are_no_circles():
    """A package's __init__ counts where the package is imported."""
    graph = {name: set(imports(name)) for name in modules()}
    TopologicalSorter(graph).prepare()  # a CycleError names the modules


def test_only_tasks_and_the_reproduction_read_the_papers_numbers():
    readers = {room(name) for name in modules() if "fedlib.papers" in imports(name)}
    assert readers <= {"tasks", "plans", "reproduction", "papers"}


def test_only_the_reproduction_names_a_notebook():
    for name in modules():
        if FLOOR.get(room(name), 0) >= FLOOR["reproduction"]:
            continue
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = set(re.findall(r"\b[0-9]{2}_[a-z0-9_]+", node.value)) & NOTEBOOKS
                assert not named, f"{name}, line {node.lineno}: {named}"


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_run_as_printed(name):
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.failed == 0
