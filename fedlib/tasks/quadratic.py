"""Quadratic problems: client i minimises 1/2 x'A_i x - b_i'x, with exact gradients."""

from __future__ import annotations

import dataclasses
import hashlib

import numpy as np
import torch
from torch import Tensor, nn

from fedlib.arguments import Numbers, checked, whole
from fedlib.clients import ClientData
from fedlib.errors import Error, require, unknown
from fedlib.randomness import numpy_generator
from fedlib.task import Task
from fedlib.tasks.presets import Given, Preset


class Quadratic(nn.Module):
    """The loss of each client as a function of ``x``. The input is the client's number."""

    carries_rows = True
    A: Tensor
    b: Tensor
    offset: Tensor
    diagonals: Tensor | None

    def __init__(self, A: Tensor, b: Tensor, offset: Tensor, x0: Tensor) -> None:
        super().__init__()
        for name, given in (("A", A), ("b", b), ("offset", offset)):
            self.register_buffer(name, given.clone(), persistent=False)  # not trained
        # Diagonal matrices multiply as vectors, which is d times less work.
        diagonals = A.diagonal(dim1=-2, dim2=-1).clone()
        alone = diagonals if torch.equal(A, torch.diag_embed(diagonals)) else None
        self.register_buffer("diagonals", alone, persistent=False)
        self.x = nn.Parameter(x0.clone())

    def forward(self, clients: Tensor) -> Tensor:
        """Losses ``[..., B]`` of the clients ``[..., B]`` at ``x [d]``, or with rows ``[R, d]``."""
        x: Tensor = self.x
        if x.dim() == 2 and len(x) != len(clients):
            clients = clients.repeat_interleave(len(x) // len(clients), dim=0)
        b, offset, x = self.b[clients], self.offset[clients], x.unsqueeze(-2)
        if self.diagonals is None:
            product = (self.A[clients] @ x.unsqueeze(-1)).squeeze(-1)
        else:
            product = self.diagonals[clients] * x
        return 0.5 * (x * product).sum(-1) - (b * x).sum(-1) + offset


TESTS = ("loss", "gradient")


def own_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The model already gives losses."""
    return outputs


@checked
def quadratic_task(
    A: Numbers,
    b: Numbers,
    weights: Numbers | None = None,
    x0: Numbers | None = None,
    offset: Numbers | None = None,
    name: str = "quadratic",
    *,
    test: str = "loss",
) -> Task:
    """A task whose client i minimises ``0.5 x'A_i x - b_i'x + offset_i``.

    A batch is the whole client, so ``local_steps=K`` takes K exact gradient steps.

    Args:
        A: ``[m, d, d]``. The gradient is (A + A')/2 x - b, which uses the symmetric part of A.
        b: ``[m, d]``.
        weights: aggregation weight of each client, ``[m]``. Default: equal.
        x0: start, ``[d]``. Default: zeros.
        offset: constant added to each client's loss, ``[m]``. Default: zeros.
        name: the task's name in results.
        test: with ``"loss"`` the test loss is the clients' mean objective F(x), by weight. With
            ``"gradient"`` it is ||grad F(x)||^2, also as the metric ``squared_gradient``. Training
            is the same.

    Raises:
        Error: shapes do not match, weights are negative or all zero, or ``test`` is unknown.

    Example:
        >>> import fedlib
        >>> task = fedlib.quadratic_task(A=[[[1.0]], [[3.0]]], b=[[0.0], [3.0]])
        >>> steps = {"client_lr": 0.1, "local_steps": 1}
        >>> history = fedlib.run(task, "fedavg", rounds=50, overrides=steps)
        >>> round(history.params["x"].item(), 3)  # where the mean gradient 2 x - 1.5 is 0
        0.75
    """
    A, b = np.asarray(A, dtype=np.float64), np.asarray(b, dtype=np.float64)
    if b.ndim != 2 or A.shape != (*b.shape, b.shape[1]):
        raise Error(f"quadratic_task: A is {A.shape}, b {b.shape}: give A [m, d, d] and b [m, d]")
    if not b.size:
        raise Error(f"quadratic_task: b is {b.shape}: give at least one client and one dimension")
    clients, dimension = b.shape
    numbers = {"A": A, "b": b}
    for label, given, default in (
        ("weights", weights, np.ones(clients)),
        ("x0", x0, np.zeros(dimension)),
        ("offset", offset, np.zeros(clients)),
    ):
        numbers[label] = np.asarray(default if given is None else given, dtype=np.float64)
        if numbers[label].shape != default.shape:
            shape = numbers[label].shape
            raise Error(f"quadratic_task: {label} has shape {shape}, but needs {default.shape}")
    for label, value in numbers.items():
        if not np.isfinite(value).all():
            raise Error(f"quadratic_task: {label} has a number that is not finite: correct it")
    A, b, weights, x0, offset = numbers.values()
    if (weights < 0).any() or not weights.sum() > 0:
        raise Error("quadratic_task: weights must be >= 0 and not all zero")
    if test not in TESTS:
        raise unknown("test of quadratic_task", test, TESTS)
    p = weights / weights.sum()
    if test == "gradient":
        A, b, offset, p = _with_gradient(A, b, offset, p)
    arrays = [torch.from_numpy(array.copy()) for array in (A, b, offset, x0)]
    places = torch.arange(len(A))
    data = ClientData(places, places, [np.array([i]) for i in range(clients)], weights=weights)
    gradient = ClientData(places, places, [places[-1:].numpy()], ["gradient"])
    content = b"".join(part.tobytes() for part in (A, b, weights, x0, offset))
    return Task(
        name=name,
        model=lambda: Quadratic(*arrays),
        train=data,
        test=data if test == "loss" else gradient,
        loss=own_loss,
        metrics={} if test == "loss" else {"squared_gradient": own_loss},
        rounds=50,
        clients_per_round=None,
        batch_size=None,
        source="generated",
        fingerprint=hashlib.sha256(content).hexdigest(),
        by_weights=True,
        pool=lambda task: _pooled(task, p, *arrays),
    ).as_described()


def _with_gradient(
    A: np.ndarray, b: np.ndarray, offset: np.ndarray, p: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The arrays with one more quadratic of weight 0, ||grad F(x)||^2 for F = sum_i p_i f_i."""
    H = np.tensordot(p, A, 1)
    H, g = (H + H.T) / 2, p @ b
    A, b = np.concatenate([A, 2 * (H @ H)[None]]), np.concatenate([b, 2 * (H @ g)[None]])
    return A, b, np.append(offset, g @ g), np.append(p, 0.0)


def _pooled(task: Task, p: np.ndarray, A: Tensor, b: Tensor, offset: Tensor, x0: Tensor) -> Task:
    """One client that minimises sum_i p_i f_i. The test data are the clients of ``task``."""
    share = torch.from_numpy(p)

    def with_mean(values: Tensor) -> Tensor:
        return torch.cat([values, torch.tensordot(share, values, 1).unsqueeze(0)])

    problem = with_mean(A), with_mean(b), with_mean(offset), x0
    last = torch.tensor([len(p)])
    return dataclasses.replace(
        task,
        model=lambda: Quadratic(*problem),
        train=ClientData(last, last, [np.array([0])], ["all"]),
        clients_per_round=None,
        options={**task.options, "centralized": True},
    )


paper: Preset = {"clients": 10, "dimension": 5, "condition": 10.0, "heterogeneity": 1.0}
quick = paper


def load(given: Given) -> Task:
    """Random strongly convex quadratics with different minimisers, the same in all presets.

    Options:
        seed: seed of the draw.
        data_root: unused.
        clients: number of clients.
        dimension: dimension of x.
        condition: eigenvalues are log-uniform in [1/condition, 1].
        heterogeneity: standard deviation of the clients' minimisers around a common one.
    """
    for name in ("clients", "dimension"):
        whole(name, getattr(given, name), 1)
    require(given.condition >= 1, "condition", given.condition, "a number >= 1")
    draw, size = numpy_generator(given.seed, "quadratic"), (given.clients, given.dimension)
    basis = np.linalg.qr(draw.standard_normal((*size, given.dimension)))[0]
    eigenvalues = given.condition ** -draw.random(size)
    A = np.einsum("mij,mj,mkj->mik", basis, eigenvalues, basis)
    minimisers = draw.standard_normal(given.dimension)
    minimisers = minimisers + given.heterogeneity * draw.standard_normal(size)
    task = quadratic_task(A, np.einsum("mij,mj->mi", A, minimisers), name=given.name)
    rates = {"fedavg": {"client_lr": 0.5}, "fedadam": {"client_lr": 0.5}}
    return dataclasses.replace(task, hyperparameters=rates)
