"""The command line: exit status, one clear line for mistakes, JSON for programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from fedlib import cli


def fedlib(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    before, sys.argv = sys.argv, ["fedlib", *words]
    try:
        with pytest.raises(SystemExit) as stop:
            cli.main()
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


MISTAKES = [
    (["nope"], "No such command 'nope'"),
    (["run", "sythetic", "fedavg"], "unknown task 'sythetic': did you mean 'synthetic'"),
    (["run", "synthetic", "fedag"], "unknown algorithm 'fedag': did you mean 'fedavg'"),
    (["run", "synthetic"], "Missing argument"),
    (["run", "synthetic", "fedavg", "--rounds", "x"], "--rounds"),
    (["run", "synthetic", "fedavg", "--rounds", "-1"], "rounds is -1; allowed"),
    (["run", "synthetic", "fedavg", "--preset", "fast"], "unknown preset 'fast'"),
    (["run", "synthetic", "fedavg", "--set", "client_lr"], "is not KEY=VALUE"),
    (["run", "synthetic", "fedavg", "--set", "client_lt=1"], "did you mean 'client_lr'"),
    (["run", "synthetic", "fedavg", "--set", "client_lr=-1"], "client_lr is -1"),
    (["run", "synthetic", "fedavg", "--set", "client_lr=abc"], "client_lr is 'abc'"),
    (["run", "synthetic", "fedavg", "--option", "width=1"], "unknown option of task synthetic"),
    (["run", "synthetic", "fedavg", "--clients-per-round", "101"], "allowed: 1..100"),
    (["run", "cifar10", "fedavg", "--option", "alpha=0"], "alpha"),
    (["grid", "synthetic", "fedavg", "client_lr"], "is not KEY=V1,V2"),
    (["grid", "synthetic", "fedavg", "client_lr=0.1,-1"], "client_lr is -1"),
    (["list", "taks"], "unknown list 'taks': did you mean 'tasks'"),
    (["data", "import", "mine", "missing.npz"], "missing.npz"),
    (["data", "verify", "mine"], "mine"),
    (["reproduce", "99_nothing"], "unknown notebook '99_nothing'"),
    (["reproduce", "10_cifar10", "-p", "ronds=3"], "did you mean 'rounds'"),
    (["reproduce", "--preset", "fast"], "unknown preset 'fast'"),
    (["figures", "fedopt/figure1"], "did you mean 'fedopt/figure_1'"),
    (["compare", "fedopts"], "unknown paper 'fedopts': did you mean 'fedopt'"),
]


@pytest.mark.parametrize(
    ("words", "message"), MISTAKES, ids=lambda v: v if isinstance(v, str) else " ".join(v)
)
def test_mistakes_exit_2_with_one_line(
    capsys: pytest.CaptureFixture[str], own_folders: Path, words: list[str], message: str
) -> None:
    status, out, err = fedlib(capsys, *words)
    assert status == 2
    assert message in err and err.count("\n") == 1 and "Traceback" not in err
    assert not list(own_folders.rglob("history.csv")), out


def test_help_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = fedlib(capsys)
    assert status == 0
    for command in ("list", "data", "run", "grid", "reproduce", "figures", "compare", "doctor"):
        assert command in out
        status, text, _ = fedlib(capsys, command, "--help")
        assert status == 0 and "Usage" in text


def test_run_stores_and_answers_from_the_store(
    capsys: pytest.CaptureFixture[str], own_folders: Path
) -> None:
    words = ["run", "synthetic", "fedadam", "--rounds", "2", "--set", "client_lr=0.02", "--json"]
    status, out, _ = fedlib(capsys, *words)
    first = json.loads(out)
    assert status == 0 and 0 < first["final"]["test accuracy"] < 1
    assert len(list(own_folders.rglob("history.csv"))) == 1
    status, out, _ = fedlib(capsys, *words)
    assert json.loads(out) == first
    status, out, _ = fedlib(capsys, "run", "synthetic", "fedadam", "--rounds", "2")
    assert status == 0 and "2 rounds" in out and "test accuracy" in out
    assert len(list(own_folders.rglob("history.csv"))) == 2


def test_grid_prints_a_table_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["grid", "quadratic", "fedavg", "client_lr=0.1,0.2", "server_lr=1,0.5,0.1"]
    status, out, _ = fedlib(capsys, *words, "--rounds", "2", "--set", "local_steps=2")
    assert status == 0 and "0.5" in out and "test loss" in out
    status, out, _ = fedlib(capsys, *words, "--rounds", "2", "--set", "local_steps=2", "--json")
    rows = json.loads(out)
    assert {(row["client_lr"], row["server_lr"]) for row in rows} == {
        (a, b) for a in (0.1, 0.2) for b in (1, 0.5, 0.1)
    }


def test_import_list_and_verify_own_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    draw = np.random.default_rng(0)
    file = tmp_path / "own.npz"
    arrays = {
        "train_x": draw.random((20, 4), dtype=np.float32),
        "train_y": draw.integers(0, 2, 20),
        "test_x": draw.random((6, 4), dtype=np.float32),
        "test_y": draw.integers(0, 2, 6),
    }
    np.savez(file, **arrays)
    status, out, _ = fedlib(capsys, "data", "import", "own", str(file))
    assert status == 0 and "imported own" in out
    status, out, _ = fedlib(capsys, "data", "list", "--json")
    assert "own" in {card["name"] for card in json.loads(out)}
    status, out, _ = fedlib(capsys, "data", "verify")
    assert status == 0 and "own: as imported" in out
    status, _, err = fedlib(capsys, "data", "import", "own", str(file))
    assert status == 2 and "own" in err
    np.savez(tmp_path / "bad.npz", **{**arrays, "train_y": arrays["train_y"][:5]})
    status, _, err = fedlib(capsys, "data", "import", "bad", str(tmp_path / "bad.npz"))
    assert status == 2 and err.count("\n") == 1
    status, out, _ = fedlib(capsys, "data", "list", "--json")
    assert "bad" not in {card["name"] for card in json.loads(out)}


def test_values_on_the_command_line() -> None:
    words = ["1", "1e-3", "0.5", "true", "None", "[1, 2]", "sgdm"]
    assert [cli.parse_value(w) for w in words] == [1, 1e-3, 0.5, True, None, [1, 2], "sgdm"]


def test_doctor_list_and_compare_answer_programs(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = fedlib(capsys, "doctor", "--json")
    assert status == 0 and json.loads(out)["stored runs"] == 0
    status, out, _ = fedlib(capsys, "list", "algorithms", "--json")
    assert set(json.loads(out)) >= {"fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi"}
    status, out, _ = fedlib(capsys, "compare", "fedopt", "--json")
    rows = json.loads(out)
    assert status == 0 and {row["algorithm"] for row in rows} >= {"fedavg", "fedyogi"}
    assert all(row["ours"] is None for row in rows)
