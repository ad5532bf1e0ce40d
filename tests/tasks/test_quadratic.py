"""Quadratic tasks: what they take, and the squared gradient of the mean as a test loss."""

import numpy as np
import pytest
import torch

import fedlib
from tests.refusals import refused

CLIENTS, DIMENSION = 4, 3


@pytest.fixture(params=["dense", "diagonal"])
def problem(request):
    draw = np.random.default_rng(3)
    A = draw.standard_normal((CLIENTS, DIMENSION, DIMENSION))  # neither symmetric nor definite
    A = A @ A.swapaxes(1, 2) + 0.3 * A
    if request.param == "diagonal":
        A = A * np.eye(DIMENSION)
    x0 = draw.standard_normal(DIMENSION)
    weights = np.array([1.0, 2.0, 0.0, 5.0])
    return {"A": A, "b": draw.standard_normal((CLIENTS, DIMENSION)), "weights": weights, "x0": x0}


def loss_and_squared_gradient(problem, x):
    """By automatic differentiation of the weighted mean of the clients' losses."""
    at = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    A, b, p = (torch.from_numpy(problem[name]) for name in ("A", "b", "weights"))
    losses = 0.5 * torch.einsum("i,mij,j->m", at, A, at) - b @ at
    loss = (p * losses).sum() / p.sum()
    (gradient,) = torch.autograd.grad(loss, at)
    return loss.item(), float(gradient @ gradient)


@pytest.mark.parametrize("algorithm", ["fedavg", "mime", "centralized"])
def test_the_test_loss_is_the_squared_gradient_and_training_is_unchanged(problem, algorithm):
    settings = {"rounds": 4, "dtype": "float64", "overrides": {"client_lr": 0.02}}
    settings["clients_per_round"] = 2  # never the measured quadratic
    measured = fedlib.run(fedlib.quadratic_task(**problem, test="gradient"), algorithm, **settings)
    usual = fedlib.run(fedlib.quadratic_task(**problem), algorithm, **settings)
    assert torch.equal(measured.params["x"], usual.params["x"])
    for split in ("train", "communication"):
        own, other = (h.frame[h.frame["split"] == split]["value"] for h in (measured, usual))
        np.testing.assert_array_equal(own, other)
    series = measured.series("squared_gradient")
    np.testing.assert_allclose(series, measured.series("loss"))
    for number, x in ((0, problem["x0"]), (4, usual.params["x"].numpy())):
        both = usual.series("loss")[number], series[number]
        assert both == pytest.approx(loss_and_squared_gradient(problem, x), rel=1e-10)


def test_quadratic_task_checks_its_input():
    A, b = np.stack([np.eye(2)] * 3), np.zeros((3, 2))
    for change, message in (
        ({"A": A[:2]}, "A is"),
        ({"b": b[0]}, "give A"),
        ({"weights": [-1, 1, 1]}, "weights must be >= 0"),
        ({"weights": [0, 0, 0]}, "not all zero"),
        ({"x0": [1.0]}, "x0 has shape"),
        ({"test": "norm"}, "unknown test of quadratic_task 'norm'.*gradient"),
    ):
        refused(message, fedlib.quadratic_task, **{"A": A, "b": b, **change})
