"""``fedlib repeat``: published runs come out again, and what does not is said."""

import dataclasses
from pathlib import Path

import pytest

import fedlib
from fedlib.reproduction import repeat
from fedlib.results import Store
from fedlib.results.files import open_runs
from fedlib.results.published import publish
from fedlib.results.reading import hyperparameters

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results"
METHODS = {
    "fedavg": {},
    "fedadam": {"tau": 0.01},
    "mime": {"base": "momentum"},
    "centralized": {"local_steps": 2, "base": "adagrad"},
    "fedprox": {"client_optimizer": "sgdm", "momentum": 0.5, "mu": 0.1},
}


@pytest.fixture
def made(own_folders):
    """Small runs, each trained alone, as it will be again."""
    task = fedlib.load_task("synthetic", clients=6, seed=3)
    store = Store(own_folders / "elsewhere", published=[])
    how = {
        "rounds": 4,
        "eval_every": 3,
        "eval_last": 2,
        "seed": {"init": 1},
        "clients_per_round": 3,
    }
    return [store.run(task, name, overrides=own, **how) for name, own in METHODS.items()]


@pytest.fixture
def words(own_folders, made):
    """Publish runs, by default those made; the words of a command that repeats them."""

    def publish_them(histories=made, name="12_small"):
        publish(own_folders / "published", name, histories, {"synthetic"})
        return ["repeat", "--from", str(own_folders / "published")]

    return publish_them


def changed(history, frame=None, **task):
    """A run with another frame or of another task."""
    config = dataclasses.replace(history.config, task={**history.config.task, **task})
    return dataclasses.replace(
        history, config=config, frame=history.frame if frame is None else frame
    )


def test_published_runs_come_out_bit_for_bit_and_nothing_is_stored(
    command, words, made, own_folders, trained
):
    trained.clear()
    said = command.json(*words(), "12", "--to", str(own_folders / "table.csv"))
    assert said["agree"] == said["bit_equal"] == said["repeated"] == len(made)
    assert {row["digest"] for row in said["runs"]} == {run.config.digest for run in made}
    assert sorted(trained) == sorted([run.config.digest] for run in made)  # alone, not answered
    finals = {run.config.digest: round(run.final(), 7) for run in made}
    assert {row["digest"]: round(row["now"], 7) for row in said["runs"]} == finals
    assert not (own_folders / "data" / "runs").exists()
    assert (own_folders / "table.csv").read_text().count("\n") == 1 + len(made)


def test_a_changed_number_is_seen_and_one_beyond_the_tolerance_ends_with_1(
    command, words, made, own_folders
):
    first, *others, second, last = made
    by = {"accuracy": 1e-6}
    slightly = first.frame.assign(
        value=first.frame["value"] + first.frame["metric"].map(by).fillna(0)
    )
    far = second.frame.assign(value=second.frame["value"] - 0.5)
    runs = [changed(first, slightly), changed(second, far), *others, last]
    table = own_folders / "table.md"
    status, out, _ = command(*words(runs), "12", "--to", str(table))
    verdicts = [line.rsplit("| ", 1)[1] for line in table.read_text().splitlines()[2:-2]]
    assert status == 1 and sorted(verdicts) == ["agrees |", *["bit-equal |"] * 3, "differs |"]
    assert "4 of 5 runs agree within the tolerance, 3 are bit-equal" in out


def test_what_cannot_be_repeated_here_is_said_in_a_line(command, words, made, no_training):
    no_training()
    gpu = dataclasses.replace(made[0], meta={**made[0].meta, "device": "a GPU"})
    real = changed(made[1], name="cifar10", options={"data": "cifar10"})
    own = changed(made[2], name="client_drift", options={})
    given = words([gpu, real, own])
    command.refused("data that are not prepared (cifar10): fedlib data prepare", *given)
    command.refused("made on a GPU", *given)
    command.refused("a notebook makes itself: fedlib reproduce 12", *given)
    command.refused("unknown published notebook '99'", *given, "99")


def test_a_run_that_is_another_one_now_does_not_train(command, words, made, trained):
    other = changed(made[0], data="0" * 64)
    method = {**made[1].config.method, "beyond": 1.0}
    older = dataclasses.replace(made[1], config=dataclasses.replace(made[1].config, method=method))
    given = words([other, older])
    trained.clear()
    status, out, _ = command(*given, "12")
    assert status == 1 and "not trained: the data here are of another edition" in out
    assert "not trained: its configuration has changed" in out and not trained


def test_a_sample_is_the_seeds_and_fits_by_the_runs_own_seconds(words, made, own_folders):
    long = [
        changed(dataclasses.replace(made[0], meta={**made[0].meta, "seconds": 60.0 * n}), seed=n)
        for n in range(1, 40)
    ]
    words(long)
    runs = list(open_runs(own_folders / "published" / "12_small.parquet").values())

    def digests(*given):
        return [run.config.digest for run in repeat.sample(runs, *given)]

    assert digests(0) == digests(0) != digests(1) and sorted(digests(0)) == sorted(digests(1))
    assert digests(0, 5) == digests(0)[:5]
    for seed in range(3):
        chosen = repeat.sample(runs, seed, None, 60)
        total = sum(run.meta["seconds"] + repeat.LOADING for run in chosen)
        assert len(chosen) > 1 and 0.9 * 3600 < total <= 3600


@pytest.mark.slow
def test_published_runs_of_each_kind_on_data_that_everyone_has_can_be_rebuilt(tmp_path):
    """The configuration comes out again from the task and the hyperparameters' values."""
    kinds, count = {}, 0
    for run in repeat.published(RESULTS):
        if not repeat.obstacle(run, {"cpu", "cuda"}, prepared=()):
            task, count = run.config.task, count + 1
            place = task["name"], task["preset"], *sorted(task["options"])
            kinds.setdefault((*place, run.config.algorithm, *sorted(hyperparameters(run))), run)
    assert count > 4000 and len(kinds) > 100
    tasks = {}  # which several kinds of methods share
    for run in kinds.values():
        known = repr(run.config.task)
        if known not in tasks:
            tasks[known] = repeat.task_of(run, tmp_path)
        assert repeat.configured(run, tasks[known]).config == run.config


def test_an_interrupt_prints_what_was_done(command, words, monkeypatch):
    plain, seen = repeat.engine.execute, []

    def interrupted(*given, **named):
        seen.append(given)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return plain(*given, **named)

    given = words()
    monkeypatch.setattr(repeat.engine, "execute", interrupted)
    status, out, _ = command(*given, "12")
    assert status == 130 and "stopped after 2 of 5 runs" in out
    assert "2 of 2 runs agree within the tolerance, 2 are bit-equal" in out
