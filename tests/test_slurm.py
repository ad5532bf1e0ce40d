"""``fedlib sweep --executor slurm`` on a real Slurm, started here; skipped where there is none.

On Debian: ``apt-get install slurmctld slurmd slurm-client munge``; as root.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedlib.results import Store

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
ABSENT = [name for name in PROGRAMS if shutil.which(name) is None]
WORDS = ("sweep", "23_fair_synthetic")
JOBS = 4
SECONDS = 900  # for anything to happen, on a machine with much else to do

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"no Slurm here: {', '.join(ABSENT)} not found"),
    pytest.mark.skipif(os.geteuid() != 0, reason="a Slurm of its own is started by root only"),
]

CONFIGURATION = """
ClusterName=fedlib
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MailProg=/bin/true
ReturnToService=2
SchedulerParameters=sched_interval=1
NodeName=localhost NodeHostname={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """A Slurm of one node with two processors, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("state", "spool"):
            (folder / name).mkdir()
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o600)
        ports = dict(zip(("controller", "node"), free_ports(2), strict=True))
        host = socket.gethostname().split(".")[0]
        configuration = CONFIGURATION.format(folder=folder, host=host, **ports)
        (folder / "slurm.conf").write_text(configuration)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
        kept.pop("OMP_NUM_THREADS", None)  # the job's cores decide
        self.environment = {**kept, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        folder = self.folder
        self(
            *("munged", "--force", f"--socket={folder}/munge.socket"),
            *(f"--key-file={folder}/munge.key", f"--pid-file={folder}/munged.pid"),
            *(f"--log-file={folder}/munged.log", f"--seed-file={folder}/munge.seed"),
        )
        self.start_controller()
        self("nice", "-n", "5", "slurmd", "-N", "localhost")
        wait(lambda: self("sinfo", "--noheader", "--format=%T").strip() == "idle", "a node")

    def start_controller(self) -> None:
        self("slurmctld")
        wait(lambda: "UP" in self("scontrol", "ping"), "the controller")

    def kill(self, *names: str, number: int = 9) -> None:
        for name in names:
            pid = int((self.folder / f"{name}.pid").read_text())
            os.kill(pid, number)
            wait(lambda pid=pid: not alive(pid), f"the end of {name}")

    def __call__(self, *words: str) -> str:
        """What a program says on this cluster; a program that fails is an error."""
        run = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        if run.returncode and words[:2] != ("scontrol", "ping"):
            raise RuntimeError(f"{' '.join(words)}: {run.stdout}{run.stderr}")
        return run.stdout

    def states(self, job: str) -> dict[str, str]:
        answer = self("squeue", "--noheader", "--array", "--states=all", "--format=%i %T")
        every = dict(line.split()[:2] for line in answer.splitlines())
        return {name: state for name, state in every.items() if name.startswith(f"{job}_")}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="fedlib-slurm-"))  # munge wants a short, open path
    folder.chmod(0o755)
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
        cluster("scancel", "--quiet", "--user=root")
    finally:
        for name in ("slurmd", "slurmctld", "munged"):
            if (folder / f"{name}.pid").exists():
                cluster.kill(name, number=15)
        shutil.rmtree(folder)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait(ready: Callable[[], bool], what: str) -> None:
    """Until it is ready; Slurm's clients may fail meanwhile."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        try:
            if ready():
                return
        except (RuntimeError, ValueError):
            pass
        time.sleep(0.2)
    pytest.fail(f"waited {SECONDS} s for {what}")


def alive(pid: int) -> bool:
    """Whether a process is there and not only waited for."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


def fedlib(data: Path, environment: dict[str, str], *words: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["nice", "-n", "5", sys.executable, "-m", "fedlib", *WORDS, *words],
        env={**environment, "FEDLIB_DATA": str(data), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )


def contents(store: Path) -> dict[str, tuple[str, str]]:
    """The numbers of every run."""
    histories = (run.history() for run in Store(store, published=[]).stored())
    return {
        history.config.digest: (history.frame.to_csv(), str(history.params))
        for history in histories
    }


def test_a_sweep_whose_job_and_controller_were_killed_equals_a_local_one(
    cluster: Cluster, own_folders: Path
) -> None:
    data, local = own_folders / "data", own_folders / "local"
    notes = data / "runs" / ".slurm"
    slurm = ("--executor", "slurm", f"--jobs={JOBS}")

    refused = fedlib(data, cluster.environment, *slurm, "--slurm", "partition=gpu")
    print("", refused.stderr, sep="\n")
    assert refused.returncode == 1 and "invalid partition specified: gpu" in refused.stderr
    assert refused.stderr.count("\n") == 1

    print(fedlib(data, cluster.environment, *slurm, "--dry-run").stdout)
    answer = fedlib(data, cluster.environment, *slurm, "--json")
    assert answer.returncode == 0, answer.stderr
    job = json.loads(answer.stdout)["job"]
    first = f"{job}_1"
    print(answer.stdout, cluster.states(job))

    # Midway: the first job has begun a run.
    wait(lambda: any((data / "runs" / ".checkpoints").glob("*.pt")), "a checkpoint")
    cluster("scancel", first)
    wait(lambda: cluster.states(job)[first] == "CANCELLED", "the cancelled job's end")
    print(f"$ scancel {first}", (notes / f"{first}.log").read_text(), sep="\n")
    cluster("scontrol", "requeue", first)
    cluster("scontrol", "update", f"JobId={first}", "StartTime=now")  # else in two minutes
    print(f"$ scontrol requeue {first}", cluster.states(job), sep="\n")

    wait(lambda: cluster.states(job)[first] == "RUNNING", "the requeued job")
    changed = time.time()  # Slurm writes its state down some seconds after a change
    state = cluster.folder / "state" / "job_state"
    wait(lambda: state.stat().st_mtime > changed, "the controller's state on disk")
    cluster.kill("slurmctld")
    print("$ kill -9 slurmctld")
    cluster.start_controller()
    print("$ slurmctld", cluster.states(job), sep="\n")
    over = {f"{job}_{number}": "COMPLETED" for number in range(1, JOBS + 1)}
    wait(lambda: cluster.states(job) == over, "all jobs")
    print(f"{first}.log:", (notes / f"{first}.log").read_text(), sep="\n")
    assert {path.stem for path in notes.glob("*.log")} == set(over)
    assert not (data / "runs" / ".checkpoints").exists()

    # A job has one processor.
    assert fedlib(local, {**os.environ, "OMP_NUM_THREADS": "1"}).returncode == 0
    made, expected = contents(data / "runs"), contents(local / "runs")
    assert made == expected and made
    runs = Store(data / "runs").stored()
    assert {run.meta["threads"] for run in runs} == {1}
    print(f"{len(runs)} runs, {len(made)} files equal to those of a local sweep")
