"""Runs that were trained together are stored together, whenever the process is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedlib import files
from fedlib.results import promises

KILLED = """
import os, sys
from pathlib import Path
from fedlib import files
from fedlib.results import promises

root, moment = Path(sys.argv[1]), sys.argv[2]
moves = {}
for name in ("one", "two"):
    path = root / "task" / name
    aside = files.beside(path)
    aside.mkdir(parents=True)
    (aside / "file").write_text(f"new {name}")
    moves[aside] = path
if moment == "before the promise":
    os.rename = lambda *_: os._exit(9)
with promises.promised(root, moves):
    (first, path), *_ = moves.items()
    if moment == "between the two":
        files.install(first, path)
    os._exit(9)
"""


def contents(root: Path) -> dict[str, str]:
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}


@pytest.mark.parametrize("moment", ["before the promise", "before the first", "between the two"])
def test_what_a_killed_process_promised_is_done_by_the_next(tmp_path: Path, moment: str) -> None:
    (tmp_path / "task" / "two").mkdir(parents=True)
    (tmp_path / "task" / "two" / "file").write_text("old two")
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), moment])
    assert killed.returncode == 9
    promises.keep(tmp_path)
    files.clean(tmp_path / "task")
    if moment == "before the promise":  # all are as they were
        assert contents(tmp_path) == {"task/two/file": "old two"}
    else:
        assert contents(tmp_path) == {"task/one/file": "new one", "task/two/file": "new two"}


def test_the_promise_of_a_living_process_is_its_own(tmp_path: Path) -> None:
    path = tmp_path / "task" / "one"
    aside = files.beside(path)
    aside.mkdir(parents=True)
    with promises.promised(tmp_path, {aside: path}):
        promises.keep(tmp_path)
        assert aside.is_dir() and not path.exists()
    assert os.listdir(tmp_path) == ["task"]
