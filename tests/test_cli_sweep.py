"""``fedlib sweep`` and ``publish``: runs are computed once, shared out, and packed."""

import itertools
import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from fedlib import engine
from fedlib.engine import checkpoint
from fedlib.reproduction import draw, sweep
from fedlib.results import Store
from tests.results.test_store import same

pytestmark = pytest.mark.usefixtures("small_plans", "committed")


@pytest.fixture
def committed(monkeypatch):
    """Runs are of a clean checkout, also while somebody changes this one."""
    git = {"commit": "a" * 40, "dirty": False}
    monkeypatch.setattr("fedlib.results.files._commit", lambda: git)


WORDS = ["sweep", "23_fair_synthetic", "-p", "rounds=2"]


def test_a_sweep_trains_what_is_missing_and_then_nothing(command, own_folders, store, no_training):
    count = command.json(*WORDS, "--dry-run")
    assert not list(own_folders.rglob("*.parquet"))
    assert (count["runs"], count["missing"], count["programs_missing"]) == (4, 4, 3)
    assert command.json(*WORDS, "--part", "mu")["stored"] == 2
    last = command.says(*WORDS).splitlines()[-1]
    assert last.split() == ["all", "3", "0", "4", "4", "0"]
    configs = [run.config for run in store.stored()]
    methods = ["fedadam", "fedavg", "fedprox", "fedprox"]
    assert sorted(config.algorithm for config in configs) == methods
    assert {config.rounds for config in configs} == {2}
    no_training()
    assert command(*WORDS)[0] == 0


def test_runs_that_notebooks_share_count_once(command):
    assert command.json("sweep", "--dry-run")["runs"] == 4
    assert command.json("sweep", "10", "23", "--seed", "3", "--dry-run")["runs"] == 4


def test_shards_share_the_programs_out(command, store):
    """By cost: the grid of two runs on all four clients; the curves on two and on three."""
    counts = [command.json(*WORDS, "--shard", f"{number}/2") for number in (1, 2)]
    assert [count["programs"] for count in counts] == [1, 2]
    assert sum(count["runs"] for count in counts) == 4
    assert len(store.stored()) == 4


def test_a_program_that_fails_does_not_stop_the_others(command, monkeypatch):
    plain = engine.execute

    def fail(program, **execution):
        if program[0][0].algorithm == "fedadam":
            raise RuntimeError("out of memory\non this machine")
        return plain(program, **execution)

    monkeypatch.setattr(engine, "execute", fail)
    status, out, err = command(*WORDS, "--json")
    count = json.loads(out)
    assert status == 1 and count["missing"] == 1
    assert count["failed"] == ["fedadam on synthetic: out of memory on this machine"]
    assert "1 programs failed" in err and err.count("\n") == 1


def test_a_sweep_ends_before_its_time_is_over_and_the_same_command_goes_on(
    command, own_folders, store, monkeypatch
):
    """Of a clock that goes on by a second whenever it is asked: nothing waits."""
    words = [*WORDS[:-1], "rounds=9"]
    assert command(*words, "--data-root", str(own_folders / "whole"))[0] == 0
    whole = Store(own_folders / "whole" / "runs")
    ticks = itertools.count().__next__
    clocked = partial(checkpoint.Deadline, clock=ticks)
    monkeypatch.setattr(checkpoint, "Deadline", clocked)
    left, statuses = [], []
    while not statuses or statuses[-1] == 75:
        status, out, error = command(*words, "--minutes", "0.15")  # nine seconds
        statuses.append(status)
        left.append(int(out.splitlines()[-1].split()[-1]))
        assert status == 0 or "The same command continues" in error
    assert statuses[-1] == 0 and len(statuses) > 3 and sorted(left, reverse=True) == left
    assert not any(store.checkpoints.iterdir())
    assert len(whole.stored()) == len(store.stored()) == 4
    for run in whole.stored():
        same(run.history(), store.load(run.config.digest))


@pytest.mark.parametrize("git", [None, {"commit": "a" * 40, "dirty": True}])
def test_runs_whose_code_nobody_has_are_not_published(command, own_folders, monkeypatch, git):
    monkeypatch.setattr("fedlib.results.files._commit", lambda: git)
    assert command(*WORDS)[0] == 0
    to = own_folders / "published"
    said = "4 of 4 runs of 23_fair_synthetic are of no commit"
    command.refused(said, "publish", "23", "-p", "rounds=2", "--to", str(to))
    assert not list(own_folders.glob("published/*"))


def test_publish_packs_the_plans_runs_of_which_figures_are_drawn(
    command, own_folders, store, write_notebook
):
    assert command(*WORDS)[0] == 0
    to = own_folders / "published"
    (one,) = command.json("publish", "23", "-p", "rounds=2", "--to", str(to))
    assert (one["notebook"], one["runs"], one["missing"]) == ("23_fair_synthetic", 4, 0)
    elsewhere = Store(own_folders / "nothing", published=[to])
    runs = {run.config.digest: run.history() for run in store.stored()}
    assert {run.config.digest for run in elsewhere.stored(published=True)} == set(runs)
    for digest, run in runs.items():  # figure 2 shows the clients
        assert len(elsewhere.load(digest).clients) == len(run.clients) > 0
    for other in ("20_fair_femnist", "21_fair_cifar10", "22_fair_sent140"):
        write_notebook(other)
    # Where the plan's cell asks for two rounds, the figure has its runs.
    own = own_folders / "notebooks" / "23_fair_synthetic.ipynb"
    own.write_text(own.read_text().replace("rounds=100", "rounds=2"))
    (made,) = draw.redraw(["adafedadam/table_5"], store=elsewhere)
    assert sorted(json.loads(made.with_suffix(".json").read_text())["runs"]) == sorted(runs)


def test_a_part_of_a_plan_is_published_if_that_is_asked_for(command, own_folders):
    words, to = ["-p", "rounds=2", "--seed", "1"], own_folders / "published"
    partly = ["publish", "23", *words, "--to", str(to), "--name", "more", "--partial"]
    command.refused("more: no runs to publish", *partly)
    assert command("sweep", "23_fair_synthetic", *words, "--part", "mu")[0] == 0
    out = command.says(*partly)
    assert out.startswith("23_fair_synthetic: 2 runs") and "(2 missing)" in out
    assert [path.name for path in to.glob("*.parquet")] == ["more.parquet"]


def test_published_runs_that_are_copied_into_the_store_are_not_trained_again(command, own_folders):
    assert command(*WORDS)[0] == 0
    root, to = own_folders / "data" / "runs", own_folders / "published"
    first = {run.config.digest: run.history() for run in Store(root).stored()}
    assert command("publish", "23", "-p", "rounds=2", "--to", str(to))[0] == 0
    shutil.rmtree(root)
    root.mkdir()
    shutil.copy2(to / "23_fair_synthetic.parquet", root)
    assert command.json(*WORDS, "--dry-run")["missing"] == 0
    assert command.json(*WORDS)["missing"] == 0 and len(list(root.rglob("*.parquet"))) == 1
    store = Store(root, published=[])
    for digest, history in first.items():
        accuracy = history.final("accuracy")
        assert store.load(digest).final("accuracy") == pytest.approx(accuracy, rel=1e-6)  # 7 digits


def program(path, text):
    path.write_text(f"#!/bin/bash\nPATH=/usr/bin:/bin\ncd {path.parent}\n{text}\n")
    path.chmod(0o755)


def test_slurm_gets_an_array_with_a_job_per_shard(command, own_folders, store):
    logs = store.root / ".slurm"
    status, text, _ = command(*WORDS, "--executor", "slurm", "--jobs", "2")
    lines = text.splitlines()
    assert status == 0 and logs.is_dir() and lines[0] == "#!/bin/bash"
    expected = ("requeue", "array=1-2", f"output={logs}/%A_%a.log", "signal=B:USR1@120")
    assert {f"#SBATCH --{directive}" for directive in expected} <= set(lines)
    (line,) = (line for line in lines if "-m fedlib" in line)
    words = shlex.split(line)
    assert words[:3] == [sys.executable, "-m", "fedlib"]
    assert words[-3:] == ["--shard", "$SLURM_ARRAY_TASK_ID/2", "&"]
    assert command.json(*words[3:-3], "--shard", "1/1", "--dry-run")["missing"] == 4
    most = command.json(*WORDS, "--executor", "slurm", "--jobs", "20")["jobs"]
    assert most == 3, "no more jobs than programs"
    assert not store.stored()


@pytest.mark.parametrize(("number", "again"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)])
def test_a_slurm_job_saves_its_work_and_is_requeued_when_its_time_is_over(
    own_folders, monkeypatch, number, again
):
    python = own_folders / "python"
    program(python, "trap 'sleep 0.2; echo $@ > saved; exit 143' TERM; touch up; sleep 9 & wait")
    program(own_folders / "scontrol", 'cat saved - <<< " $*" > requeued')
    monkeypatch.setattr(sweep.sys, "executable", str(python))
    text = sweep.script(["sweep", "10"], 3, own_folders)
    environment = {"PATH": f"{own_folders}:/usr/bin:/bin", "SLURM_CPUS_ON_NODE": "1"}
    environment |= {"SLURM_ARRAY_TASK_ID": "2", "SLURM_JOB_ID": "17"}
    job = subprocess.Popen(["bash", "-c", text], env=environment)
    while not (own_folders / "up").exists():
        time.sleep(0.02)
    job.send_signal(number)
    job.wait(60)
    assert (own_folders / "saved").read_text() == "-m fedlib sweep 10 --shard 2/3\n"
    assert (own_folders / "requeued").exists() == again
    assert not again or (own_folders / "requeued").read_text().endswith(" requeue 17\n")


def test_processes_of_this_machine_compute_a_shard_each(own_folders, store, monkeypatch, capfd):
    """Each GPU one or several, or parts of the cores; one that fails is named, others go on."""
    python = own_folders / "python"
    share = "$OMP_NUM_THREADS $FEDLIB_GPU_SHARE"
    program(python, f'echo "{share} $*" > said$$; [[ "$*" != *2/2* ]]')
    monkeypatch.setattr(sweep.sys, "executable", str(python))
    monkeypatch.setattr(sweep.os, "cpu_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for gpus, said in (
        (0, "4  -m fedlib sweep --shard=1/2 --json"),
        (2, "1 1.0 -m fedlib sweep --shard=1/2 --device=cuda:0 --json"),
        (1, "1 0.5 -m fedlib sweep --shard=2/2 --device=cuda:0 --json"),
    ):
        failed = sweep.local(["sweep"], [[], []], gpus, store, True)
        assert failed == (["shard 2/2, exit status 1"], "")
        assert f"{said}\n" in [path.read_text() for path in own_folders.glob("said*")]
    assert sweep.local(["sweep"], [[]], 0, store, True) == ([], "")
    program(python, "[[ $* != *2/3* ]] || exit 75")
    paused = sweep.local(["sweep"], [[], [], []], 0, store, True)
    assert paused == ([], "1 of 3 shards have no time left")


@pytest.mark.parametrize(
    ("words", "there", "gpus"),
    [((), 0, 0), ((), 2, 2), (("--jobs", "3"), 0, 0), (("--device", "cuda:1"), 2, 0),
     (("--device", "cpu"), 2, 0), (("--jobs", "1"), 2, 2), (("--jobs", "3"), 2, 2)],
)  # fmt: skip
def test_each_gpu_is_given_a_shard(command, monkeypatch, words, there, gpus):
    made = []

    def local(words, shards, gpus, *_):
        made.append((len(shards), gpus))
        return [], ""

    monkeypatch.setattr(sweep, "local", local)
    monkeypatch.setattr(sweep, "train", lambda *_, **__: made.append((1, gpus)) or ([], ""))
    monkeypatch.setattr("torch.cuda.device_count", lambda: there)
    monkeypatch.setattr("torch.cuda.is_available", lambda: there > 0)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda device: "a GPU")
    status, _, error = command(*WORDS, *words)
    jobs = int(words[1]) if "--jobs" in words else gpus or 1
    assert (status, made) == (0, [(jobs, gpus)])
    assert f"training on {'a GPU (cuda' if there and 'cpu' not in words else 'the CPU, '}" in error
    if there:
        command.refused("no such GPU here. The last one is 'cuda:1'", *WORDS, "--device", "cuda:2")
