"""The command line: exit status, one clear line for mistakes, JSON for programs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fedlib
from fedlib import datasets
from fedlib.datasets import catalogue, fetching
from fedlib.reproduction import draw
from tests import copies

MISTAKES = [
    (["nope"], "No such command 'nope'"),
    (["run", "sythetic", "fedavg"], "unknown task 'sythetic': did you mean 'synthetic'"),
    (["run", "synthetic", "fedavg", "--option", "width=1"], "unknown option of task synthetic"),
    (["run", "synthetic", "fedavg", *("--set", "client_lr=1") * 2], "client_lr is given twice"),
    (["run", "synthetic", "fedavg", "--option", "preset=paper"], "use --preset"),
    (["grid", "synthetic", "fedavg", "mu=1", "--set", "mu=2"], "also as --set"),
    (["grid", "synthetic", "fedavg", "rounds=1,2"], "axis rounds is no hyperparameter"),
    (["grid", "synthetic", "fedavg", "local_epochs=[1,2],[2,1]"], "local_epochs is [2, 1]"),
    (["data", "import", "mine", "."], " is no folder of LEAF's JSON: "),
    (["data", "prepare", "mnits"], "unknown data set to prepare 'mnits': did you mean 'mnist'"),
    (["data", "prepare", "rare_words"], "import a copy of another with 'fedlib data import NAME"),
    (["data", "prepare"], "give a data set, or --preset laptop, or --notebook 12"),
    (["data", "prepare", "--preset", "laptop", "--overwrite"], "--overwrite is for one data set"),
    (["data", "prepare", "--notebook", "99"], "unknown notebook with a plan '99'"),
    (["reproduce", "23", "-p", "ronds=3"], "did you mean 'rounds'"),
    (["sweep", "23", "--dry-run", "-p", "rounds=[1]"], "rounds"),
    (["sweep", "--shard", "3/2"], "--shard is '3/2' (allowed: I/N"),
    (["sweep", "--executor", "slurm", "--shard", "1/2"], "--shard is for one process"),
    (["sweep", "--device", "cuda:99"], "device 'cuda:99': t"),
    (["sweep", "-p", "seed=1"], "--parameter seed is no number of a plan: use --seed"),
    (["sweep", "--part", "curve"], "did you mean 'curves'"),
    (["publish", "23"], "4 runs of 23_fair_synthetic are not stored. Run: fedlib sweep 23"),
    (["publish", "10", "23", "--name", "own", "--partial"], "--name is 'own' (allowed"),
    (["publish", "23", "--partial"], "no runs to publish"),
    (["compare", "fedopts"], "unknown paper 'fedopts': did you mean 'fedopt'"),
]


def test_a_run_without_time_left_says_that_the_same_command_goes_on(command):
    status, out, error = command("run", "synthetic", "fedavg", "--minutes", "0", "--json")
    assert (status, out) == (75, "") and error.endswith(". The same command continues\n")


@pytest.mark.parametrize(
    ("words", "message"), MISTAKES, ids=lambda v: v if isinstance(v, str) else " ".join(v)
)
@pytest.mark.usefixtures("small_plans")
def test_mistakes_exit_2_with_one_line(command, own_folders, words, message):
    command.refused(message, *words)
    assert not list(own_folders.rglob("*.parquet"))


def test_run_stores_and_answers_from_the_store(command, own_folders):
    words = ["run", "synthetic", "fedadam", "--rounds", "2"]
    first = command.json(*words, "--set", "client_lr=0.02")
    assert 0 < first["final"]["test accuracy"] < 1
    assert command.json(*words, "--set", "client_lr=0.02") == first
    assert len(list(own_folders.rglob("*.parquet"))) == 1
    out = command.says(*words)
    assert "2 rounds" in out and "test accuracy" in out


def test_grid_prints_a_table_and_json(command):
    words = ["grid", "quadratic", "fedavg", "client_lr=0.1,0.2", "server_lr=1,0.5,0.1"]
    words += ["--rounds", "2", "--set", "local_steps=2"]
    out = command.says(*words)
    assert "0.5" in out and "test loss" in out
    cells = {(row["client_lr"], row["server_lr"]) for row in command.json(*words)}
    assert cells == {(a, b) for a in (0.1, 0.2) for b in (1, 0.5, 0.1)}
    last = command.says("grid", "quadratic", "fedavg", "client_lr=1e30", "--rounds", "2").split()[
        -1
    ]
    assert last == "1.000000e+30"  # with nothing beside it: diverged


@pytest.fixture
def news(tmp_path, monkeypatch):
    """A folder from which AG News is "downloaded"."""
    monkeypatch.setitem(catalogue.SOURCES, "ag_news", copies.news(tmp_path / "news"))
    return tmp_path / "news"


def test_import_prepare_list_and_verify(command, news, own_folders, tmp_path):
    x, y = np.random.default_rng(0).random((20, 4), np.float32), np.arange(20) % 2
    np.savez(tmp_path / "own.npz", train_x=x, train_y=y, test_x=x[:6], test_y=y[:6])
    words = ("data", "import", "own", str(tmp_path / "own.npz"))
    assert "imported own from own.npz: 20 train, 6 test, sha256" in command.says(*words)
    command.refused("'own' exists already", *words)
    status, out, err = command("data", "prepare", "ag_news")
    assert (status, err) == (0, "")
    assert out.startswith("prepared ag_news: 2,000 train, 2,000 test, 1 train clients")
    folder = own_folders / "data" / "prepared" / "ag_news"
    command.refused("with overwrite=True, or --overwrite", "data", "prepare", "ag_news")
    again = ("data", "prepare", "ag_news", "--overwrite", "--from")
    status, _, err = command(*again, str(folder))
    assert status == 1 and f"there is no train.csv in {folder}: it comes from file://" in err
    card = command.json(*again, str(news))
    assert card["counts"]["train"] == 2000
    checked = command.json("data", "list", "--verify")
    assert {card["name"] for card in checked if "verified" in card} == {"ag_news", "own"}
    there = [line.split()[:2] for line in command.says("data", "list").splitlines()]
    assert ["own", "yes"] in there and ["ag_news", "yes"] in there
    (folder / "train_label.npy").write_bytes(b"x")
    command.refused("array 'train_label' of 'ag_news' was altered", "data", "list", "--verify")


def test_a_download_that_fails_exits_1_and_one_that_is_interrupted_130(
    command, news, own_folders, monkeypatch
):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    whole = (news / "test.csv").read_bytes()
    (news / "test.csv").write_bytes(whole[:-2] + b"x\n")
    status, _, err = command("data", "prepare", "ag_news")
    assert status == 1 and "nothing was prepared" in err and err.count("\n") == 1
    (news / "test.csv").write_bytes(whole)
    with monkeypatch.context() as patched:
        patched.setattr(fetching, "urlopen", stopped)
        status, _, err = command("data", "prepare", "ag_news")
    assert (status, err) == (130, "fedlib: interrupted\n")
    raw, prepared = own_folders / "data" / "raw" / "ag_news", own_folders / "data" / "prepared"
    names = sorted(path.name for path in raw.iterdir())
    assert names == ["train.csv"] and not prepared.exists()
    assert command("data", "prepare", "ag_news")[0] == 0


def test_doctor_list_and_compare_answer_programs(command):
    assert command.json("doctor")["stored runs"] == 0
    command.refused("no runs are stored", "compare", "fedopt")
    assert command("run", "quadratic", "fedavg", "--rounds=1", "--set", "local_steps=1")[0] == 0
    rows = command.json("compare", "fedopt")
    assert {row["algorithm"] for row in rows} >= {"fedavg", "fedyogi"}
    assert all(row["ours"] is None for row in rows)


def test_numbers_that_are_not_finite_are_null_in_json(command):
    """A run that diverges still prints JSON that every program reads."""
    words = ["run", "quadratic", "fedavg", "--rounds", "40", "--set", "local_steps=5"]
    result = command.json(*words, "--set", "client_lr=1e30")
    assert result["diverged"] is not None and None in result["final"].values()


# ------------------------------------------------------------------ the command's own process
START = "import sys; from fedlib import cli; print('up', flush=True); "
START += "sys.argv = ['fedlib', *sys.argv[1:]]; cli.main()"


def started(*words):
    """The command in its own process, which has come to its first line."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    code = [sys.executable, "-c", START, *words]
    process = subprocess.Popen(code, **pipes, text=True, start_new_session=True)
    process.stdout.readline()
    return process


@pytest.mark.parametrize("words", [["--help"], ["run", "--help"], ["list"]], ids=" ".join)
def test_help_and_list_do_without_pytorch(words):
    code = f"import sys; from fedlib import cli; sys.argv = ['fedlib', *{words}]\n"
    code += "try: cli.main()\nfinally: assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_what_is_listed_is_what_is_declared(command, prepared, own_folders):
    """Though nothing of it is imported."""
    prepared("cifar10")
    listed = command.json("list")
    names = {"tasks": fedlib.list_tasks(), "algorithms": fedlib.list_algorithms()}
    names |= {"data": datasets.names(), "figures": [entry.id for entry in draw.entries()]}
    assert {kind: sorted(entries) for kind, entries in listed.items()} == {
        kind: sorted(known) for kind, known in names.items()
    }
    assert listed["data"]["cifar10"]["about"] == f"{datasets.info('cifar10')['title']} (prepared)"
    assert listed["algorithms"]["fedadam"]["about"] and listed["tasks"]["synthetic"]["papers"]
    folder = own_folders / "data" / "prepared" / "mine"
    folder.mkdir()
    (folder / "card.json").write_text("[" * 9)
    assert command("list", "data")[1].count("mine") == 1


def test_a_request_to_end_in_the_first_seconds_is_told_in_one_line():
    process = started("run", "quadratic", "fedavg", "--rounds", "1000000", "--set", "local_steps=1")
    time.sleep(1)  # it imports PyTorch, or trains
    process.send_signal(signal.SIGTERM)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert errors.count("\n") == 1 and errors.startswith("fedlib: "), errors


ASCII = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device")
@pytest.mark.parametrize(
    ("shell", "status", "lines"),
    [
        ("list | true", 0, 0),  # nobody reads it
        ("list > /dev/full", 1, 1),
        ("list x > /dev/full 2> /dev/full", 2, 0),
        ("list größe", 2, 1),
        ("list; mkdir gone; cd gone; rmdir ../gone; python -m fedlib doctor", 2, 1),
    ],
)
def test_streams_and_letters_of_a_shell(tmp_path, shell, status, lines):
    """Full, or without the letters: the same exit status, and at most one line."""
    line = f'python() {{ {sys.executable} "$@"; }}; python -m fedlib {shell}'
    environment = {**os.environ, **ASCII, "PYTHONPATH": str(Path(fedlib.__file__).parents[1])}
    done = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True)
    assert (done.returncode, done.stderr.count(b"\n")) == (status, lines), done.stderr


@pytest.mark.slow
def test_an_interrupt_of_one_notebook_is_told_in_one_line(tmp_path):
    """The terminal sends it to all processes of the group."""
    process = started("reproduce", "23", "--output", str(tmp_path))
    time.sleep(3)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "fedlib: interrupted\n")
    # No notebook half-written; what had been trained by then stays in the store.
    assert {path.name for path in tmp_path.iterdir()} <= {"data"}
