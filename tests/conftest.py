"""Shared settings of the tests: no test may see the user's data, store or figures."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fedlib import algorithms, cli, engine, tasks
from fedlib.reproduction import experiments
from fedlib.reproduction.request import Experiment, Request, grid, tuned


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Data, stored runs and figures of each test in its own folder; no published runs."""
    monkeypatch.setattr(
        "fedlib.results.store.published_folders", lambda root: [root.parent / "results"]
    )
    monkeypatch.setenv("FEDLIB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FEDLIB_FIGURES", str(tmp_path / "figures"))
    monkeypatch.setenv("FEDLIB_CACHE", str(tmp_path / "cache"))
    yield tmp_path


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers, the next one does not know."""
    for names in (algorithms.NAMES, tasks.NAMES):
        monkeypatch.setattr(names, "registered", {})


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """The command line in this process: exit status, standard output and standard error of
    ``command("run", "synthetic", "fedavg")``.
    """

    def fedlib(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["fedlib", *words])
        with pytest.raises(SystemExit) as stop:
            cli.main()
        captured = capsys.readouterr()
        return int(stop.value.code or 0), captured.out, captured.err

    return fedlib


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on nothing can be trained."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained")

    return lambda: monkeypatch.setattr(engine, "execute", refuse)


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """A shell lets its background jobs, and so their children, ignore interrupts: not these."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """The tests' problems are small; two threads only wait for each other."""
    torch.set_num_threads(1)


def small_plan(preset: str, seed: int, numbers: Any) -> list[Request]:
    """The plan of a notebook that exists; two curves and a grid of two, on a few clients.

    The curves differ in their cohorts, so that they never train together.
    """
    common = dict(options={"clients": 4}, rounds=numbers.get("rounds") or 100, seed=seed)
    return [
        *tuned("synthetic", ("fedavg",), "curves", clients_per_round=2, **common),
        *tuned("synthetic", ("fedadam",), "curves", clients_per_round=3, **common),
        *grid("synthetic", "fedprox", "mu", {"mu": [0.1, 1.0]}, eval_every=0, **common),
    ]


@pytest.fixture
def small_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("10_other", "23_fair_synthetic")
    plans = {name: Experiment(name, {"rounds": 100}, small_plan) for name in names}
    monkeypatch.setattr(experiments, "EXPERIMENTS", plans)
