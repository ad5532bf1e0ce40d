"""Files whose bytes are not what was written: refused or left out in a line that says where."""

import logging
import random

import fedlib
from fedlib import datasets
from fedlib.results import Store
from tests.faults.campaign import case, cases
from tests.faults.scenes import STEPS, TASK, arrays, left_behind


def damages(whole, number):
    """The bytes cut off, with bits flipped, with parts overwritten, repeated and left out."""
    chance = random.Random(number)
    every = []
    for _ in range(number):
        at, length = chance.randrange(len(whole)), chance.randrange(1, 60)
        head, part, tail = whole[:at], whole[at : at + length], whole[at + length :]
        flipped = bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :]
        noise = chance.randbytes(length)
        every += [head, head + flipped, head + noise + tail, head + part + part + tail, head + tail]
    return [bad for bad in every if bad != whole]


def test_a_damaged_file_is_imported_whole_or_refused(tmp_path):
    """Of an archive the same values or none; what a text should say nobody knows."""
    text = b'{"client": "a", "split": "train", "text": "t", "label": 1}\n'
    text = text * 2 + text.replace(b"train", b"test")
    sound = arrays(tmp_path / "sound", 0)
    expected = datasets.import_file("own", sound, tmp_path / "sound")["fingerprint"]
    files = [("own.npz", bad) for bad in (b"", b"no", *damages(sound.read_bytes(), 60))]
    files += [("own.jsonl", bad) for bad in damages(text, 60)]
    for number, (name, bad) in enumerate(cases(files, 120)):
        with case(number):
            (tmp_path / name).write_bytes(bad)
            try:
                datasets.import_file("own", tmp_path / name, tmp_path, overwrite=True)
                found = datasets.verify("own", tmp_path)["fingerprint"]
                assert found == expected or name == "own.jsonl"
            except fedlib.Error as problem:
                assert str(problem)
    assert not left_behind(tmp_path)


def test_every_damaged_run_is_counted_and_named_and_the_exit_status_says_so(command, caplog):
    caplog.set_level(logging.ERROR)  # as in the command's own process, where pytest sets none
    store = Store()
    store.run(fedlib.load_task("quadratic"), "fedavg", rounds=1, overrides=STEPS)
    store.run(TASK, "fedadam", rounds=1, overrides=STEPS)
    (path,) = store.root.glob("*/fedavg-*.parquet")
    (store.root / "synthetic").mkdir()  # among the runs of a figure's task
    path = path.rename(store.root / "synthetic" / path.name)
    for number, bad in enumerate([b"", b"{}", *cases(damages(path.read_bytes(), 8), 3)]):
        path.write_bytes(bad)
        for words in (["doctor"], ["compare", "fedopt"], ["figures", "adafedadam/figure_3"]):
            with case(f"{words}, {number}"):
                status, _, err = command(*words, "--json")
                assert status == 1 and err.count("\n") == 1 and str(path) in err, (status, err)
                assert "1 damaged or unreadable files of runs were left out" in err
    path.unlink()
    assert command("doctor")[0] == 0  # deleted by the user
