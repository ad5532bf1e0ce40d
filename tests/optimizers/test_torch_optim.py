"""The optimizers as torch.optim classes: the same steps, states that survive a stop."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import fedlib
from fedlib import torch_optim

STEPS = 7


def quadratic() -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """A quadratic of five variables whose least value is 0.3."""
    draw = np.random.default_rng(1)
    root = draw.standard_normal((5, 5))
    A, b = root @ root.T / 5 + 0.1 * np.eye(5), draw.standard_normal(5)
    return A, b, draw.standard_normal(5), float(0.5 * b @ np.linalg.solve(A, b) + 0.3)


class Quadratic(nn.Module):
    """It, with the variables in two parameters of different shapes."""

    def __init__(self) -> None:
        super().__init__()
        A, b, x, self.offset = quadratic()
        self.A, self.b = torch.tensor(A), torch.tensor(b)
        self.first = nn.Parameter(torch.tensor(x[:4]).view(2, 2))
        self.second = nn.Parameter(torch.tensor(x[4:]))

    def x(self) -> Tensor:
        return torch.cat([self.first.flatten(), self.second])

    def forward(self) -> Tensor:
        x = self.x()
        return 0.5 * x @ self.A @ x - self.b @ x + self.offset


def closure_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], Tensor]:
    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model()
        loss.backward()
        return loss

    return closure


OPTIONS: list[tuple[Any, Any, dict[str, Any]]] = [
    (torch_optim.DeltaSGD, fedlib.DeltaSGD, {}),
    (torch_optim.DeltaSGD, fedlib.DeltaSGD, {"first_step": "eta0", "delta": 0.5, "gamma": 1.0}),
    (torch_optim.DeltaSGD, fedlib.DeltaSGD, {"reuse_gradient": True}),
    (torch_optim.SPS, fedlib.SPS, {"c": 2.0}),
    (torch_optim.SPS, fedlib.SPS, {"eta_max": 0.1, "f_star": 0.2}),
]


@pytest.mark.parametrize(("ours", "rule", "options"), OPTIONS)
def test_equals_the_client_optimizer(ours: Any, rule: Any, options: dict[str, Any]) -> None:
    A, b, x0, offset = quadratic()
    task = fedlib.quadratic_task(A[None], b[None], x0=x0, offset=[offset])
    history = fedlib.run(
        task,
        fedlib.FedOpt(client=rule(**options)),
        rounds=1,
        dtype="float64",
        overrides={"local_steps": STEPS},
    )
    model = Quadratic()
    optimizer = ours(model.parameters(), **options)
    closure = closure_of(model, optimizer)
    losses = [optimizer.step(closure).item() for _ in range(STEPS)]
    assert torch.allclose(model.x(), history.params["x"], atol=1e-12)
    assert losses[0] == pytest.approx(0.5 * x0 @ A @ x0 - b @ x0 + offset)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "options",
    [{}, {"lr": 0.1, "tau": 0.1, "beta1": 0.5, "beta2": 0.9}, {"form": "printed", "v0": 0.1}],
)
def test_yogi_equals_the_server_optimizer(options: dict[str, Any]) -> None:
    """One client with one step of rate 1: the pseudo-gradient is the gradient."""
    A, b, x0, _ = quadratic()
    method = fedlib.FedOpt(client=fedlib.SGD(lr=1.0), server=fedlib.server.Yogi(**options))
    history = fedlib.run(
        fedlib.quadratic_task(A[None], b[None], x0=x0), method, rounds=STEPS, dtype="float64"
    )
    model = Quadratic()
    optimizer = torch_optim.Yogi(model.parameters(), **options)
    for _ in range(STEPS):
        closure_of(model, optimizer)()
        optimizer.step()
    assert torch.allclose(model.x(), history.params["x"], atol=1e-12)


ALL: list[tuple[Any, dict[str, Any]]] = [
    *((ours, options) for ours, _, options in OPTIONS),
    (torch_optim.Yogi, {}),
]


@pytest.mark.parametrize(("ours", "options"), ALL)
def test_a_saved_state_continues_bit_for_bit(
    ours: Any, options: dict[str, Any], tmp_path: Any
) -> None:
    model = Quadratic()
    optimizer = ours(model.parameters(), **options)
    for _ in range(3):
        optimizer.step(closure_of(model, optimizer))
    torch.save([copy.deepcopy(model), optimizer.state_dict()], tmp_path / "saved.pt")
    other, state = torch.load(tmp_path / "saved.pt", weights_only=False)
    for _ in range(3):
        optimizer.step(closure_of(model, optimizer))
    fresh = ours(other.parameters(), **options)
    fresh.load_state_dict(state)
    for _ in range(3):
        fresh.step(closure_of(other, fresh))
    assert torch.equal(model.x(), other.x())
    forgetful = Quadratic()
    forgetful.load_state_dict(torch.load(tmp_path / "saved.pt", weights_only=False)[0].state_dict())
    if ours is not torch_optim.SPS:  # which keeps nothing
        without = ours(forgetful.parameters(), **options)
        for _ in range(3):
            without.step(closure_of(forgetful, without))
        assert not torch.equal(model.x(), forgetful.x())


def test_delta_sgd_leaves_the_gradients_of_the_current_point() -> None:
    model = Quadratic()
    optimizer = torch_optim.DeltaSGD(model.parameters())
    for _ in range(3):
        expected = model.A @ model.x() - model.b
        optimizer.step(closure_of(model, optimizer))
        given = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        assert torch.allclose(given, expected, atol=1e-12)


def test_the_loss_may_be_handed_over_without_a_closure() -> None:
    one, two = Quadratic(), Quadratic()
    with_closure = torch_optim.SPS(one.parameters())
    by_hand = torch_optim.SPS(two.parameters())
    with_closure.step(closure_of(one, with_closure))
    loss = closure_of(two, by_hand)()
    assert by_hand.step(loss=loss) is loss
    assert torch.equal(one.x(), two.x())


def test_parameters_without_a_gradient_stay() -> None:
    for ours in (torch_optim.DeltaSGD, torch_optim.SPS, torch_optim.Yogi):
        model = Quadratic()
        idle = nn.Parameter(torch.ones(2, dtype=torch.float64))
        optimizer = ours([*model.parameters(), idle])
        for _ in range(2):
            optimizer.step(closure_of(model, optimizer))
        assert idle.tolist() == [1, 1] and idle.grad is None


def test_each_group_has_options_and_step_sizes_of_its_own_but_a_polyak_step_one_norm() -> None:
    """Two independent problems: each of Delta-SGD's groups goes as it would alone."""
    draw = np.random.default_rng(3)
    roots, starts = (torch.tensor(draw.standard_normal(size)) for size in ((2, 3, 3), (2, 3)))
    options: list[dict[str, Any]] = [{"delta": 0.1}, {"delta": 2.0, "eta0": 0.01}]

    def trained(which: tuple[int, ...]) -> list[nn.Parameter]:
        points = [nn.Parameter(starts[i].clone()) for i in which]
        groups = [{"params": [x], **options[i]} for i, x in zip(which, points, strict=True)]
        optimizer = torch_optim.DeltaSGD(groups)
        losses = nn.Module()
        losses.forward = lambda: sum(
            (roots[i] @ x).square().sum() for i, x in zip(which, points, strict=True)
        )
        for _ in range(5):
            optimizer.step(closure_of(losses, optimizer))
        return points

    for together, alone in zip(trained((0, 1)), (*trained((0,)), *trained((1,))), strict=True):
        assert torch.equal(together, alone)

    one, two = Quadratic(), Quadratic()
    whole = torch_optim.SPS(one.parameters(), c=2.0)
    parts = torch_optim.SPS([{"params": [two.first]}, {"params": [two.second]}], c=2.0)
    for model, optimizer in ((one, whole), (two, parts)):
        for _ in range(3):
            optimizer.step(closure_of(model, optimizer))
    assert torch.allclose(one.x(), two.x(), atol=1e-14)


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: torch_optim.DeltaSGD(x).step(), r"DeltaSGD\.step needs a closure"),
    (lambda x: torch_optim.SPS(x).step(), r"SPS\.step needs the loss"),
    (lambda x: torch_optim.SPS(x).step(lambda: None), r"SPS\.step needs the loss"),
    (lambda x: torch_optim.DeltaSGD(x, gamma=-1), "gamma is -1"),
    (lambda x: torch_optim.Yogi([{"params": x, "beta1": 1.0}]), "beta1 is 1"),
    (lambda x: torch_optim.DeltaSGD(x, lr=-0.1), r"lr is -0\.1"),
    (lambda x: torch_optim.SPS(x, lr=float("nan")), "lr is nan"),
    (lambda x: torch_optim.SPS(x, lr="x"), "lr is 'x'"),
    (lambda x: torch_optim.SPS(x, lr=None), "lr is None"),
    (lambda x: torch_optim.DeltaSGD(x, lr=float("inf")), "lr is inf"),
]


@pytest.mark.parametrize(("call", "words"), MISTAKES)
def test_mistakes_have_one_clear_line(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(fedlib.Error, match=words) as caught:
        call([nn.Parameter(torch.ones(2))])
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------ learning-rate schedulers

Schedulers = torch.optim.lr_scheduler
SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "step": lambda optimizer: Schedulers.StepLR(optimizer, step_size=2, gamma=0.5),
    "cosine": lambda optimizer: Schedulers.CosineAnnealingLR(optimizer, T_max=STEPS),
    "warm-up": lambda optimizer: Schedulers.SequentialLR(
        optimizer,
        [Schedulers.LinearLR(optimizer, 0.1, 1.0, 3), Schedulers.ExponentialLR(optimizer, 0.8)],
        milestones=[3],
    ),
}


def factors(name: str) -> list[float]:
    """What torch's scheduler makes of a rate of 1 on torch's own SGD."""
    sgd = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, rates = SCHEDULERS[name](sgd), []
    for _ in range(STEPS):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step()
        scheduler.step()
    return rates


def delta_sgd(rates: list[float]) -> np.ndarray:
    """Delta-SGD's points on the quadratic, its steps multiplied by rates."""
    A, b, x, _ = quadratic()
    previous, eta, theta = x, 0.2, 1.0
    for rate in rates:
        g, before = A @ x - b, A @ previous - b
        grown = eta * np.sqrt(1 + 0.1 * theta)
        moved, turned = np.linalg.norm(x - previous), np.linalg.norm(g - before)
        new = min(grown, moved / turned) + 1e-8 if moved > 0 and turned > 0 else grown
        theta, eta = new / eta, new
        previous, x = x, x - rate * eta * g
    return x


def sps(rates: list[float]) -> np.ndarray:
    A, b, x, offset = quadratic()
    for rate in rates:
        g, value = A @ x - b, 0.5 * x @ A @ x - b @ x + offset
        x = x - rate * value / (0.5 * g @ g + 1e-8) * g
    return x


def yogi(rates: list[float]) -> np.ndarray:
    A, b, x, _ = quadratic()
    m, v = np.zeros(5), np.zeros(5)
    for t, rate in enumerate(rates, 1):
        g = A @ x - b
        m, v = 0.9 * m + 0.1 * g, v - 0.01 * g**2 * np.sign(v - g**2)
        step = np.sqrt(1 - 0.99**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-3)
        x = x - 0.01 * rate * step
    return x


@pytest.mark.parametrize("name", SCHEDULERS)
@pytest.mark.parametrize(
    ("ours", "expected"),
    [(torch_optim.DeltaSGD, delta_sgd), (torch_optim.SPS, sps), (torch_optim.Yogi, yogi)],
)
def test_follows_torchs_schedulers(ours: Any, expected: Any, name: str) -> None:
    model = Quadratic()
    optimizer = ours(model.parameters())
    scheduler, closure = SCHEDULERS[name](optimizer), closure_of(model, optimizer)
    for _ in range(STEPS):
        optimizer.step(closure)
        scheduler.step()
    rates = factors(name)
    assert len(set(rates)) > 2
    np.testing.assert_allclose(model.x().detach().numpy(), expected(rates), atol=1e-9)
    assert np.abs(expected(rates) - expected([1.0] * STEPS)).max() > 1e-6
