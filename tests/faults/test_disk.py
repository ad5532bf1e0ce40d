"""Disks that are full, break or may not be written: told in one line, and nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import fedlib
from fedlib.engine.program import Program
from fedlib.engine.states import Progress
from fedlib.errors import Failure
from fedlib.results import Store
from tests.faults.campaign import Count, cases
from tests.faults.scenes import (
    REMOVALS,
    SCENES,
    STEPS,
    TASK,
    Scene,
    arrays,
    failing,
    left_behind,
    operations,
)

Command = Callable[..., tuple[int, str, str]]


def one_line(problem: fedlib.Error) -> None:
    text = str(problem)
    assert text and "\n" not in text, text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES], ids=os.strerror)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_whatever_operation_fails_nothing_is_half_written(
    tmp_path: Path, scene: Scene, number: int, count: Count
) -> None:
    """Every operation in turn; then what lay there is there, or what was to be written."""
    whole = tmp_path / "whole"
    whole.mkdir()
    scene.before(whole)
    with operations(whole) as names:
        scene.write(whole)
    wanted, seen = scene.read(whole), len(names)
    assert wanted and not left_behind(whole)
    for at in cases(range(seen), 4, seed=number):
        with count.case(f"{names[at]}, operation {at} of {seen}"):
            place = tmp_path / str(at)
            place.mkdir()
            scene.before(place)
            before, told = scene.read(place), None
            with operations(place, at, failing(number)) as done:
                try:
                    scene.write(place)
                except fedlib.Error as problem:
                    told = problem
                    one_line(problem)
            assert len(done) > at
            after = scene.read(place)
            assert after == (wanted if told is None else before) or after == wanted
            kept = [name for name in left_behind(place) if not name.endswith((".pt", "kpoints"))]
            # A removal that failed leaves what the next process removes.
            assert not kept or names[at] in REMOVALS or "raw" in kept[0], kept
            scene.write(place)
            assert scene.read(place) == wanted
            shutil.rmtree(place)


# ----------------------------------------------------------------------- before anything is done

# Where nothing can be written, by name: made of a test's folder.
UNWRITABLE: dict[str, Callable[[Path], Path]] = {
    "a file": lambda place: place / "file",
    "below a file": lambda place: place / "file" / "deeper" / "down",
    "a device": lambda place: Path("/dev/full"),
    "below a device": lambda place: Path("/dev/null/x"),
    "of the kernel": lambda place: Path("/proc/fedlib"),
    "a long name": lambda place: place / ("x" * 300),
    "a dangling link's": lambda place: place / "link" / "x",
}


@pytest.fixture
def unwritable(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "link")
    return UNWRITABLE[request.param](tmp_path)


everywhere = pytest.mark.parametrize("unwritable", list(UNWRITABLE), indirect=True)


@pytest.fixture
def untrained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a round was trained")

    monkeypatch.setattr(Program, "_advance", refuse)


@everywhere
def test_a_store_is_tried_before_training(unwritable: Path, untrained: None) -> None:
    with pytest.raises(fedlib.Error, match=r"cannot write .*; nothing has been") as caught:
        Store(unwritable, published=[]).run(TASK, "fedavg", rounds=1, overrides=STEPS)
    one_line(caught.value)
    assert not isinstance(caught.value, Failure)


@everywhere
def test_a_checkpoints_folder_is_tried_before_training(unwritable: Path, untrained: None) -> None:
    with pytest.raises(fedlib.Error, match=r"cannot write .*; nothing has been"):
        fedlib.run(TASK, "fedavg", rounds=1, overrides=STEPS, checkpoint=unwritable)


COMMANDS: dict[str, list[str]] = {
    "run": ["run", "quadratic", "fedavg", "--rounds", "1", "--data-root", "{}"],
    "grid": ["grid", "quadratic", "fedavg", "client_lr=1,2", "--data-root", "{}"],
    "sweep": ["sweep", "23", "--data-root", "{}"],
    "reproduce": ["reproduce", "23", "--output", "{}"],
    "publish": ["publish", "23", "--to", "{}"],
    "import": ["data", "import", "own", "{own}", "--data-root", "{}"],
}


@pytest.mark.parametrize(
    ("unwritable", "name"), cases(product(UNWRITABLE, COMMANDS), 12), indirect=["unwritable"]
)
def test_commands_that_cannot_write_exit_2_with_one_line(
    command: Command, unwritable: Path, untrained: None, tmp_path: Path, name: str
) -> None:
    own = arrays(tmp_path, 0)
    words = [word.format(unwritable, own=own) for word in COMMANDS[name]]
    status, _, err = command(*words)
    assert status == 2 and err.count("\n") == 1 and "Traceback" not in err, (status, err)
    assert (tmp_path / "file").read_text() == "precious"


@everywhere
@pytest.mark.parametrize("words", [["reproduce", "23"], ["figures", "mime/figure_1"]], ids=str)
def test_an_unwritable_folder_of_figures_exits_2_with_one_line(
    command: Command, unwritable: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("FEDLIB_FIGURES", str(unwritable))
    status, _, err = command(*words)
    assert status == 2 and err.count("\n") == 1 and "Traceback" not in err, (status, err)


# ------------------------------------------------------------------------------- a real full disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mounts a file system of its own, or changes its size; skips where that is not allowed."""
    place = tmp_path / "disk"
    mounted = False

    def mount(**options: Any) -> Path:
        nonlocal mounted
        place.mkdir(exist_ok=True)
        given = ",".join(f"{name}={value}" for name, value in options.items())
        again = "remount," if mounted else ""
        words = ["mount", "-t", "tmpfs", "-o", again + given, "tmpfs", str(place)]
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            if mounted:
                raise
            pytest.skip("mounting a file system is not allowed here")
        mounted = True
        return place

    yield mount
    if mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_a_disk_of_any_size_takes_all_or_nothing(
    disk: Callable[..., Path], scene: Scene, count: Count
) -> None:
    """Real disks with room for ever more pages, or for ever more files."""
    sizes = [{"size": 4096 * pages, "nr_inodes": 400} for pages in (1, 2, 3, 5, 8, 13, 21, 34)]
    sizes += [{"size": 2**22, "nr_inodes": files} for files in range(2, 14)]
    for size in cases(sizes, 4):
        with count.case(size):
            place = disk(size="4m", nr_inodes=400)
            for path in place.iterdir():
                shutil.rmtree(path)
            scene.before(place)
            before = scene.read(place)
            used = sum(1 for _ in place.rglob("*"))
            try:
                disk(**{**size, "nr_inodes": size["nr_inodes"] + used})
                scene.write(place)
                wanted = [scene.read(place)]
            except fedlib.Error as problem:
                one_line(problem)
                disk(size="4m", nr_inodes=400)
                after = scene.read(place)
                scene.write(place)
                wanted = [scene.read(place)]
                assert after in (before, *wanted)
            except subprocess.CalledProcessError:
                continue  # smaller than what lies there
            assert wanted[0] and not left_behind(place)


@pytest.mark.parametrize("rounds", cases(range(1, 9), 3))
def test_a_disk_that_fills_up_during_a_run_still_takes_its_checkpoint(
    disk: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    """Full after so many rounds; SIGTERM leaves a checkpoint, from which the run goes on."""
    place = disk(size="1m")
    settings: dict[str, Any] = {"rounds": 9, "seed": rounds, "overrides": STEPS}
    whole = fedlib.run(TASK, "fedadam", **settings)
    advance = Program._advance

    def fill_up() -> None:
        with open(place / "filler", "ab", buffering=0) as file, pytest.raises(OSError):
            while True:
                file.write(bytes(4096))

    def fill(self: Program, now: Progress, number: int) -> None:
        advance(self, now, number)
        if now.done == rounds:
            fill_up()
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(Program, "_advance", fill)
        with pytest.raises(KeyboardInterrupt, match=f"stopped after round {rounds}"):
            fedlib.run(TASK, "fedadam", checkpoint=place / "state", **settings)
    assert len(list((place / "state").iterdir())) == 1
    fill_up()
    with pytest.raises(fedlib.Error, match=r"No space left .* nothing has been done"):
        fedlib.run(TASK, "fedadam", checkpoint=place / "state", **settings)
    (place / "filler").unlink()
    again = fedlib.run(TASK, "fedadam", checkpoint=place / "state", **settings)
    assert whole.frame.equals(again.frame) and not (place / "state").exists()


def test_a_run_that_cannot_be_stored_keeps_what_was_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fills up after the last round: asked again, nothing is trained a second time."""
    store = Store(tmp_path / "runs", published=[])
    whole = fedlib.run(TASK, "fedavg", rounds=3, overrides=STEPS)
    with monkeypatch.context() as patch:
        full = failing(errno.ENOSPC)
        patch.setattr(os, "fsync", full)
        with pytest.raises(Failure, match=r"No space left .* the trained state is in"):
            store.run(TASK, "fedavg", rounds=3, overrides=STEPS)
    with monkeypatch.context() as patch:
        patch.setattr(Program, "_advance", full)
        history = store.run(TASK, "fedavg", rounds=3, overrides=STEPS)
    assert history.frame.equals(whole.frame) and not left_behind(tmp_path)


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third one fails; the run ends with one line and goes on from the second."""
    settings: dict[str, Any] = {"rounds": 5, "overrides": STEPS}
    settings |= {"checkpoint": tmp_path / "c", "checkpoint_every": 1}
    whole = fedlib.run(TASK, "fedavg", **settings)
    replaced = iter(range(10))
    replace = os.replace

    def full(*names: Any) -> None:
        if next(replaced) == 2:
            failing(errno.EIO)("replace")
        replace(*names)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(Failure, match=r"cannot write a checkpoint .* the one before is kept"):
            fedlib.run(TASK, "fedavg", **settings)
    seen = []
    advance = Program._advance

    def watched(self: Program, now: Progress, number: int) -> None:
        seen.append(number)
        advance(self, now, number)

    monkeypatch.setattr(Program, "_advance", watched)
    assert fedlib.run(TASK, "fedavg", **settings).frame.equals(whole.frame)
    assert seen == [2, 3, 4]
