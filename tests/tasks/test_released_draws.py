"""The released script's partition and cohorts, against a transcription with legacy NumPy alone."""

import dataclasses

import numpy as np
import pytest
import torch

import fedlib
from fedlib.tasks.released_draws import released_draws
from tests.refusals import refused


def transcription(labels, clients, alpha, size, rounds, cohort):
    """The released procedure: training parts and cohorts, from NumPy's global generator."""
    before = np.random.get_state()
    np.random.seed(5821)
    classes = int(labels.max()) + 1
    distribution = np.random.dirichlet(alpha * np.ones(classes), clients)
    pool = [[] for _ in range(classes)]
    for number, label in enumerate(labels):
        pool[label].append(number)
    parts = []
    for i in range(clients):
        counts = [round(size * share) for share in distribution[i]]
        counts[-1] = max(size - sum(counts[:-1]), 0)
        joined = []
        for label in range(classes):
            joined += np.random.choice(pool[label], counts[label], replace=True).tolist()
        parts.append(joined[: int(0.9 * len(joined))])
    cohorts = [
        np.random.choice(range(clients), cohort, replace=False).tolist() for _ in range(rounds)
    ]
    np.random.set_state(before)
    return parts, cohorts


@pytest.mark.parametrize(("classes", "alpha"), [(10, 0.01), (10, 1.0), (100, 0.1)])
def test_partition_and_cohorts_are_the_transcriptions(classes, alpha):
    labels = np.random.default_rng(0).integers(0, classes, 6000)
    expected, cohorts = transcription(labels, 100, alpha, 500, 10, 10)
    parts, sampler = released_draws(labels, 100, alpha, 500, author_split=True)
    assert [part.tolist() for part in parts] == expected
    assert [sampler(number, 10).tolist() for number in range(10)] == cohorts
    whole, again = released_draws(labels, 100, alpha, 500, author_split=False)
    for part, first in zip(whole, parts, strict=True):
        assert len(part) >= 500 and part[: len(first)].tolist() == first.tolist()
    assert again(9, 10).tolist() == cohorts[9], "the split draws nothing"


def test_rounds_beyond_those_drawn_draw_on():
    labels = np.arange(30) % 3
    _, cohorts = transcription(labels, 8, 1.0, 20, 1100, 3)
    _, sampler = released_draws(labels, 8, 1.0, 20, author_split=True)
    for number in (0, 511, 512, 513, 1099, 7):  # in any order: a resumed run starts anywhere
        assert sampler(number, 3).tolist() == cohorts[number]


def small(**options):
    sizes = {"clients": 12, "sizes": 40, "alpha": 0.5, "width": 0.3, "test_examples": 30}
    return fedlib.load_task("mnist", draws="authors", **sizes, **options)


def test_the_task_has_both():
    task = small()
    labels = task.train.y.numpy()
    parts, cohorts = transcription(labels, 12, 0.5, 40, 3, 4)
    held = np.split(task.train.index.numpy(), task.train.starts[1:])
    assert [part.tolist() for part in held] == parts
    assert task.options["draws"] == "authors" and task.options["author_split"] is True
    assert task.cohorts(2, 4).tolist() == cohorts[2]
    other = small(seed=3)
    assert torch.equal(other.train.index, task.train.index), "whatever the seed"


@pytest.mark.parametrize("size", [None, 2])
def test_a_tasks_own_cohorts_may_be_of_any_size_and_none(size):
    # Client i pulls to i, all of a cohort alike; with None every client would take part.
    named = [[5, 2], [], [4], [0, 1, 2, 3, 4, 5]]
    task = fedlib.quadratic_task(np.ones((6, 1, 1)), np.arange(6.0)[:, None])
    drawn = dataclasses.replace(task, cohorts=lambda number, size: named[number])
    settings = {"dtype": "float64", "overrides": {"client_lr": 0.5, "local_steps": 1}}
    history = fedlib.run(drawn, "fedavg", rounds=4, clients_per_round=size, **settings)
    x = 0.0
    for cohort in named:
        x += 0.5 * (np.mean(cohort) - x) if cohort else 0.0
    assert float(history.params["x"]) == pytest.approx(x, abs=1e-12)
    sent = history.frame[history.frame["metric"] == "floats_up"]
    assert sent.set_index("round")["value"].to_dict() == {1: 2, 3: 1, 4: 6}


def test_a_run_goes_on_with_the_same_cohorts_or_not_at_all(tmp_path):
    known = {0: [0], 1: [1], 2: [2], 3: [3]}

    def stop(history):
        if history.frame["round"].max() == 2:
            raise KeyboardInterrupt

    task = fedlib.quadratic_task(np.ones((6, 1, 1)), np.arange(6.0)[:, None])
    task = dataclasses.replace(task, cohorts=lambda number, size: known[number], version="1")
    common = {"rounds": 4, "checkpoint": tmp_path, "checkpoint_every": 1}
    calls = iter(range(99))
    others = dataclasses.replace(task, cohorts=lambda n, size: [next(calls) % 6 if n > 2 else n])
    refused(r"cohorts\(3, 6\) gives others", fedlib.run, others, "fedavg", rounds=4)
    whole = fedlib.run(task, "fedavg", rounds=4)
    with pytest.raises(KeyboardInterrupt):
        fedlib.run(task, "fedavg", callback=stop, **common)
    known[0] = [4]
    refused(
        "cohorts gives other clients for the rounds before 2", fedlib.run, task, "fedavg", **common
    )
    known[0] = [0]
    assert fedlib.run(task, "fedavg", **common).frame.equals(whole.frame)
