"""``fedlib sweep`` and ``fedlib publish``: what is missing is computed once, shared out, packed."""

from __future__ import annotations

import dataclasses
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedlib import engine
from fedlib.reproduction import draw, experiments, memory
from fedlib.reproduction.request import Experiment, Request, grid, tuned
from fedlib.results import Store
from fedlib.tasks import load_task

Command = Callable[..., tuple[int, str, str]]


def own(preset: str, seed: int, numbers: Any) -> list[Request]:
    """The plan of a notebook that exists; two curves and a grid of two, on a few clients.

    The curves differ in their cohorts, so that they never train together.
    """
    common = dict(options={"clients": 4}, rounds=numbers.get("rounds") or 100, seed=seed)
    return [
        *tuned("synthetic", ("fedavg",), "curves", clients_per_round=2, **common),
        *tuned("synthetic", ("fedadam",), "curves", clients_per_round=3, **common),
        *grid("synthetic", "fedprox", "mu", {"mu": [0.1, 1.0]}, eval_every=0, **common),
    ]


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("10_other", "23_fair_synthetic")
    plans = {name: Experiment(name, {"rounds": 100}, own) for name in names}
    monkeypatch.setattr(experiments, "EXPERIMENTS", plans)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedAdam cannot be trained here."""
    plain = engine.execute

    def fail(task: Any, program: Any, **execution: Any) -> Any:
        if program[0][0].algorithm == "fedadam":
            raise RuntimeError("out of memory\non this machine")
        return plain(task, program, **execution)

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
    assert command(*WORDS)[0] == 0


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


MISTAKES = [
    (["sweep", "99_nothing"], "unknown notebook with a plan '99_nothing'"),
    (["sweep", "--preset", "fast"], "unknown preset 'fast'"),
    (["sweep", "--seed", "-1"], "seed is -1"),
    (["sweep", "--shard", "3/2"], "--shard is '3/2'; allowed: I/N"),
    (["sweep", "--shard", "0/2"], "--shard is '0/2'"),
    (["sweep", "--shard", "x"], "--shard is 'x'"),
    (["sweep", "--executor", "slrm"], "unknown executor 'slrm': did you mean 'slurm'"),
    (["sweep", "--executor", "slurm", "--shard", "1/2"], "do not go together"),
    (["sweep", "--part", "curve"], "did you mean 'curves'"),
    (["sweep", "23", "-p", "ronds=3"], "did you mean 'rounds'"),
    (["sweep", "23", "-p", "rounds"], "is not KEY=VALUE"),
    (["publish"], "Missing argument"),
    (["publish", "99_nothing"], "unknown notebook '99_nothing'"),
    (["publish", "23"], "4 runs of 23_fair_synthetic are not stored; run: fedlib sweep 23"),
    (["publish", "10", "23", "--name", "own", "--partial"], "--name is 'own'; allowed"),
    (["publish", "23", "--name", "../x", "--partial"], "--name is '../x'; allowed"),
    (["publish", "23", "--partial"], "no runs to publish"),
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


def test_slurm_without_submitit_is_one_line(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    status, _, err = command(*WORDS, "--executor", "slurm")
    assert status == 2 and "needs submitit" in err and err.count("\n") == 1


class Slurm:
    """What submitit is asked for, in place of a cluster."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.parameters: dict[str, Any] = {}
        self.problem: Exception | None = None

    def module(self) -> types.SimpleNamespace:
        helpers = types.SimpleNamespace(CommandFunction=lambda command, cwd: command)
        return types.SimpleNamespace(AutoExecutor=self.executor, helpers=helpers)

    def executor(self, folder: Path, cluster: str) -> types.SimpleNamespace:
        assert cluster == "slurm"
        return types.SimpleNamespace(
            update_parameters=lambda **given: self.parameters.update(given), submit=self.submit
        )

    def submit(self, command: list[str]) -> types.SimpleNamespace:
        if self.problem is not None:
            raise self.problem
        self.commands.append(command)
        return types.SimpleNamespace(job_id=f"10{len(self.commands)}")


def test_slurm_gets_a_job_per_shard(
    command: Command, own_folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Slurm()
    monkeypatch.setitem(sys.modules, "submitit", cluster.module())
    slurm = ["--executor", "slurm", "--jobs", "2", "--slurm", "partition=gpu", "--slurm=time=60"]
    status, out, _ = command(*WORDS, *slurm, "--preset", "paper")
    assert status == 0 and "2 jobs submitted: 101, 102" in out
    assert cluster.parameters == {"slurm_partition": "gpu", "slurm_time": 60}
    ends = []
    for words in cluster.commands:
        assert words[:3] == [sys.executable, "-m", "fedlib"]
        assert words[3:-2] == [*WORDS, "--preset", "paper"]
        ends.append(words[-2:])
    assert ends == [["--shard", "1/2"], ["--shard", "2/2"]]
    assert not list(own_folders.rglob("history.csv"))
    status, _, err = command(*WORDS, "--executor", "slurm", "--jobs", "0")
    assert status == 2 and "--jobs is 0" in err
    cluster.problem = RuntimeError("no sbatch\nhere")
    status, _, err = command(*WORDS, "--executor", "slurm")
    assert status == 2 and "Slurm did not take the jobs: no sbatch here" in err


def test_publish_packs_runs_and_what_figures_were_drawn_from(
    command: Command, own_folders: Path
) -> None:

    assert command(*WORDS)[0] == 0
    store = Store(own_folders / "data" / "runs")
    drawn = [run.history() for run in store.stored() if run.config.algorithm != "fedprox"]
    draw.draw("adafedadam/figure_2", drawn, store=store)
    to = own_folders / "published"
    words = ["publish", "23", "-p", "rounds=2", "--to", str(to)]
    status, out, _ = command(*words, "--json")
    (one,) = json.loads(out)
    assert status == 0 and (one["notebook"], one["runs"], one["missing"]) == (
        *("23_fair_synthetic", 4, 0),
    )
    elsewhere = Store(own_folders / "nothing", published=[to])
    assert {run.config.digest for run in elsewhere.stored(published=True)} == {
        run.config.digest for run in store.stored()
    }
    first = elsewhere.load(drawn[0].config.digest)
    assert len(first.clients) == len(drawn[0].clients) > 0  # figure 2 shows the clients
    made = draw.redraw(["adafedadam/figure_2"], store=elsewhere)
    assert made[0].is_file()
    status, out, _ = command(*words, "--seed", "1", "--partial", "--name", "more")
    assert status == 0 and out.startswith("23_fair_synthetic: 2 runs") and "(4 missing)" in out
    assert sorted(path.name for path in to.glob("*.zip")) == [
        *("23_fair_synthetic.zip", "more.zip")
    ]


def test_publish_takes_what_the_figures_of_a_notebook_without_a_plan_were_drawn_from(
    command: Command, own_folders: Path
) -> None:

    entry = draw.entry("theory/server_adaptivity")
    name = next(iter(entry.notebooks))
    store = Store(own_folders / "data" / "runs")
    task = dataclasses.replace(load_task("synthetic", clients=4), name=name)
    run = store.run(task, "fedavg", rounds=1)
    memory.remember(store, entry.id, [run])
    to = own_folders / "published"
    status, out, _ = command("publish", "02", "--to", str(to))
    assert status == 0 and out.startswith("02_server_adaptivity: 1 runs")
    elsewhere = Store(own_folders / "nothing", published=[to])
    assert memory.remembered(elsewhere, entry).runs == {name: [run.config.digest]}
    assert elsewhere.load(run.config.digest, params=False).config == run.config
    status, _, err = command("publish", "06", "--to", str(to))
    assert status == 2 and "06_partitions: no runs to publish" in err
