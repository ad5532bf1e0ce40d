"""Processes that are killed at any operation on files: nothing is lost, nothing stays behind."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedlib import datasets, files
from fedlib.results import Store
from tests.faults.campaign import Count, cases
from tests.faults.scenes import SCENES, Scene, killed, left_behind, operations

Command = Callable[..., tuple[int, str, str]]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(autouse=True)
def next_process() -> None:
    """As a process that has written nothing yet."""
    files._clean_once.cache_clear()


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_killed_at_any_operation_the_next_process_goes_on(
    tmp_path: Path, scene: Scene, count: Count
) -> None:
    """SIGKILL at every operation; what lay there is there, or what was to be written is."""
    whole = tmp_path / "whole"
    whole.mkdir()
    scene.before(whole)
    with operations(whole) as names:
        scene.write(whole)
    wanted = scene.read(whole)
    for at in cases(range(len(names)), 7):
        with count.case(f"{names[at]}, operation {at} of {len(names)}"):
            place = tmp_path / str(at)
            place.mkdir()
            scene.before(place)
            before = scene.read(place)
            assert killed(lambda place=place: scene.write(place), place, at)  # type: ignore[misc]
            assert scene.sound(scene.read(place), before, wanted)
            files._clean_once.cache_clear()
            scene.write(place)
            assert scene.read(place) == wanted
            assert not left_behind(place)
            shutil.rmtree(place)


def test_a_data_set_that_was_gone_is_back_and_said_to_be(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Killed between the two renames of an import in place of another."""
    scene = next(scene for scene in SCENES if scene.name == "import in place of another")
    scene.before(tmp_path / "p")
    before = scene.read(tmp_path / "p")
    shutil.copytree(tmp_path / "p", tmp_path / "q")
    with operations(tmp_path / "q") as names:
        scene.write(tmp_path / "q")
    between = [at for at, name in enumerate(names) if name == "replace"][-1]
    assert killed(lambda: scene.write(tmp_path / "p"), tmp_path / "p", between)
    assert not (tmp_path / "p" / "prepared" / "own").exists()
    with caplog.at_level(logging.WARNING, logger="fedlib"):
        assert datasets.names(tmp_path / "p").count("own") == 1
    assert "own is back: the process that replaced it was killed" in caplog.text
    assert scene.read(tmp_path / "p") == before


def test_doctor_counts_and_cleans_what_is_left(
    command: Command, own_folders: Path, count: Count
) -> None:
    """Everything that kills can leave, beside something that a living process writes."""
    place = own_folders / "data"
    for scene in SCENES:
        if scene.name.startswith(("import", "prepare", "run", "remember")):
            with operations(own_folders / "again") as names:
                scene.write(own_folders / "again")
            shutil.rmtree(own_folders / "again")
            for at in cases(range(len(names)), 2):
                count()
                killed(lambda scene=scene: scene.write(place), place, at)  # type: ignore[misc]
    alive = place / "prepared" / files.beside(Path("alive")).name
    alive.mkdir(parents=True)
    left = left_behind(place)
    assert len(left) > 1
    status, out, _ = command("doctor", "--json")
    told = json.loads(out)["left behind by killed processes"]
    assert status == 0 and told.endswith("--clean removes them") and int(told.split(":")[0]) >= 1
    assert left_behind(place) == left
    status, out, _ = command("doctor", "--clean", "--json")
    assert status == 0 and len(json.loads(out)["removed"]) == int(told.split(":")[0])
    unfinished = {f"prepared/{alive.name}", "c", "runs/.checkpoints"}
    assert {path for path in left_behind(place) if not path.endswith(".pt")} <= unfinished, (
        "checkpoints of unfinished runs stay, and what a living process writes"
    )
    assert alive.is_dir()


def test_what_another_machine_writes_is_left_alone_for_a_day(tmp_path: Path) -> None:
    other = tmp_path / ".01234567-1-89abcdef.own"
    other.mkdir()
    (other / "x.npy").write_bytes(b"")
    assert files.clean(tmp_path) == []
    for path in (other, other / "x.npy"):
        os.utime(path, (0, 0))
    assert files.clean(tmp_path) == [other] and not other.exists()


WRITER = """
import sys, fedlib
from fedlib.results import Store
task = fedlib.load_task("synthetic", clients=6)
print("up", flush=True)
for seed in range(10**6):
    Store(sys.argv[1], published=[]).run(task, "fedadam", rounds=3, seed=seed)
"""


@pytest.mark.slow
def test_a_process_killed_by_another_leaves_sound_runs(tmp_path: Path, count: Count) -> None:
    """kill -9 from outside, at any time at all."""
    times = cases(range(40), 2)
    for number in times:
        with count.case(number):
            process = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path / "runs")], stdout=subprocess.PIPE
            )
            assert process.stdout is not None
            process.stdout.readline()
            try:
                process.wait(0.05 + 0.037 * number)
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
            store = Store(tmp_path / "runs", published=[])
            for run in store.stored():
                run.history()
    for folder in (tmp_path / "runs").glob("*/"):
        files.clean(folder)
    assert {path.suffix for path in map(Path, left_behind(tmp_path))} <= {"", ".pt"}
