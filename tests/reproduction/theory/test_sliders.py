"""The pictures behind the sliders show what their texts say."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import fedlib
from fedlib.reproduction.theory import sliders


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


def test_with_a_small_tau_the_rare_coordinate_keeps_up_and_with_a_large_one_it_lags_tenfold():
    small = sliders.rare_coordinate(tau=1e-4, server_lr=0.03)
    assert small.iloc[-1]["rare"] > 0.5 * small.iloc[-1]["common"] > 0.3
    # Far below tau both move along m / tau, and the rare one has a tenth of the gradients.
    large = sliders.rare_coordinate(tau=1e4, server_lr=0.03)
    ratio = large.iloc[-1]["common"] / large.iloc[-1]["rare"]
    assert 8 < ratio < 12


@pytest.mark.parametrize(("alpha", "weight"), [(0.0, 0.9), (1.0, 0.9), (4.0, 0.7), (2.0, 0.5)])
def test_at_the_fixed_point_the_weighted_slopes_cancel(alpha, weight):
    x = sliders.fixed_point(alpha, weight)
    progress = np.array([x**2, (1 - x) ** 2])  # each loss over its first value, which is equal
    pull = np.array([weight, 1 - weight]) * progress**alpha * np.array([x, x - 1])
    assert pull.sum() == pytest.approx(0, abs=1e-12)


def test_losses_are_shares_of_the_first():
    def problem(scale):
        A, b = scale * np.eye(2)[None].repeat(2, 0), scale * np.array([[1.0, 0.0], [1.0, 0.0]])
        return fedlib.quadratic_task(A, b, name="scaled"), -0.5 * scale, 0.0

    frame = sliders.losses_by_round(problem, {"SGD": {"client_lr": 0.1}}, 3, 2.0)
    # One step of rate 0.1 on curvature 2 leaves (1 - 0.2)^2 of the loss.
    assert frame["SGD"].tolist() == pytest.approx([0.64**t for t in range(4)])
