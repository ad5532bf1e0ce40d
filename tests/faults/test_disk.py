"""Processes that are killed, disks that are full, break or may not be written: nothing is lost.

``kill -9`` anywhere, or a failure that is told in one line; then again, and all is equal.
"""

import errno
import os
import shutil
from itertools import product
from pathlib import Path

import pytest

import fedlib
from fedlib import files
from fedlib.engine.program import Program
from fedlib.errors import Failure
from fedlib.results import Store
from tests.faults import scenes
from tests.faults.campaign import case, cases
from tests.faults.scenes import STEPS, TASK, arrays, failing, left_behind

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def next_process(monkeypatch):
    """As a process that has written nothing yet, long after a killed one."""
    files.clean.cache_clear()
    monkeypatch.setattr(files, "DEAD_SECONDS", -1.0)


KILL = 0
NUMBERS = (KILL, errno.ENOSPC) if hasattr(os, "fork") else (errno.ENOSPC,)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("scene", scenes.SCENES, ids=lambda scene: scene.name)
def test_killed_or_failing_at_any_operation_nothing_is_half_written_and_the_next_one_goes_on(
    tmp_path, scene, number
):
    """Every operation in turn; then what lay there is there, or what was to be written."""
    whole = tmp_path / "whole"
    whole.mkdir()
    scene.before(whole)
    with scenes.operations(whole) as names:
        scene.write(whole)
    expected = scene.read(whole)
    assert expected and not left_behind(whole)
    if scene.name in ("run", "publish again"):  # contents come to the disk before their name
        assert "fsync" in names[: names.index("os.rename")]
    renames = [at for at, name in enumerate(names) if name == "os.rename"]
    for at in sorted({*renames[:5], *cases(range(len(names)), 4)}):
        with case(f"{names[at]}, operation {at} of {len(names)}"):
            place = tmp_path / str(at)
            place.mkdir()
            scene.before(place)
            before, told = scene.read(place), ""
            if number == KILL:
                assert scenes.killed(lambda place=place: scene.write(place), place, at)
            else:
                with scenes.operations(place, at, failing(number)) as done:
                    try:
                        scene.write(place)
                    except fedlib.Error as problem:
                        told = str(problem)
                assert len(done) > at
                kept = [each for each in left_behind(place) if not each.endswith((".pt", "points"))]
                # A removal that failed leaves what the next process removes.
                assert not kept or names[at] in scenes.REMOVALS or "raw" in kept[0], kept
            after = scene.read(place)
            assert after == expected or (
                (told or number == KILL) and scene.sound(after, before, expected)
            )
            files.clean.cache_clear()
            scene.write(place)
            assert scene.read(place) == expected and not left_behind(place)
            shutil.rmtree(place)


# Where nothing can be written: files, devices, the kernel's, a long name, a dangling link's.
UNWRITABLE = ["{}/file", "{}/file/deeper/down", "/dev/full", "/dev/null/x", "/proc/fedlib"]
UNWRITABLE += [f"{{}}/{'x' * 300}", "{}/link/x"]


@pytest.fixture
def unwritable(tmp_path, request, monkeypatch):
    """Such a place; nothing may be trained before it is tried."""
    (tmp_path / "file").write_text("precious")
    (tmp_path / "link").symlink_to(tmp_path / "link")
    monkeypatch.setattr(Program, "_advance", failing(errno.EDOM))
    return Path(request.param.format(tmp_path))


@pytest.mark.parametrize("unwritable", UNWRITABLE, indirect=True)
def test_a_store_and_a_checkpoints_folder_are_tried_before_training(unwritable):
    run = Store(unwritable, published=[]).run
    for call, where in ((run, {}), (fedlib.run, {"checkpoint": unwritable})):
        with pytest.raises(fedlib.Error, match=r"^cannot write .*nothing .*FEDLIB_D") as caught:
            call(TASK, "fedavg", rounds=1, overrides=STEPS, **where)
        assert not isinstance(caught.value, Failure)


# "{}" is the place, which "FIGURES" makes the folder of figures.
COMMANDS = [
    "run quadratic fedavg --rounds 1 --data-root {}",
    "grid quadratic fedavg client_lr=1,2 --data-root {}",
    "sweep 23 --data-root {}",
    "reproduce 23 --output {}",
    "publish 23 --to {}",
    "data import own {own} --data-root {}",
    "FIGURES reproduce 23",
    "FIGURES figures mime/figure_1",
]


@pytest.mark.parametrize(
    ("unwritable", "words"), cases(product(UNWRITABLE, COMMANDS), 14), indirect=["unwritable"]
)
def test_commands_that_cannot_write_exit_2_with_one_line(
    command, unwritable, tmp_path, monkeypatch, words
):
    if words.startswith("FIGURES"):
        monkeypatch.setenv("FEDLIB_FIGURES", str(unwritable))
    own = arrays(tmp_path, 0)
    given = [word.format(unwritable, own=own) for word in words.split() if word != "FIGURES"]
    command.refused("", *given)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_run_that_cannot_be_stored_keeps_what_was_trained(tmp_path, monkeypatch):
    """The disk fills up after the last round: asked again, nothing is trained a second time."""
    store = Store(tmp_path / "runs", published=[])
    whole = fedlib.run(TASK, "fedavg", rounds=3, overrides=STEPS)

    def full(*_):
        raise Failure("cannot write it: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedlib.results.store.write_runs", full)
        with pytest.raises(Failure, match=r"No space left .* The trained state is in"):
            store.run(TASK, "fedavg", rounds=3, overrides=STEPS)
    with monkeypatch.context() as patch:
        patch.setattr(Program, "_advance", failing(errno.EDOM))
        history = store.run(TASK, "fedavg", rounds=3, overrides=STEPS)
    assert history.frame.equals(whole.frame) and not left_behind(tmp_path)


def test_what_another_process_may_be_writing_stays_for_a_day(tmp_path, monkeypatch):
    monkeypatch.undo()
    fresh, old = files.beside(tmp_path / "a.pt"), files.beside(tmp_path / "b")
    fresh.touch()
    old.mkdir()
    os.utime(old, (0, 0))
    files.write(tmp_path / "c", b"")
    assert sorted(tmp_path.iterdir()) == sorted([fresh, tmp_path / "c"])


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_was_moved_away_comes_back_unless_it_was_replaced(
    tmp_path, monkeypatch, replaced
):
    """The process was killed before or after the new one had the name; at once, not in a day."""
    monkeypatch.undo()
    path, old = tmp_path / "a", tmp_path / f"{files.OLD}a"
    for folder in (old, path) if replaced else (old,):
        (folder / folder.name).mkdir(parents=True)
    files.recover(tmp_path)
    assert [part.name for part in path.iterdir()] == ["a" if replaced else old.name]
    (old / "again").mkdir(parents=True)
    with files.replacing(path) as aside:
        (aside / "new").mkdir(parents=True)
    assert list(tmp_path.rglob("*")) == [path, path / "new"]
