"""Files whose bytes are not what was written: refused or left out in a line that says where."""

from __future__ import annotations

import io
import json
import random
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import fedlib
from fedlib import datasets
from fedlib.results import Store
from fedlib.results.published import publish
from tests.faults.campaign import Count, cases
from tests.faults.scenes import STEPS, TASK, arrays, left_behind

Command = Callable[..., tuple[int, str, str]]

# ------------------------------------------------------------------------------ arrays to import


def header(text: str, data: bytes = b"\0" * 64) -> bytes:
    """A .npy file with any header at all."""
    encoded = text.encode("latin1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(encoded)) + encoded + data


def described(descr: str, shape: str) -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}, []], dtype=object), allow_pickle=True)
    return buffer.getvalue()


HEADERS: dict[str, bytes] = {
    "a brace": header("{"),
    "nothing": b"",
    "no header": b"\x93NUMPY\x01\x00",
    "another version": b"\x93NUMPY\x09\x00" + b"\0" * 80,
    "text": b"hello",
    "an empty header": header(""),
    "no dictionary": header("[1, 2]"),
    "brackets": header("(" * 60_000),
    "code": header("__import__('os').abort()"),
    "a string that does not end": header("{'descr': '"),
    "nulls": header("\0" * 100),
    "2^31 rows": described("'<f8'", "(2147483648, 4)"),
    "2^31 by 2^31": described("'<f4'", "(2147483648, 2147483648)"),
    "10^30 rows": described("'<f4'", "(1000000000000000000000000000000, 4)"),
    "minus one row": described("'<f4'", "(-1, 4)"),
    "half a row": described("'<f4'", "(1.5, 4)"),
    "rows of text": described("'<f4'", "('a', 4)"),
    "no shape": header("{'descr': '<f4', 'fortran_order': False}"),
    "a shape of None": described("'<f4'", "None"),
    "an unknown type": described("'<q9'", "(4, 4)"),
    "a type of None": described("None", "(4, 4)"),
    "a nested type": described("[('a', '<f4'), ('b', '<i8')]", "(4,)"),
    "objects": described("'|O'", "(4, 4)"),
    "pickled objects": pickled(),
    "dates": described("'<M8[s]'", "(4, 2)"),
    "complex numbers": described("'<c8'", "(4, 2)"),
    "text of no width": described("'<U0'", "(4, 4)"),
    "forty dimensions": described("'<f4'", str((1,) * 70)),
}


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return buffer.getvalue()


def sound(tmp_path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(arrays(tmp_path / "sound", 0)) as file:
        return {Path(name).stem: file.read(name) for name in file.namelist()}


@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("member", ["train_x", "test_y"])
def test_arrays_with_impossible_headers_are_refused(
    command: Command, tmp_path: Path, member: str, name: str
) -> None:
    path = tmp_path / "own.npz"
    path.write_bytes(archive(**{**sound(tmp_path), member: HEADERS[name]}))
    status, _, err = command("data", "import", "own", str(path))
    assert status == 2 and err.count("\n") == 1 and "Traceback" not in err, err
    assert member in err
    assert not (tmp_path / "data" / "prepared").exists()


def damages(whole: bytes, number: int) -> list[bytes]:
    """The bytes cut off, with bits flipped, with parts overwritten, repeated and left out."""
    chance = random.Random(number)
    every = []
    for _ in range(number):
        at, length = chance.randrange(len(whole)), chance.randrange(1, 60)
        flipped = bytearray(whole)
        flipped[at] ^= 1 << chance.randrange(8)
        noise = chance.randbytes(length)
        every += [
            whole[:at],
            bytes(flipped),
            whole[:at] + noise + whole[at + length :],
            whole[:at] + whole[at : at + length] * 2 + whole[at + length :],
            whole[:at] + whole[at + length :],
        ]
    return every


def test_a_damaged_file_is_imported_whole_or_refused(tmp_path: Path, count: Count) -> None:
    whole = arrays(tmp_path / "sound", 0).read_bytes()
    text = b'{"client": "a", "split": "train", "text": "t", "label": 1}\n'
    text = text * 2 + text.replace(b"train", b"test")
    files = [("own.npz", bad) for bad in damages(whole, 60)]
    files += [("own.jsonl", bad) for bad in damages(text, 60)]
    for number, (name, bad) in enumerate(cases(files, 120)):
        with count.case(number):
            (tmp_path / name).write_bytes(bad)
            try:
                datasets.import_file("own", tmp_path / name, tmp_path, overwrite=True)
            except fedlib.Error as problem:
                assert "\n" not in str(problem)
            else:
                datasets.verify("own", tmp_path)
    assert not left_behind(tmp_path)


def test_damaged_prepared_data_are_refused_in_a_line(
    command: Command, own_folders: Path, count: Count
) -> None:
    root = own_folders / "data"
    datasets.import_file("own", arrays(own_folders / "sound", 0), root)
    files = sorted((root / "prepared" / "own").iterdir())
    every = [(f, bad) for f in files for bad in [*HEADERS.values(), *damages(f.read_bytes(), 30)]]
    for number, (path, bad) in enumerate(cases(every, 15)):
        with count.case(f"{path.name}, {number}"):
            before = path.read_bytes()
            path.write_bytes(bad)
            for words in (["data", "verify"], ["list", "data"], ["data", "list"]):
                status, _, err = command(*words)
                assert status in (0, 2) and "Traceback" not in err and err.count("\n") <= 1, err
            try:
                datasets.load("own")
            except fedlib.Error as problem:
                assert "\n" not in str(problem)
            path.write_bytes(before)


# Valid JSON of the wrong kind.
ODD = ("{}", "[]", "null", "3", '"x"', "[" * 100_000, '{"format": 1}', "", "\xff", "{")


@pytest.mark.parametrize("content", ODD, ids=lambda text: text[:9] or "empty")
def test_a_broken_card_is_listed_as_broken(
    command: Command, own_folders: Path, content: str
) -> None:
    folder = own_folders / "data" / "prepared" / "own"
    folder.mkdir(parents=True)
    (folder / "card.json").write_bytes(content.encode("latin1"))
    for words in (["list"], ["data", "list"], ["list", "data", "--json"], ["doctor"]):
        status, out, err = command(*words)
        assert status == 0 and "own" in out, err
    status, _, err = command("data", "verify", "own")
    assert status == 2 and err.count("\n") == 1 and "own" in err


def test_a_card_with_any_field_of_another_kind_is_refused(tmp_path: Path, count: Count) -> None:
    datasets.import_file("own", arrays(tmp_path / "sound", 0), tmp_path)
    path = tmp_path / "prepared" / "own" / "card.json"
    card = json.loads(path.read_text())
    odd = (None, 3, -1.5, "x", [], {}, [1], {"a": 1}, True)
    for key, value in cases([(key, value) for key in card for value in odd], 60):
        with count.case(f"{key}={value!r}"):
            path.write_text(json.dumps({**card, key: value}))
            for read in (datasets.verify, datasets.load, datasets.info):
                try:
                    read("own", tmp_path)
                except fedlib.Error as problem:
                    assert "\n" not in str(problem)


# ------------------------------------------------------------------------------------ stored runs


@pytest.fixture
def store(own_folders: Path) -> Store:
    """A store with two runs; figure 1 of FedOpt was drawn from one of them."""
    store = Store(own_folders / "data" / "runs")
    task = fedlib.load_task("quadratic")
    store.run(task, "fedavg", rounds=1, overrides=STEPS)
    store.run(TASK, "fedadam", rounds=1, overrides=STEPS)
    return store


def file_of(store: Store, algorithm: str = "fedavg", suffix: str = ".parquet") -> Path:
    (path,) = store.root.glob(f"*/{algorithm}-*{suffix}")
    return path


def told(command: Command, words: list[str], place: Path) -> None:
    """A damaged run is counted and named in a line, and the exit status says so."""
    status, out, err = command(*words)
    assert status == 1 and out and "Traceback" not in err, (status, err)
    assert "1 damaged files of runs were left out" in err and str(place) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("suffix", [".parquet", ".safetensors"])
def test_doctor_tells_of_every_damaged_file(
    command: Command, store: Store, suffix: str, count: Count
) -> None:
    path = file_of(store, suffix=suffix)
    whole = path.read_bytes()
    every = [bad for bad in damages(whole, 8) if bad != whole]
    for number, bad in enumerate([*cases(every, 3), *(text.encode() for text in ODD[:3])]):
        with count.case(number):
            path.write_bytes(bad)
            told(command, ["doctor", "--json"], path)
            if suffix == ".parquet":
                told(command, ["compare", "fedopt", "--json"], path)
    path.unlink()
    assert command("doctor")[0] == 0  # deleted by the user


def test_figures_tell_of_damaged_runs(command: Command, store: Store) -> None:
    """The run that a figure was drawn from is damaged: exit status 1, in one line."""
    path = file_of(store)
    memory = store.root / "figures" / "fedopt__figure_1.json"
    memory.parent.mkdir(parents=True)
    memory.write_text(json.dumps({"id": "x", "runs": {"cifar10": [path.stem[-16:]]}}))
    path.write_bytes(b"cut")
    status, _, err = command("figures", "fedopt/figure_1")
    assert status == 1 and str(path) in err and err.count("\n") == 1


def test_damaged_published_runs_are_told(
    command: Command, store: Store, own_folders: Path, count: Count
) -> None:
    histories = [run.history() for run in store.stored()]
    results = own_folders / "data" / "results"
    path = publish(results, "own", histories)
    shutil.rmtree(store.root)
    assert command("doctor")[0] == 0
    whole = path.read_bytes()
    for number, bad in enumerate(cases(damages(whole, 40), 12)):
        with count.case(number):
            path.write_bytes(bad)
            status, _, err = command("doctor", "--json")
            assert "Traceback" not in err and err.count("\n") <= 1, err
            assert status == (bad != whole) and (str(path) in err or not status)


def test_a_checkpoint_with_any_change_is_refused(tmp_path: Path, count: Count) -> None:
    settings = {"rounds": 3, "overrides": STEPS, "checkpoint": tmp_path, "checkpoint_every": 1}

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("fedlib.engine.evaluation.Recorder.histories", stop)
        fedlib.run(TASK, "fedavg", **settings)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for number, bad in enumerate(cases(damages(whole, 100), 60)):
        if bad == whole:
            continue
        with count.case(number):
            path.write_bytes(bad)
            with pytest.raises(fedlib.Error, match=r"is damaged .*; delete it to start again"):
                fedlib.run(TASK, "fedavg", **settings)
    path.write_bytes(whole)
    assert fedlib.run(TASK, "fedavg", **settings).frame["round"].max() == 3
