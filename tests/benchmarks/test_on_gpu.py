"""The script for a lease of a GPU: its commands are understood, and each fits ten minutes."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "on_gpu.sh"
ORDER = ["tests", "cifar10", "fedadam_beta2", "fedyogi_beta2", "tf32"]
ORDER += [*(f"rows_{count}" for count in (1, 8, 32, 72)), "delta_sgd"]


def run(*words, **variables):
    environment = {**os.environ, "PYTHON": sys.executable, **variables}
    command = ["bash", str(SCRIPT), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def planned(*words):
    """The words of every step behind its limit, and the limits."""
    done = run("--dry-run", *words)
    assert (done.returncode, done.stderr) == (0, "")
    pairs = (line.split(": ", 1) for line in done.stdout.splitlines())
    commands = {name: shlex.split(text) for name, text in pairs}
    return {name: words[4:] for name, words in commands.items()}, [
        int(words[3]) for words in commands.values()
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_its_commands_are_understood_and_fit_ten_minutes(command, prepared):
    """Here they get as far as the GPU that is not there; what else a sweep would do is counted."""
    prepared("cifar10")
    commands, limits = planned()
    assert list(commands) == ORDER and max(limits) <= 600
    for name, words in commands.items():
        if "fedlib" in words:
            own = words[words.index("fedlib") + 1 :]
            status, _, error = command(*own)
            assert status == 2 and "torch sees no CUDA GPU here" in error, name
            own[own.index("cuda")] = "cpu"
            if own[0] == "sweep":
                assert command.json(*own, "--dry-run")["missing"] in (5, 24), name


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_without_a_gpu_it_is_one_line(tmp_path):
    done = run(str(tmp_path / "folder"))
    assert done.returncode == 2 and "torch sees no CUDA GPU here" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "folder").exists()
