"""The script for the first minutes on a GPU: its commands are understood and fit the time."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "on_gpu.sh"


def run(*words):
    environment = {**os.environ, "PYTHON": sys.executable}
    command = ["bash", str(SCRIPT), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_without_a_gpu_it_is_one_line_and_its_commands_are_understood(command, tmp_path, prepared):
    prepared("cifar10")
    done = run(str(tmp_path / "folder"))
    assert done.returncode == 2 and "torch sees no CUDA GPU here" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "folder").exists()
    few = ["--option", "clients=5", "--option", "test_clients=1"]  # the small copy has no more
    planned = run("--dry-run")
    assert (planned.returncode, planned.stderr) == (0, "")
    pairs = (line.split(": ", 1) for line in planned.stdout.splitlines())
    commands = {name: shlex.split(words) for name, words in pairs}  # behind their time limits
    assert sum(int(words[words.index("timeout") + 3]) for words in commands.values()) <= 600
    for name, words in commands.items():
        if "fedlib" in words:
            own = [*words[words.index("fedlib") + 1 :], *(few if name == "cifar10" else [])]
            status, _, error = command(*own)
            assert status == 2 and "torch sees no CUDA GPU here" in error, name
