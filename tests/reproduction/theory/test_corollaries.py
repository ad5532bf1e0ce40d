"""The numbers behind the figure of Mime's Corollaries II and III, from short runs."""

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib.reproduction.theory import corollaries
from fedlib.results.reading import hyperparameter


def run(name, method="mime", seed=0, lr=0.1, cohort=None, rounds=12, **more):
    A = np.array([np.diag([1.0, 0.1]), np.diag([0.2, 1.0]), np.diag([0.5, 0.4])])
    task = fedlib.quadratic_task(A, A @ [1.0, 1.0], name=name, test="gradient")
    overrides = {"client_lr": lr, "local_steps": 2, "base": "sgd"}
    settings = {"rounds": rounds, "seed": seed, "clients_per_round": cohort, "dtype": "float64"}
    return fedlib.run(task, method, overrides=overrides, **settings, **more)


@pytest.fixture(scope="module")
def flat():
    methods = ("mime", "mimelite")
    return [run(corollaries.FLAT, method, lr=lr) for method in methods for lr in (0.1, 0.5)]


def test_each_share_has_the_rate_that_reaches_it_first(flat):
    frame = corollaries.rounds_to_shares(flat, [0.5, 1e-3, 1e-30]).set_index(["method", "share"])
    for method in ("mime", "mimelite"):
        fewest = {}
        for history in flat:
            if history.config.algorithm == method:
                square = history.series("squared_gradient").to_numpy()
                rate = hyperparameter(history, "client_lr")
                fewest[rate] = int(np.argmax(square <= 0.5 * square[0]))
        row = frame.loc[method, 0.5]
        assert row["rounds"] == min(fewest.values()) == fewest[row["client_lr"]]
        assert frame.loc[method, 1e-30].isna().all()


def test_means_are_over_the_rounds_before_and_over_seeds():
    runs = [run(corollaries.COHORTS, seed=seed, cohort=2, rounds=4) for seed in (0, 1)]
    frame = corollaries.means_over_rounds(runs).set_index("rounds")
    squares = np.array([history.series("squared_gradient") for history in runs])
    assert list(frame.index) == [1, 2, 3, 4] and (frame["clients"] == 2).all()
    np.testing.assert_allclose(frame["last"], squares[:, 1:].mean(0))
    np.testing.assert_allclose(frame.loc[3, "mean"], squares[:, :3].mean())
    with pytest.raises(fedlib.Error, match="after every round"):
        corollaries.means_over_rounds([run(corollaries.COHORTS, rounds=4, eval_every=2)])


def test_the_figure_needs_both_problems(flat):
    cohorts = [run(corollaries.COHORTS, cohort=size) for size in (1, 3)]
    figure, data = corollaries.mime_corollaries([*flat, *cohorts])
    left, right = figure.axes
    assert [line.get_label() for line in left.lines] == ["Mime", "MimeLite"]
    assert len(right.lines) == 2 * 2 and set(data["corollary"]) == {"II", "III"}
    with pytest.raises(fedlib.Error, match="need runs of both"):
        corollaries.mime_corollaries(flat)


def test_the_problems_are_what_the_corollaries_ask_for():
    flat, cohorts = corollaries.flat_problem(3), corollaries.cohorts_problem(3)
    assert np.allclose(flat.hessians.mean(0), np.diag(flat.spectrum)) and flat.spectrum[-1] == 0
    apart = np.linalg.norm(flat.hessians - np.diag(flat.spectrum), 2, axis=(1, 2))
    assert np.allclose(apart, 0.3) and np.allclose(flat.b.sum(0), 0)
    assert np.allclose(np.linalg.norm(flat.b, axis=1), 0.3)
    assert len(cohorts.b) == 64 and np.allclose(np.linalg.norm(cohorts.b, axis=1), 1.0)
    assert len(cohorts.task.train) == 64


def test_corollary_3_promises_less_for_more_rounds_and_never_less_than_the_clients_differ():
    problem = corollaries.cohorts_problem(0)
    rounds, clients = pd.Series([10.0, 20.0, 1e12]), pd.Series([4.0, 4.0, 4.0])
    promise = problem.promise(rounds, clients, eps=1.0)
    # At the start: f is the mean objective, 0 at its least; its gradient is the clients' mean.
    slopes = problem.hessians @ problem.start - problem.b
    spread = ((slopes - slopes.mean(0)) ** 2).sum(1).mean()
    assert promise.iloc[2] == pytest.approx(spread / 4)
    first = 0.5 * problem.start @ problem.hessians.mean(0) @ problem.start
    largest = max(np.linalg.eigvalsh(H)[-1] for H in problem.hessians)
    expected = largest * first * (np.abs(slopes).max() + 1) ** 2 / 10
    assert promise.iloc[0] - promise.iloc[2] == pytest.approx(expected)
    assert problem.client_lr(1.0, 5) == pytest.approx(
        1 / (5 * largest * (np.abs(slopes).max() + 1))
    )
