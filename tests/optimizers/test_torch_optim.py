"""The optimizers as torch.optim classes: the same steps, states that survive a stop."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib import torch_optim
from tests.refusals import refused

STEPS = 7


def quadratic():
    """A quadratic of five variables whose least value is 0.3."""
    draw = np.random.default_rng(1)
    root = draw.standard_normal((5, 5))
    A, b = root @ root.T / 5 + 0.1 * np.eye(5), draw.standard_normal(5)
    return A, b, draw.standard_normal(5), float(0.5 * b @ np.linalg.solve(A, b) + 0.3)


class Quadratic(nn.Module):
    """It, with the variables in two parameters of different shapes."""

    def __init__(self):
        super().__init__()
        A, b, x, self.offset = quadratic()
        self.A, self.b = torch.tensor(A), torch.tensor(b)
        self.first = nn.Parameter(torch.tensor(x[:4]).view(2, 2))
        self.second = nn.Parameter(torch.tensor(x[4:]))

    def x(self):
        return torch.cat([self.first.flatten(), self.second])

    def forward(self):
        x = self.x()
        return 0.5 * x @ self.A @ x - self.b @ x + self.offset


def steps(model, optimizer, count=1):
    """The losses of some steps."""

    def closure():
        optimizer.zero_grad()
        loss = model()
        loss.backward()
        return loss

    return [optimizer.step(closure).item() for _ in range(count)]


OPTIONS = [
    (torch_optim.DeltaSGD, {}),
    (torch_optim.DeltaSGD, {"first_step": "eta0", "delta": 0.5, "gamma": 1.0}),
    (torch_optim.DeltaSGD, {"reuse_gradient": True}),
    (torch_optim.SPS, {"c": 2.0}),
    (torch_optim.SPS, {"eta_max": 0.1, "f_star": 0.2}),
]


@pytest.mark.parametrize(("ours", "options"), OPTIONS)
def test_equals_the_optimizer_of_clients(ours, options):
    A, b, x0, offset = quadratic()
    task = fedlib.quadratic_task(A[None], b[None], x0=x0, offset=[offset])
    method, keys = fedlib.FedOpt(client=ours.rule(**options)), {"local_steps": STEPS}
    history = fedlib.run(task, method, rounds=1, dtype="float64", overrides=keys)
    model = Quadratic()
    optimizer = ours(model.parameters(), **options)
    losses = steps(model, optimizer, STEPS)
    assert torch.allclose(model.x(), history.params["x"], atol=1e-12)
    assert losses[0] == pytest.approx(0.5 * x0 @ A @ x0 - b @ x0 + offset)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("ours", "options"), OPTIONS)
def test_a_saved_state_continues_bit_for_bit(ours, options, tmp_path):
    model = Quadratic()
    optimizer = ours(model.parameters(), **options)
    steps(model, optimizer, 3)
    torch.save([model, optimizer.state_dict()], tmp_path / "saved.pt")
    other, state = torch.load(tmp_path / "saved.pt", weights_only=False)
    forgetful = copy.deepcopy(other)
    fresh, without = (ours(each.parameters(), **options) for each in (other, forgetful))
    fresh.load_state_dict(state)
    for net, own in ((model, optimizer), (other, fresh), (forgetful, without)):
        steps(net, own, 3)
    assert torch.equal(model.x(), other.x())
    # SPS keeps nothing.
    assert torch.equal(model.x(), forgetful.x()) == (ours is torch_optim.SPS)


def test_delta_sgd_leaves_the_gradients_of_the_current_point():
    model = Quadratic()
    optimizer = torch_optim.DeltaSGD(model.parameters())
    for _ in range(3):
        expected = model.A @ model.x() - model.b
        steps(model, optimizer)
        given = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        assert torch.allclose(given, expected, atol=1e-12)


def test_the_loss_may_be_handed_over_without_a_closure():
    one, two = Quadratic(), Quadratic()
    steps(one, torch_optim.SPS(one.parameters()))
    loss = two()
    loss.backward()
    assert torch_optim.SPS(two.parameters()).step(loss=loss) is loss
    assert torch.equal(one.x(), two.x())


def test_parameters_without_a_gradient_stay_and_a_group_may_be_empty():
    for ours in (torch_optim.DeltaSGD, torch_optim.SPS):
        model = Quadratic()
        idle = nn.Parameter(torch.ones(2, dtype=torch.float64))
        full = {"params": [*model.parameters(), idle]}
        steps(model, ours([{"params": []}, full, {"params": []}]), 2)
        assert idle.tolist() == [1, 1] and idle.grad is None


def test_each_group_has_options_and_step_sizes_of_its_own_but_a_polyak_step_one_norm():
    """Two independent problems: each of Delta-SGD's groups goes as it would alone."""
    draw = np.random.default_rng(3)
    roots, starts = (torch.tensor(draw.standard_normal(size)) for size in ((2, 3, 3), (2, 3)))
    options = [{"delta": 0.1}, {"delta": 2.0, "eta0": 0.01}]

    def trained(which):
        points = [nn.Parameter(starts[i].clone()) for i in which]
        groups = [{"params": [x], **options[i]} for i, x in zip(which, points, strict=True)]

        def loss():
            return sum((roots[i] @ x).square().sum() for i, x in zip(which, points, strict=True))

        steps(loss, torch_optim.DeltaSGD(groups), 5)
        return points

    for together, alone in zip(trained((0, 1)), (*trained((0,)), *trained((1,))), strict=True):
        assert torch.equal(together, alone)

    one, two = Quadratic(), Quadratic()
    whole = torch_optim.SPS(one.parameters(), c=2.0)
    parts = torch_optim.SPS([{"params": [two.first]}, {"params": [two.second]}], c=2.0)
    steps(one, whole, 3)
    steps(two, parts, 3)
    assert torch.allclose(one.x(), two.x(), atol=1e-14)


MISTAKES = [
    (lambda x: torch_optim.DeltaSGD(x).step(), r"DeltaSGD\.step needs a closure"),
    (lambda x: torch_optim.SPS(x).step(), r"SPS\.step needs the loss"),
    (lambda x: torch_optim.SPS(x).step(lambda: None), r"SPS\.step needs the loss"),
    (lambda x: torch_optim.DeltaSGD([{"params": x, "gamma": -1}]), "gamma is -1"),
    (lambda x: torch_optim.SPS([{"params": x, "weight_decay": 0.1}]), "option of SPS 'weight_dec"),
    (lambda x: torch_optim.DeltaSGD(x, lr=-0.1), r"lr is -0\.1"),
]


@pytest.mark.parametrize(("call", "words"), MISTAKES)
def test_mistakes_have_one_clear_line(call, words):
    refused(words, call, [nn.Parameter(torch.ones(2))])


@pytest.mark.parametrize("ours", [torch_optim.DeltaSGD, torch_optim.SPS])
def test_a_step_is_multiplied_by_what_torchs_schedulers_make_of_lr(ours):
    model = Quadratic()
    optimizer = ours(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    for number in range(STEPS):
        twin, before = copy.deepcopy(model), model.x().detach()
        plain = ours(twin.parameters())
        plain.load_state_dict(optimizer.state_dict())
        plain.param_groups[0]["lr"] = 1.0
        for net, own in ((model, optimizer), (twin, plain)):
            steps(net, own)
        expected = before + 0.5 ** (number // 2) * (twin.x() - before)
        assert torch.allclose(model.x(), expected, atol=1e-12)
        scheduler.step()
