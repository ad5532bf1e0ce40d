"""The script for the first minutes on a GPU: its commands, and that it goes on where it stopped."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "on_gpu.sh"
STEPS = ["tests", "benchmark", "convolutions", "cifar10"]
# Notes what it is called with, and fails for a word in the file "broken".
STUB = """#!/usr/bin/env bash
[ "$1" = -c ] && exit 0
echo "$*" >>"$(dirname "$0")/calls"
for word in $(cat "$(dirname "$0")/broken"); do [[ " $* " == *" $word "* ]] && exit 3; done
exit 0
"""


def run(*words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(SCRIPT), *words],
        env={**os.environ, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )


def planned() -> dict[str, list[str]]:
    """The command of each step, behind its time limit."""
    done = run("--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    pairs = (line.split(": ", 1) for line in done.stdout.splitlines())
    return {name: shlex.split(command) for name, command in pairs}


def test_it_says_what_it_would_do_in_ten_minutes() -> None:
    commands = planned()
    assert list(commands) == STEPS
    assert all(words[0] == "timeout" and words[4] == sys.executable for words in commands.values())
    assert sum(int(words[3]) for words in commands.values()) <= 600
    assert not subprocess.run(["bash", "-n", str(SCRIPT)], check=False).returncode


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_without_a_gpu_it_is_one_line_and_its_commands_are_understood(
    command: Callable[..., tuple[int, str, str]], tmp_path: Path, prepared: Callable[..., None]
) -> None:
    prepared("cifar10")
    done = run(str(tmp_path / "folder"))
    assert done.returncode == 2 and "torch sees no CUDA GPU here" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "folder").exists()
    few = ["--option", "clients=5", "--option", "test_clients=1"]  # the small copy has no more
    for name, words in planned().items():
        if "fedlib" in words:
            own = [*words[words.index("fedlib") + 1 :], *(few if name == "cifar10" else [])]
            status, _, error = command(*own)
            assert status == 2 and "torch sees no CUDA GPU here" in error, name


def test_what_is_done_is_not_done_again_and_what_failed_is(tmp_path: Path) -> None:
    stub, folder = tmp_path / "python", tmp_path / "folder"
    stub.write_text(STUB)
    stub.chmod(0o755)
    (tmp_path / "broken").write_text("benchmarks")
    assert run(str(folder), python=str(stub)).returncode == 1  # and the others are done anyway
    assert len((tmp_path / "calls").read_text().splitlines()) == len(STEPS)
    (tmp_path / "calls").unlink()
    (tmp_path / "broken").write_text("")
    again = run(str(folder), python=str(stub))
    assert again.returncode == 0 and again.stdout.count("done before") == 2
    calls = (tmp_path / "calls").read_text().splitlines()
    assert [call.split()[1] for call in calls] == ["benchmarks", "benchmarks"]
    assert {path.stem for path in folder.glob("*.done")} == set(STEPS)
