"""AdaFedAdam's Theorem 2: the computed path is the library's, and the bound is the printed one."""

import numpy as np
import pytest

import fedlib
from fedlib.reproduction.theory import guarantee


@pytest.mark.parametrize("divided", [False, True])
@pytest.mark.parametrize("steps", [1, 8, 40])
def test_the_path_is_that_of_the_library(steps, divided):
    task = fedlib.quadratic_task(
        [np.eye(2)] * 4, guarantee.CENTRES, guarantee.SHARES, guarantee.START, test="gradient"
    )
    values = {"alpha": 0.0, "beta1": 0.0, "beta2": guarantee.BETA2, "eps": guarantee.EPS}
    values |= {"server_lr": guarantee.server_lr(steps, divided)}
    values |= {"client_lr": guarantee.CLIENT_LR, "local_steps": steps}
    run = fedlib.run(task, "adafedadam", rounds=60, dtype="float64", overrides=values)
    ours = guarantee.squared_gradients(steps, divided)[:60]
    np.testing.assert_allclose(run.series("squared_gradient")[:60], ours, rtol=1e-6, atol=1e-12)


def test_the_bound_by_hand_after_one_round():
    """T = 1: the mean is the first squared gradient, F(x) - F* its half."""
    first = guarantee.mean_and_bound(1, divided=False).loc[1]
    gradient = np.array([2.0 - 0.5, -1.0 - 0.3])
    square = gradient @ gradient
    assert first["mean"] == pytest.approx(square)
    G = np.sqrt(square)
    assert first["bound"] == pytest.approx(square * (np.sqrt(0.999) * G + 10) / 5)


def test_the_bound_holds_for_one_step_and_fails_for_many():
    ratios = guarantee.ratios((1, 40))
    assert ratios["ε / 2L"].iloc[0] < 1 < ratios["ε / 2L"].iloc[1]
    assert (ratios["ε / 2LC"] < 1).all()


def test_the_figure_draws_means_bounds_and_ratios():
    figure, data = guarantee.certainty_and_rate()
    left, right = figure.axes
    assert len(left.get_lines()) == 2 * len(guarantee.DRAWN)
    one = guarantee.mean_and_bound(1, divided=False)
    np.testing.assert_array_equal(left.get_lines()[0].get_ydata(), one["mean"])
    np.testing.assert_array_equal(left.get_lines()[1].get_ydata(), one["bound"])
    np.testing.assert_array_equal(
        right.get_lines()[0].get_xdata(), [guarantee.certainty(n) for n in guarantee.STEPS]
    )
    assert set(data["panel"]) == {"rounds", "ratios"}
