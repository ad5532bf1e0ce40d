"""Whatever stands on the command line: done, or exit status 2 and one line; never a traceback."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedlib import cli, engine
from fedlib.cli.terminal import parse_value
from fedlib.reproduction import reproduce
from tests.faults.campaign import Count, cases

Command = Callable[..., tuple[int, str, str]]

# Values that are none, or of another kind than most options'.
BAD = [
    *("", " ", "x", "-1", "0", "1.5", "nan", "inf", "-inf", "1e999", "9" * 30, "-" + "9" * 30),
    *("9" * 5000, "true", "none", "[1]", "[[1]]", '{"a": 1}', "[" * 5000, "None,None", "a=b"),
    *(
        "\t",
        "\u2028",
        "é",
        "\ud800",
        "../..",
        "/dev/null",
        "/etc/passwd",
        "--",
        "%s",
        "{}",
        "$HOME",
    ),
]
PAIRS = ["", "=", "=1", "x", "x=1", *(f"rounds={value}" for value in BAD)]
# Each command's shortest form that is right, and its options with values.
COMMANDS: dict[str, tuple[list[str], list[str]]] = {
    "list": (["list"], ["--data-root"]),
    "data list": (["data", "list"], ["--data-root"]),
    "data verify": (["data", "verify"], ["--data-root"]),
    "data prepare": (
        ["data", "prepare", "sent140"],
        ["--from", "--option", "--option min_tweets=", "--data-root"],
    ),
    "data import": (["data", "import", "own", "none.npz"], ["--data-root"]),
    "run": (
        ["run", "quadratic", "fedavg", "--rounds", "1", "--set", "local_steps=1"],
        [
            *("--preset", "--rounds", "--seed", "--device", "--backend", "--dtype"),
            *("--eval-every", "--clients-per-round", "--set", "--option", "--data-root"),
        ],
    ),
    "grid": (
        ["grid", "quadratic", "fedavg", "client_lr=1", "--rounds", "1", "--set", "local_steps=1"],
        ["--preset", "--seed", "--device", "--backend", "--dtype", "--set", "--option", ""],
    ),
    "sweep": (
        ["sweep", "23", "--dry-run"],
        ["--preset", "--seed", "-p", "-p rounds=", "--part", "--shard", "--executor", "--jobs"],
    ),
    "publish": (["publish", "23"], ["--preset", "--seed", "-p", "-p rounds=", "--part", "--name"]),
    "reproduce": (["reproduce", "23"], ["--preset", "-p", "-p rounds=", "-p seed=", "--jobs"]),
    "figures": (["figures", "fedopt/figure_1"], ["--data-root", ""]),
    "compare": (["compare", "fedopt"], ["--data-root", ""]),
    "doctor": (["doctor"], ["--device", "--data-root", ""]),
}


def lines() -> Iterator[list[str]]:
    """Every command with every option and every bad value."""
    for words, options in COMMANDS.values():
        for option in options:
            for value in PAIRS if option in ("--set", "--option", "-p") else BAD:
                name, _, key = option.partition(" ")
                yield [*words, *([name] if name else []), key + value]


@pytest.fixture(autouse=True)
def nothing_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither training, nor notebooks, nor timing: only what comes before."""
    monkeypatch.setattr(engine, "execute", _refuse)
    monkeypatch.setattr(reproduce, "_execute", _refuse)
    monkeypatch.setattr("fedlib.engine.program.Program.__init__", _refuse)


class Fine(Exception):
    """What was asked is right."""


def _refuse(*_: object, **__: object) -> None:
    raise Fine


def test_no_value_of_any_option_gives_a_traceback(command: Command, count: Count) -> None:
    for words in cases(lines(), 150):
        with count.case(" ".join(words)[:120]):
            try:
                status, out, err = command(*words)
            except Fine:
                continue
            assert status in (0, 1, 2), status
            assert "Traceback" not in out + err
            if status:
                assert err.count("\n") == 1 and err.startswith("fedlib: "), err[:300]


WRONG = [
    ["reproduce", "23", "-p", "rounds=many"],
    ["reproduce", "23", "-p", "rounds=" + "9" * 30],
    ["reproduce", "23", "-p", "seed=x"],
    ["reproduce", "23", "-p", "device=3"],
    ["sweep", "23", "--dry-run", "-p", "rounds=many"],
    ["sweep", "23", "--dry-run", "-p", "rounds=[1]"],
    ["reproduce", "23", "--jobs", "0"],
    ["reproduce", "23", "--output", "/etc/passwd"],
    ["doctor", "\ud800"],
]


@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words)[:40])
def test_what_is_wrong_exits_2_with_one_line(command: Command, words: list[str]) -> None:
    status, _, err = command(*words)
    assert status == 2 and err.count("\n") == 1 and "Traceback" not in err, err


def test_any_text_is_a_value(count: Count) -> None:
    """Random text is parsed into something that JSON knows."""
    chance = random.Random(0)
    for _ in cases(range(3000), 300):
        text = "".join(chance.choices('0123456789.,-+eE[]{}":xnaif \\u', k=chance.randrange(30)))
        with count.case(text):
            assert parse_value(text) is None or isinstance(
                parse_value(text), (bool, int, float, str, list, dict)
            )


def test_the_command_works_in_another_thread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where signals cannot be handled."""
    monkeypatch.setattr(sys, "argv", ["fedlib", "list", "tasks"])
    ended: list[object] = []

    def main() -> None:
        try:
            cli.main()
        except SystemExit as stop:
            ended.append(stop.code)

    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
    assert ended == [0] and "quadratic" in capsys.readouterr().out


# ------------------------------------------------------------------------------ its own processes

START = "import sys; from fedlib import cli; print('up', flush=True); "
START += "sys.argv = ['fedlib', *sys.argv[1:]]; cli.main()"


def started(*words: str) -> subprocess.Popen[str]:
    """The command in its own process, which has come to its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    return process


def test_pytorch_is_not_there_before_the_first_line() -> None:
    """So that whatever comes meanwhile is handled."""
    code = "import sys, fedlib.cli; sys.exit('torch' in sys.modules or 'typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
@pytest.mark.parametrize("tenths", cases(range(30), 3))
def test_an_interrupt_in_the_first_seconds_is_told_in_one_line(
    tenths: int, number: signal.Signals
) -> None:
    process = started("run", "quadratic", "fedavg", "--rounds", "1000000", "--set", "local_steps=1")
    time.sleep(0.02 + tenths / 10)
    process.send_signal(number)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode in (130, 143), errors
    assert errors.count("\n") == 1 and errors.startswith("fedlib: "), errors


def test_output_that_nobody_reads_or_can_be_written_is_no_traceback() -> None:
    words = [sys.executable, "-m", "fedlib", "list"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait() in (0, 1)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("tenths", cases(range(0, 100, 5), 1))
def test_an_interrupt_of_one_notebook_is_told_in_one_line(tmp_path: Path, tenths: int) -> None:
    """The terminal sends it to all processes of the group."""
    words = [sys.executable, "-m", "fedlib", "reproduce", "23", "--output", str(tmp_path)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(4 + tenths / 10)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "fedlib: interrupted\n")
    # No notebook half-written; what had been trained by then stays in the store.
    assert {path.name for path in tmp_path.iterdir()} <= {"data"}
