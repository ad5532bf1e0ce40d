"""``fedlib sweep``: what is missing is computed once, and shared out."""

from __future__ import annotations

import json
import shlex
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedlib import engine, paths
from fedlib.engine.checkpoint import file_stem
from fedlib.reproduction import sweep
from fedlib.reproduction.request import Request
from fedlib.results import Store
from fedlib.tasks import load_task

Command = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.usefixtures("small_plans")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAdam cannot be trained here."""
    plain = engine.execute

    def fail(program: Any, **execution: Any) -> Any:
        if program[0][0].algorithm == "fedadam":
            raise RuntimeError("out of memory\non this machine")
        return plain(program, **execution)

    monkeypatch.setattr(engine, "execute", fail)


WORDS = ["sweep", "23_fair_synthetic", "-p", "rounds=2"]


def test_a_sweep_trains_what_is_missing_and_then_nothing(
    command: Command, own_folders: Path, no_training: Callable[[], None]
) -> None:
    status, out, _ = command(*WORDS, "--dry-run", "--json")
    count = json.loads(out)
    assert status == 0 and not list(own_folders.rglob("history.csv"))
    assert (count["runs"], count["missing"], count["programs_missing"]) == (4, 4, 3)
    status, out, _ = command(*WORDS, "--part", "mu", "--json")
    assert status == 0 and json.loads(out)["stored"] == 2
    status, out, err = command(*WORDS)
    assert status == 0 and out.splitlines()[-1].split() == ["all", "3", "0", "4", "4", "0"]
    assert "Traceback" not in err
    store = Store(own_folders / "data" / "runs")
    assert sorted(run.config.algorithm for run in store.stored()) == [
        *("fedadam", "fedavg", "fedprox", "fedprox")
    ]
    assert {run.config.rounds for run in store.stored()} == {2}
    no_training()
    (alone,) = (r.config.digest for r in store.stored() if r.config.algorithm == "fedadam")
    left = store.checkpoints / f"{file_stem([alone])}.pt"
    left.parent.mkdir()
    left.write_bytes(b"of a process that was killed when its run was stored")
    assert command(*WORDS)[0] == 0 and not left.parent.exists()


def test_runs_that_notebooks_share_count_once(command: Command) -> None:
    status, out, _ = command("sweep", "--dry-run", "--json")
    assert status == 0 and json.loads(out)["runs"] == 4
    status, out, _ = command("sweep", "10", "23", "--seed", "3", "--dry-run", "--json")
    assert status == 0 and json.loads(out)["runs"] == 4


def test_shards_share_the_programs_out(command: Command, own_folders: Path) -> None:
    counts = []
    for number in (1, 2):
        status, out, _ = command(*WORDS, "--shard", f"{number}/2", "--json")
        assert status == 0
        counts.append(json.loads(out))
    assert [count["programs"] for count in counts] == [2, 1]
    assert sum(count["runs"] for count in counts) == 4
    assert len(Store(own_folders / "data" / "runs").stored()) == 4


def test_a_program_that_fails_does_not_stop_the_others(
    command: Command, broken: None, own_folders: Path
) -> None:
    status, out, err = command(*WORDS, "--json")
    assert status == 1 and "Traceback" not in err
    count = json.loads(out)
    assert count["missing"] == 1
    assert count["failed"] == ["fedadam on synthetic: out of memory on this machine"]
    assert "1 programs failed" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("a_round", "rounds", "seconds"), [(3.0, [1], (4.0, 3.0, 0.5)), (0.5, [1, 6], (1.5, 0.1, 0.25))]
)
def test_an_estimate_times_a_round_or_several_where_they_are_short(
    monkeypatch: pytest.MonkeyPatch, a_round: float, rounds: list[int], seconds: Any
) -> None:
    clock, trained = 0.0, []

    def answer(store: Any, requests: Any, *_: Any, **__: Any) -> list[Any]:
        """The first round takes a_round, others 0.1; the evaluation less once memory is there."""
        nonlocal clock
        number, every = requests[0].rounds, requests[0].eval_every
        assert number == every
        spent, evaluation = a_round + 0.1 * (number - 1), 0.5 / min(2, number)
        clock += (spent + evaluation) + (4.0 if a_round > 1 else 1.5)  # and the rest
        trained.append(number)
        parts = [3, 3, 3, 1]  # three runs that trained together, and one alone
        meta = {"seconds": (spent + evaluation) / 2, "seconds_per_round": spent / number / 2}
        return [types.SimpleNamespace(meta={**meta, "configurations": part}) for part in parts]

    monkeypatch.setattr(sweep, "answer", answer)
    monkeypatch.setattr(sweep.time, "perf_counter", lambda: clock)
    request = Request("synthetic", "fedavg", "curves", {}, rounds=100, eval_every=7)
    assert sweep._timed([request] * 4, "quick", load_task) == pytest.approx(seconds)
    assert trained == rounds


def test_an_estimate_adds_up_what_rounds_and_evaluations_take(
    command: Command, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed: list[tuple[str, int]] = []

    def seconds(requests: Any, *_: Any, **__: Any) -> tuple[float, float, float]:
        timed.append((requests[0].algorithm, len(requests)))
        return 10.0, 1.0, 0.5

    monkeypatch.setattr(sweep, "_timed", seconds)
    status, out, _ = command("sweep", "23", "10", "--seed", "0", "--estimate", "--json")
    # Two curves of 100 rounds, all evaluated; a grid of two rows as one program, evaluated once.
    one = (2 * (10 + 100 + 50) + 10 + 100 + 0.5) / 3600
    hours = json.loads(out)
    assert status == 0 and hours == pytest.approx(
        {"10_other": one, "23_fair_synthetic": one, "all": 2 * one}
    )
    assert timed[:3] == [("fedavg", 1), ("fedadam", 1), ("fedprox", 2)]
    assert not list(own_folders.rglob("history.csv"))
    assert command(*WORDS)[0] == 0
    status, out, _ = command(*WORDS, "--estimate", "--json")
    assert json.loads(out)["all"] == 0


MISTAKES = [
    (["sweep", "99_nothing"], "unknown notebook with a plan '99_nothing'"),
    (["sweep", "--preset", "fast"], "unknown preset 'fast'"),
    (["sweep", "--seed", "-1"], "seed is -1"),
    (["sweep", "--shard", "3/2"], "--shard is '3/2'; allowed: I/N"),
    (["sweep", "--shard", "0/2"], "--shard is '0/2'"),
    (["sweep", "--shard", "x"], "--shard is 'x'"),
    (["sweep", "--executor", "slrm"], "unknown executor 'slrm': did you mean 'slurm'"),
    (["sweep", "--executor", "slurm", "--shard", "1/2"], "do not go together"),
    (["sweep", "--executor", "slurm", "--jobs", "0"], "--jobs is 0"),
    (["sweep", "--executor", "slurm", "--slurm", "array=1-9"], "--slurm array is set by fedlib"),
    (["sweep", "--executor", "slurm", "--slurm", "p=gpu"], "--slurm is 'p=gpu'; allowed"),
    (["sweep", "--executor", "slurm", "--slurm", "mem="], "--slurm is 'mem='; allowed"),
    (["sweep", "--executor", "slurm", "--slurm", "mem=1\n2"], "allowed: KEY=VALUE"),
    (["sweep", "--executor", "slurm", "--slurm", "mem"], "is not KEY=VALUE"),
    (["sweep", "--slurm", "mem=1G"], "belong to --executor slurm"),
    (["sweep", "--jobs", "4"], "belong to --executor slurm"),
    (["sweep", "--status", "--dry-run"], "do not go together"),
    (["sweep", "--estimate", "--status"], "do not go together"),
    (["sweep", "--estimate", "--shard", "1/2"], "without --shard"),
    (["sweep", "--part", "curve"], "did you mean 'curves'"),
    (["sweep", "23", "-p", "ronds=3"], "did you mean 'rounds'"),
    (["sweep", "23", "-p", "rounds"], "is not KEY=VALUE"),
]


@pytest.mark.parametrize(
    ("words", "message"), MISTAKES, ids=lambda v: v if isinstance(v, str) else " ".join(v)
)
def test_mistakes_exit_2_with_one_line(
    command: Command,
    own_folders: Path,
    words: list[str],
    message: str,
) -> None:
    status, _, err = command(*words)
    assert status == 2
    assert message in err and err.count("\n") == 1 and "Traceback" not in err
    assert not list(own_folders.rglob("history.csv"))


@pytest.fixture
def cluster(own_folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with stand-ins for Slurm's programs: each prints a file, sbatch keeps its script.

    tests/test_slurm.py has the real ones.
    """
    folder = own_folders / "cluster"
    folder.mkdir()
    (folder / "sbatch.out").write_text("101;hpc\n")
    for name in ("sbatch", "squeue", "sacct"):
        (folder / name).write_text(
            f"#!/bin/sh\nPATH=/usr/bin:/bin\ncd {folder}\ntest {name} != sbatch || cat > job.sh\n"
            f"cat {name}.out 2>/dev/null && exit\ncat {name}.err >&2; exit 1\n"
        )
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))  # a real Slurm stays out of it
    return folder


SLURM = ["--executor", "slurm", "--jobs", "2", "--slurm", "partition=gpu", "--slurm=time=01:00:00"]


def test_slurm_gets_an_array_with_a_job_per_shard(
    command: Command, cluster: Path, own_folders: Path
) -> None:
    logs = own_folders / "data" / "runs" / ".slurm"
    status, script, _ = command(*WORDS, *SLURM, "--slurm", "exclusive=true", "--dry-run")
    assert status == 0 and not logs.exists() and not (cluster / "job.sh").exists()
    lines = script.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert {line.removeprefix("#SBATCH --") for line in lines if "#SBATCH" in line} == {
        *("job-name=fedlib-sweep", "requeue", "partition=gpu", "time=01:00:00", "exclusive"),
        *("array=1-2", f"chdir={paths.project_root()}", f"output={logs}/%A_%a.log"),
        "open-mode=append",
    }
    words = shlex.split(lines[-1])
    assert words[:4] == ["exec", sys.executable, "-m", "fedlib"]
    assert words[-2:] == ["--shard", "$SLURM_ARRAY_TASK_ID/2"]
    status, out, _ = command(*words[4:-2], "--shard", "1/1", "--dry-run", "--json")
    assert status == 0 and json.loads(out)["missing"] == 4

    status, out, _ = command(*WORDS, *SLURM)
    assert status == 0 and "job 101 submitted: an array of 2 for 4 runs" in out
    assert "--array=1-2" in (cluster / "job.sh").read_text()
    status, out, _ = command(*WORDS, "--executor", "slurm", "--jobs", "20", "--json")
    assert json.loads(out)["jobs"] == 3, "no more jobs than programs"
    assert not list(own_folders.rglob("history.csv"))
    assert command(*WORDS)[0] == 0
    assert command(*WORDS, *SLURM)[1] == "nothing to submit: no run is missing\n"


def test_status_says_what_is_done_running_and_failed(command: Command, cluster: Path) -> None:
    def status() -> tuple[dict[str, int], list[str], str]:
        code, out, err = command(*WORDS, "--status", "--json")
        count = json.loads(out)
        assert code == 0 and "Traceback" not in err
        jobs = count.pop("jobs")
        return count, [f"{job['shard']} {job['state']}" for job in jobs], err

    count, jobs, _ = status()
    assert (count["runs"], count["missing"], count["failed"], jobs) == (4, 4, 0, [])
    assert command(*WORDS, *SLURM)[0] == 0
    (cluster / "squeue.out").write_text("101_1 RUNNING\n101_2 PENDING\n7 RUNNING\n")
    count, jobs, _ = status()
    assert jobs == ["1/2 running", "2/2 waiting"]
    assert (count["running"], count["waiting"], count["failed"]) == (3, 1, 0)
    assert command(*WORDS, "--shard", "2/2")[0] == 0
    (cluster / "squeue.out").write_text("101_1 OUT_OF_MEMORY\n101_2 COMPLETED\n")
    count, jobs, _ = status()
    assert jobs == ["1/2 failed", "2/2 done"]
    assert (count["stored"], count["missing"], count["failed"]) == (1, 3, 3)
    (cluster / "squeue.out").write_text("")
    (cluster / "sacct.out").write_text("101_1|CANCELLED by 0\n101_2|COMPLETED\n")
    out = command(*WORDS, "--status")[1]
    assert "CANCELLED" in out and "101_1.log" in out
    (cluster / "sbatch.out").write_text("102\n")
    assert command(*WORDS, *SLURM)[0] == 0
    (cluster / "squeue.out").write_text("102_1 RUNNING\n102_2 RUNNING\n")
    assert status()[1] == ["1/2 running", "2/2 running"], "the last jobs count"
    (cluster / "squeue").unlink()
    count, jobs, err = status()
    assert jobs == ["1/2 unknown", "2/2 done"] and count["unknown"] == 3
    assert "Slurm does not answer" in err and err.count("\n") == 1
    assert command(*WORDS)[0] == 0
    assert status()[0]["missing"] == 0


REFUSALS = [
    (
        "sbatch: error: invalid partition specified: gpu\n"
        "sbatch: error: Batch job submission failed: Invalid partition name specified\n",
        *(2, "specified: gpu; Batch job submission failed: Invalid partition"),
    ),
    (
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller\n",
        *(1, "Unable to contact"),
    ),
    ("", 2, "sbatch says nothing"),
]


@pytest.mark.parametrize(("said", "status", "told"), REFUSALS)
def test_what_slurm_refuses_is_one_line(
    command: Command, cluster: Path, said: str, status: int, told: str
) -> None:
    (cluster / "sbatch.out").unlink()
    (cluster / "sbatch.err").write_text(said)
    code, _, err = command(*WORDS, *SLURM)
    assert code == status and err.startswith("fedlib: Slurm did not take the jobs: ")
    assert told in err and err.count("\n") == 1 and "sbatch: error" not in err


def test_without_slurm_and_with_a_broken_note_there_is_one_line(
    command: Command, cluster: Path, own_folders: Path
) -> None:
    (cluster / "sbatch").unlink()
    code, _, err = command(*WORDS, *SLURM)
    assert code == 1 and "no sbatch here that answers" in err and err.count("\n") == 1
    note = own_folders / "data" / "runs" / ".slurm" / "9.json"
    note.write_text("{")
    code, _, err = command(*WORDS, "--status")
    assert code == 2 and str(note) in err and err.count("\n") == 1
