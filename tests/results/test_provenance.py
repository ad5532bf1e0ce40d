"""Each published run is of a commit of this history, and of nothing beside it."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from fedlib.results.files import open_runs, run_files

ROOT = Path(__file__).resolve().parents[2]


def git(*words):
    try:
        return subprocess.check_output(["git", "-C", str(ROOT), *words], text=True).strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no checkout by git here, so no history")


def test_published_runs_are_of_commits_of_this_history():
    if Path(git("rev-parse", "--show-toplevel")).resolve() != ROOT:
        pytest.skip("no checkout of its own here, so no history")
    if git("rev-parse", "--is-shallow-repository") == "true":
        pytest.skip("a shallow clone has not all of the history: git fetch --unshallow")
    history, problems, runs = set(git("rev-list", "HEAD").splitlines()), Counter(), 0
    for path in run_files(ROOT / "data" / "results"):
        for run in open_runs(path).values():
            known, runs = run.meta.get("git"), runs + 1
            if not known or known["dirty"] or known["commit"] not in history:
                problems[path.stem] += 1
    assert runs > 1000 and not problems
