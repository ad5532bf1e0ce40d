"""The run store: what is read equals what was computed, and nothing half-written is ever seen."""

import functools
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import fedlib
from fedlib import engine, files
from fedlib.engine.checkpoint import file_stem
from fedlib.errors import Failure
from fedlib.results import Store
from fedlib.results import files as store_module
from fedlib.results.files import pack, write_runs
from tests.refusals import refused

STEPS = {"local_steps": 1}


def same(a, b):
    pd.testing.assert_frame_equal(a.frame, b.frame, check_exact=True)
    pd.testing.assert_frame_equal(a.clients, b.clients, check_exact=True)
    assert a.config == b.config
    assert list(a.params) == list(b.params)
    for name, tensor in a.params.items():
        assert tensor.dtype == b.params[name].dtype
        assert torch.equal(tensor, b.params[name])
    return True


def test_the_commit_of_a_run_is_that_of_the_code_that_trained_it(store, quadratic, monkeypatch):
    commits, execute = ["before"], engine.execute
    known = functools.cache(lambda: {"commit": commits[-1], "dirty": False})
    monkeypatch.setattr(store_module, "_commit", known)

    def training(*given, **settings):
        commits.append("after")  # somebody commits meanwhile
        return execute(*given, **settings)

    monkeypatch.setattr(engine, "execute", training)
    assert store.run(quadratic, "fedavg", rounds=1).meta["git"]["commit"] == "before"


def leftovers(store):
    return [p for p in store.root.rglob("*") if p.name.startswith(".")]


def test_a_stored_run_equals_the_computed_one(store, synthetic, no_training):
    plain = fedlib.run(synthetic, "fedadam", rounds=2, seed=3)
    first = store.run(synthetic, "fedadam", rounds=2, seed=3)
    same(plain, first)
    no_training()
    execution = {"backend": "plain", "chunk_clients": 1, "device": "cpu"}  # not in the digest
    second = store.run(synthetic, "fedadam", rounds=2, seed=3, **execution)
    same(plain, second)
    assert first.meta == second.meta
    assert {"fedlib", "python", "torch"} <= set(second.meta["versions"])
    same(second, store.load(plain.config.digest))
    final = second.final("accuracy")
    second.frame["value"] /= 2  # the caller's own
    assert second.final("accuracy") == final / 2
    names = sorted(path.name for path in (store.root / "synthetic").iterdir())
    stem = f"fedadam-{plain.config.digest}"
    assert names == [f"{stem}.parquet", f"{stem}.safetensors"]
    assert not leftovers(store)


def test_odd_floats_and_names_survive(store, quadratic):
    history = fedlib.run(quadratic, "fedavg", rounds=1, overrides=STEPS)
    odd = [0.1 + 0.2, 5e-324, -1.7976931348623157e308, float("inf"), float("nan"), -0.0]
    columns = {"split": "test", "metric": "loss", "value": odd}
    history.frame = pd.DataFrame({"round": range(6), **columns})
    names = ["NA", "007", "a,b", 'q"', "", "nan"]
    history.clients = pd.DataFrame({"client": names, **columns, "examples": range(6)})
    write_runs(store.root, [(quadratic, history)], True)
    read = store.load(history.config.digest)
    same(history, read)
    assert np.signbit(read.frame["value"].iloc[-1])
    for name in ("a" * 500, "漢" * 200, "..", "", "x\ny"):
        long = fedlib.quadratic_task(np.ones((2, 1, 1)), np.ones((2, 1)), name=name)
        settings = {"rounds": 1, "overrides": STEPS}
        assert store.run(long, "fedavg", **settings).config.digest in store.paths()


def test_runs_trains_only_what_is_missing_and_shares_programs(store, quadratic, trained):
    given = {**STEPS, "client_lr": 0.3}  # over which a request's win
    common = {"rounds": 2, "eval_every": 1, "overrides": given}
    known = store.run(quadratic, "fedavg", **common)
    trained.clear()
    requests = [
        {"algorithm": "fedavg"},
        {"algorithm": "fedavg", "overrides": {"client_lr": 0.1}},
        {"algorithm": "fedavg", "overrides": {"client_lr": 0.2}},
        {"algorithm": "fedadam", "eval_every": 2},  # never in one program with the others
        {"algorithm": "fedavg", "overrides": {"client_lr": 0.1}},
    ]
    histories = store.runs(quadratic, requests, **common)
    assert sorted(len(program) for program in trained) == [1, 2]
    same(histories[0], known)
    same(histories[1], histories[4])
    for request, history in zip(requests, histories, strict=True):
        overrides = {**given, **request.get("overrides", {})}
        every = request.get("eval_every", 1)
        settings = {"rounds": 2, "eval_every": every, "overrides": overrides}
        same(fedlib.run(quadratic, request["algorithm"], **settings), history)


def test_the_state_that_a_killed_process_left_of_stored_runs_goes_with_the_next_answer(
    store, quadratic
):
    history = store.run(quadratic, "fedavg", rounds=1)
    left = store.checkpoints / f"{file_stem([history.config.digest])}.pt"
    for algorithms in (["fedavg"], ["fedavg", "scaffold"]):
        store.checkpoints.mkdir(exist_ok=True)
        left.write_bytes(b"stored long ago")
        store.runs(quadratic, [{"algorithm": name} for name in algorithms], rounds=1)
        assert not left.exists()


def test_wrong_keywords_are_named(store, quadratic):
    own = {"algorithm": "fedavg"}
    refused("unknown keyword 'round': did you mean", store.runs, quadratic, [own], round=2)
    odd = {**own, "device": "cpu"}
    refused("unknown keyword of a request 'device'", store.runs, quadratic, [odd])
    refused("names no algorithm", store.runs, quadratic, [{"rounds": 1}])
    refused("16 hex digits", store.load, "../../etc")


@pytest.mark.parametrize("seed", [0, [0, 1]])
def test_grid_equals_fedlib_grid_and_is_stored(store, quadratic, no_training, seed):
    axes = {"client_lr": [0.1, 0.2], "server_lr": [0.5, 1.0]}
    common = {"rounds": 2, "overrides": STEPS, "seed": seed}
    expected = fedlib.grid(quadratic, "fedavg", **common, **axes)
    for _ in range(2):
        frame = store.grid(quadratic, "fedavg", **common, **axes)
        pd.testing.assert_frame_equal(frame, expected, check_exact=True)
        no_training()
    assert len(store.frame()) == (8 if seed else 4)
    assert not list(store.root.rglob("*.safetensors"))


def test_parameters_that_were_not_kept_are_empty(store, quadratic):
    first = store.run(quadratic, "fedavg", rounds=1, overrides=STEPS, keep_params=False)
    assert first.params  # still in memory
    settings = {"rounds": 1, "overrides": STEPS}
    assert store.run(quadratic, "fedavg", **settings).params == {}
    assert store.run(quadratic, "fedavg", **settings, refresh=True).params
    assert store.load(first.config.digest).params
    assert store.load(first.config.digest, params=False).params == {}


@pytest.mark.parametrize("suffix", [".parquet", ".safetensors"])
def test_a_damaged_run_is_named_and_trained_again(store, quadratic, caplog, suffix):
    """One kind of damage here: tests/faults and test_published.py try all."""
    good = store.run(quadratic, "fedavg", rounds=1, overrides=STEPS)
    path = store.paths()[good.config.digest].with_suffix(suffix)
    path.write_bytes(path.read_bytes()[:-4])
    refused(f"^damaged runs {path}.*Delete it", store.load, good.config.digest)
    with caplog.at_level(logging.WARNING, logger="fedlib"):
        again = store.run(quadratic, "fedavg", rounds=1, overrides=STEPS)
    assert str(path) in caplog.text and "trained again" in caplog.text
    same(good, again)
    same(good, store.load(good.config.digest))
    assert not leftovers(store)


def test_metadata_that_unfold_to_more_than_a_run_has_are_damage(store, quadratic, monkeypatch):
    history = store.run(quadratic, "fedavg", rounds=1, overrides=STEPS)
    path = store.paths()[history.config.digest]
    history.meta["note"] = "x" * 2**22
    path.write_bytes(pack([history]))
    assert path.stat().st_size < 2**14 and store.load(history.config.digest)
    monkeypatch.setattr("fedlib.results.files.MOST", 2**20)
    path.write_bytes(pack([history, history]))
    refused("its metadata are larger than 1 MiB", store.load, history.config.digest)


def test_parameters_do_not_stay_where_their_run_could_not_be_written(store, quadratic, monkeypatch):
    def full(path, replacing=files.replacing):
        if path.suffix in (".parquet", ".pt"):
            raise Failure(f"cannot write {path}: No space left on device")
        return replacing(path)

    monkeypatch.setattr(files, "replacing", full)
    words = r"\.parquet: No space .*cannot write"  # and of the checkpoint
    refused(words, store.run, quadratic, "fedavg", rounds=1, overrides=STEPS)
    assert not [*store.root.rglob("*.safetensors")]


@pytest.mark.parametrize("why", ["newer", "forbidden"])
def test_a_file_that_may_be_whole_is_not_written_over(store, quadratic, monkeypatch, why):
    def forbidden(path):
        raise PermissionError(13, "Permission denied")

    run = store.run(quadratic, "fedavg", rounds=1, overrides=STEPS)
    path = store.paths()[run.config.digest]
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "FORMAT", b"9")
        path.write_bytes(store_module.pack([run]))
    there = path.read_bytes()
    if why == "forbidden":
        monkeypatch.setattr(Path, "read_bytes", forbidden)
    words = {"newer": "format 9.*move it away", "forbidden": "Permission denied. Check its perm"}
    refused(words[why], store.run, quadratic, "fedavg", rounds=1, overrides=STEPS)
    monkeypatch.undo()
    assert path.read_bytes() == there


def test_a_file_that_holds_another_run_than_its_name_says_and_a_link_to_nowhere(store, quadratic):
    runs = [store.run(quadratic, "fedavg", rounds=1, seed=seed, overrides=STEPS) for seed in (0, 1)]
    first, second = (store.paths()[run.config.digest] for run in runs)
    second.write_bytes(first.read_bytes())
    refused("not in it. Delete it", store.load, runs[1].config.digest)
    same(store.run(quadratic, "fedavg", rounds=1, seed=1, overrides=STEPS), runs[1])
    second.unlink()
    second.symlink_to("nowhere")
    assert list(store.frame()["digest"]) == [runs[0].config.digest]
    same(store.run(quadratic, "fedavg", rounds=1, seed=1, overrides=STEPS), runs[1])


def test_the_runs_of_a_program_are_in_one_file_and_a_newer_one_counts(store, quadratic):
    requests = [{"overrides": {**STEPS, "client_lr": rate}} for rate in (0.1, 0.2, 0.3)]
    runs = store.runs(quadratic, requests, algorithm="fedavg", rounds=1)
    (path,) = {store.paths()[run.config.digest] for run in runs}
    assert path.stem.endswith("x3") and len(list(path.parent.glob("*.safetensors"))) == 3
    again = store.run(quadratic, "fedavg", rounds=1, **requests[1], refresh=True)
    assert store.paths()[again.config.digest] != path == store.paths()[runs[0].config.digest]
    assert [run.path for run in store.stored()].count(path) == 2
    for one in runs:
        same(one, store.load(one.config.digest))
    path.write_bytes(b"cut")
    other = Store(store.root)
    assert again.config.digest in other.paths() and runs[0].config.digest not in other.paths()


def test_a_frame_has_sound_runs(store, quadratic, caplog):
    store.run(quadratic, "fedavg", rounds=1, seed=4, overrides=STEPS)
    wild = {**STEPS, "client_lr": 1e30}
    store.run(quadratic, "fedavg", rounds=9, seed={"init": 1}, overrides=wild)
    bad = store.run(quadratic, "fedadam", rounds=1, overrides=STEPS)
    store.paths()[bad.config.digest].write_bytes(b"cut")
    frame = store.frame().set_index("rounds")
    assert bad.config.digest in caplog.text and list(frame["algorithm"]) == ["fedavg", "fedavg"]
    assert frame.loc[1, "seed"] == 4 and pd.isna(frame.loc[9, "seed"])
    assert frame.loc[9, ["seed.init", "seed.sampling"]].tolist() == [1, 0]
    assert pd.isna(frame.loc[1, "diverged"]) and frame.loc[9, "diverged"] >= 1
    assert all(Path(path).is_file() for path in frame["path"]) and not frame["stand_in"].any()


def test_a_root_may_start_with_a_tilde(quadratic, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEDLIB_DATA", "~/runs of mine")
    digests = [Store().run(quadratic, "fedavg", seed=seed).config.digest for seed in (0, 0, 1)]
    assert (tmp_path / "runs of mine" / "runs").is_dir()
    assert set(Store().paths()) == set(digests)


def test_a_run_that_another_process_stores_or_removes_is_seen_at_once(store, quadratic):
    def made(steps):
        own = {"local_steps": steps}
        return Store(store.root).run(quadratic, "fedavg", rounds=1, overrides=own)

    first = made(1).config
    assert first.digest in store.paths()
    second = made(2).config
    assert second.digest in store.paths() and store.load(second.digest).config == second
    store.paths()[first.digest].unlink()
    assert first.digest not in store.paths()


def test_several_writers_may_finish_the_same_run(store, quadratic):
    history = fedlib.run(quadratic, "fedavg", rounds=1, overrides=STEPS)

    def write(_):
        for _ in range(15):
            write_runs(store.root, [(quadratic, history)], True)
        return True

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(write, range(4)))
    same(history, store.load(history.config.digest))
    assert not leftovers(store)
