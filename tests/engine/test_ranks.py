"""One run by several processes, as torchrun starts them, is the run of as many cores."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fedlib

ROOT = Path(__file__).resolve().parents[2]
# All ways in which clients and server exchange something, and another server.
NAMES = ["fedavg", "scaffold", "mime", "mime_mvr", "fednova", "qfedavg", "adafedadam"]
NAMES += ["adaalter", "lookahead", "fedadagrad", "centralized"]

RUNS = """
import sys
import torch, fedlib
from fedlib.engine import ranks
ranks.join("cpu")
task = fedlib.load_task("synthetic", clients=12)
how = dict(rounds=3, clients_per_round=5, dtype="float32", backend=sys.argv[1])
runs = {name: fedlib.run(task, name, **how) for name in sys.argv[3:]}
if ranks.number() == 0:
    torch.save({n: (h.params, h.frame["value"].tolist()) for n, h in runs.items()}, sys.argv[2])
"""
# The command line, of which rank 1 is killed in the fourth round, and a checkpoint every round.
KILLED = """
import os, signal
from fedlib import cli
from fedlib.engine import checkpoint, training
checkpoint.SECONDS = 0.0
usual = training.Training.round
def round(self, alive, server, number):
    if number == 3 and os.environ.get("RANK") == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    return usual(self, alive, server, number)
training.Training.round = round
cli.main()
"""
TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]


def python(*words, threads=1):
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_two_ranks_are_two_cores_bit_for_bit(tmp_path):
    script = tmp_path / "runs.py"
    script.write_text(RUNS)
    done = python(*TORCHRUN, script, "auto", tmp_path / "ranks", *NAMES)
    assert done.returncode == 0, done.stderr
    done = python(script, "parallel", tmp_path / "cores", *NAMES, threads=2)
    assert done.returncode == 0, done.stderr
    ranks, cores = torch.load(tmp_path / "ranks"), torch.load(tmp_path / "cores")
    assert list(ranks) == list(cores) == NAMES
    for name, (params, values) in ranks.items():
        assert values == cores[name][1], name
        assert all(torch.equal(p, cores[name][0][n]) for n, p in params.items()), name


@pytest.mark.slow
def test_a_killed_rank_ends_all_in_a_line_and_one_process_goes_on(tmp_path):
    script, root = tmp_path / "killed.py", tmp_path / "data"
    script.write_text(KILLED)
    words = "run synthetic scaffold --rounds=6 --dtype=float64 --clients-per-round=5".split()
    words += ["--json", "--option=clients=12"]
    done = python(*TORCHRUN, script, *words, f"--data-root={root}")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("fedlib: ")]
    assert "rank" in line or "stopped after round 3" in line
    (checkpoint,) = (root / "runs" / ".checkpoints").glob("*.pt")
    one = python(script, *words, f"--data-root={root}")
    assert one.returncode == 0 and not checkpoint.exists(), one.stderr
    (path,) = (root / "runs").rglob("*.parquet")
    task = fedlib.load_task("synthetic", clients=12)
    how = {"rounds": 6, "dtype": "float64", "clients_per_round": 5}
    whole = fedlib.run(task, "scaffold", **how).frame["value"]
    stored = (
        fedlib.results.Store(root / "runs", published=[])
        .load(path.stem.split("-")[-1])
        .frame["value"]
    )
    assert (stored - whole).abs().max() < 1e-10


def test_a_process_on_its_own_is_told_what_the_backend_needs():
    with pytest.raises(fedlib.Error, match="torchrun"):
        fedlib.run(fedlib.load_task("quadratic"), "fedavg", rounds=1, backend="distributed")
