"""Delta-SGD's Theorem 1: the problem fulfils its assumptions, and its step sizes give its rate."""

import math

import numpy as np
import pytest
import torch

import fedlib
from fedlib.reproduction.theory import stationarity


def test_the_problem_fulfils_the_assumptions():
    x = torch.linspace(-5, 5, 400, dtype=torch.float64, requires_grad=True)
    f = (x.square() / (1 + x.square())).sum()
    (gradient,) = torch.autograd.grad(f, x, create_graph=True)
    torch.testing.assert_close(stationarity.slope(x), gradient, rtol=0, atol=1e-12)
    assert gradient.abs().max() < 0.66, "bounded"
    curvature = torch.autograd.grad(gradient.sum(), x)[0]
    assert curvature.min() < -0.1 < 1.9 < curvature.max(), "not convex"
    factors = stationarity.FACTORS.flatten()
    assert len(factors) == stationarity.CLIENTS
    assert factors.mean().item() == pytest.approx(1) and (factors - 1).abs().max() == 0.5


def test_one_local_step_is_the_server_at_eta0():
    # The first step is eta_0 long, so with one local step the server takes a mean of noisy ones.
    rule = stationarity.theorem_rule(1, 4)
    assert (rule.gamma, rule.eta0) == (2.0, 1.0)
    norms = stationarity.squared_gradients(rule, 1, 2, seed=3)
    draw = torch.Generator().manual_seed(fedlib.randomness.key(3, "noise"))
    shape = (stationarity.REPETITIONS, stationarity.CLIENTS, stationarity.SIZE)
    noise = torch.randn(shape, generator=draw, dtype=torch.float64).numpy()
    x = 1 - (0.5 + noise).mean(1)  # the gradient at 1 is 1/2, the factors' mean 1
    wanted = ((2 * x / (1 + x**2) ** 2) ** 2).sum(-1)
    np.testing.assert_allclose(norms, [np.full(len(x), 0.25 * 16), wanted], rtol=1e-12)


def test_the_rate_belongs_to_the_theorems_step_sizes():
    mean = stationarity.stationarity(rounds=(32, 128)).set_index(["rule", "local_steps", "rounds"])
    mean = mean["mean"].unstack("rounds")
    slope = np.log(mean[128] / mean[32]) / math.log(4)
    assert slope["Theorem 1"].max() < -0.48
    assert slope["default"][5] > -0.3
