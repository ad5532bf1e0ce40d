"""The script for a lease of a GPU: its commands are understood, and each fits ten minutes."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks import __main__

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
def test_its_commands_are_understood_and_fit_ten_minutes(command, monkeypatch, prepared):
    """On a CPU: sweeps are counted, runs trained for two rounds, one small workload is timed."""
    prepared("cifar10")
    # The small copy has few images; a narrow network is quick.
    few = ["--rounds", "2", "--option", "clients=5", "--option", "test_clients=1"]
    few += ["--option", "width=0.05", "--clients-per-round", "2"]
    commands, limits = planned()
    assert list(commands) == ORDER and max(limits) <= 600
    for name, words in commands.items():
        if "fedlib" in words:
            own = words[words.index("fedlib") + 1 :]
            status, _, error = command(*own, *(few if own[0] == "run" else []))
            assert status == 2 and "torch sees no CUDA GPU here" in error, name
            own[own.index("cuda")] = "cpu"
            if own[0] == "sweep":
                assert command.json(*own, "--dry-run")["missing"] in (5, 24), name
            elif name == "tf32":
                assert "needs a CUDA device" in command(*own, *few)[2]
            else:
                assert command.json(*own, *few)["rounds"] == 2, name
    own = [word for word in commands["rows_8"][3:] if word not in ("W2", "W5")]  # the long ones
    own[own.index("cuda")] = "cpu"
    monkeypatch.setattr(sys, "argv", ["benchmarks", *own, "--repeats", "1", "--clients", "2"])
    assert __main__.main() == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA GPU")
def test_without_a_gpu_it_is_one_line(tmp_path):
    done = run(str(tmp_path / "folder"))
    assert done.returncode == 2 and "torch sees no CUDA GPU here" in done.stderr
    assert done.stderr.count("\n") == 1 and not (tmp_path / "folder").exists()
