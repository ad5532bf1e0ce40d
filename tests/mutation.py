"""Mutants of the code that computes, and whether a test notices. Run by hand:

    python -m tests.mutation --count 200 --seed 0

A mutant is one small change: of an operator, a comparison, a number or a condition, or a term
left out. It is made in a temporary copy of the tree, and killed if a test that can see its file
fails or does not end. Those alive are printed last: a test is missing, or they change nothing.
"""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = {
    "fedlib/partitioners": ["tests/partitioners"],
    "fedlib/optimizers": ["tests/optimizers", "tests/algorithms"],
    "fedlib/algorithms": ["tests/algorithms", "tests/optimizers"],
    "fedlib/engine": ["tests/engine", "tests/algorithms", "tests/models", "tests/test_bring.py"],
}
# The engine's core is what computes: not what reads and writes files, or words messages.
ASIDE = {"__init__", "checkpoint", "history", "config", "device"}
OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot,
    ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def nodes(node):
    """All below ``node`` that computes: no annotations, decorators, assertions, messages."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, (ast.Raise, ast.Assert)):
                    yield from nodes(child)


def changes(node):
    """(what it is, the field, its new value) for every mutant of one node."""
    match node:
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in OTHER:
            yield f"{type(op).__name__} is {OTHER[type(op)].__name__}", "op", OTHER[type(op)]()
        case ast.Compare(ops=[op, *rest]) if type(op) in OTHER:
            other = OTHER[type(op)]
            yield f"{type(op).__name__} is {other.__name__}", "ops", [other(), *rest]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield f"not {ast.unparse(test)}", "test", ast.UnaryOp(ast.Not(), test)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield f"+{ast.unparse(operand)}", "op", ast.UAdd()
        case ast.Constant(value=bool() as value):
            yield f"{value} is {not value}", "value", not value
        case ast.Constant(value=int() | float() as value):
            yield f"{value} is {value + 1}", "value", value + 1
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        yield f"no {ast.unparse(node.left)}", "left", ast.Constant(0)
        yield f"no {ast.unparse(node.right)}", "right", ast.Constant(0)


def mutants(path):
    """(what it is, the changed source) for every mutant of a file, in order."""
    tree, found = ast.parse((ROOT / path).read_text()), []
    for node in nodes(tree):
        for what, name, value in changes(node):
            before = getattr(node, name)
            setattr(node, name, value)
            changed = ast.unparse(ast.fix_missing_locations(tree))
            found.append((f"{path}:{getattr(node, 'lineno', 0)}: {what}", changed))
            setattr(node, name, before)
    return found


def passes(tree, tests, seconds):
    """Whether the tests of a copy of the tree pass in time."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    own = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=own, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    if done.returncode in (4, 5):  # no tests were run
        raise SystemExit(done.stderr.decode() or done.stdout.decode())
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description="Mutants, and whether a test notices.")
    parser.add_argument("--count", type=int, default=200, help="mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--only", default="", help="part of the paths of the files to change")
    given = parser.parse_args()
    every = []
    for folder in TESTS:
        for full in sorted((ROOT / folder).glob("*.py")):
            path = full.relative_to(ROOT)
            if given.only in str(path) and path.stem not in ASIDE:
                every += [(folder, path, *mutant) for mutant in mutants(path)]
    chosen = random.Random(given.seed).sample(every, min(given.count, len(every)))
    alive, limits = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary)
        for name in ("fedlib", "tests", "benchmarks"):
            shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", tree)
        for folder in sorted({folder for folder, *_ in chosen}):
            start = time.monotonic()
            if not passes(tree, TESTS[folder], 7200):
                raise SystemExit(f"the tests of {folder} fail without any change")
            limits[folder] = 60 + 3 * (time.monotonic() - start)
        for folder, path, what, changed in chosen:
            same = f"{TESTS[folder][0]}/test_{path.stem}.py"
            first = [same] if (ROOT / same).exists() else []
            (tree / path).write_text(changed)
            survived = passes(tree, [*first, *TESTS[folder]], limits[folder])
            shutil.copy(ROOT / path, tree / path)
            print("ALIVE " if survived else "killed", what, flush=True)
            alive += [what] if survived else []
    print(f"\nkilled {len(chosen) - len(alive)} of {len(chosen)}, alive:", *alive, sep="\n")


if __name__ == "__main__":
    main()
