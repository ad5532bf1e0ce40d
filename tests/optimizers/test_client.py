"""Client optimizers against torch.optim and against literal recomputations."""

import numpy as np
import pytest
import torch
from torch import optim

import fedlib
from fedlib.engine import configure
from tests.algorithms.quadratics import end, positive_problem

M, D = 4, 3
STEPS = [1, 4, 6, 3]


def problem():
    return positive_problem(0, M, D)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("weight_decay", "clip"), [(0.3, 0.0), (0.0, 0.05), (0.3, 0.1)])
def test_clipped_sgd_is_what_torchs_usual_loop_does(momentum, weight_decay, clip):
    def solve(x, local, steps):
        y = torch.tensor(x, requires_grad=True)
        torchs = optim.SGD([y], lr=0.05, momentum=momentum, weight_decay=weight_decay)
        for _ in range(steps):
            y.grad = torch.from_numpy(local(y.detach().numpy())[1])
            if clip:
                torch.nn.utils.clip_grad_norm_([y], clip)
            torchs.step()
        return y.detach().numpy()

    given = {"momentum": momentum, "weight_decay": weight_decay, "clip": clip}
    check(fedlib.FedOpt(client=fedlib.ClippedSGD(lr=0.05, **given)), solve)


def check(method, solve, mu=0.0):
    """FedAvg over the clients of ``problem()``; each solves mu-proximal subproblems its way.

    It is given the local objective, a function of a point: (value, gradient).
    """
    A, b, weights, x, offset = problem().values()
    p, rounds = weights / weights.sum(), 5
    ours = end(fedlib.quadratic_task(**problem()), method, rounds, local_steps=STEPS)
    for _ in range(rounds):
        ends = []
        for i in range(M):

            def local(y, i=i, x=x):
                value = 0.5 * y @ A[i] @ y - b[i] @ y + offset[i] + mu / 2 * (y - x) @ (y - x)
                return value, A[i] @ y - b[i] + mu * (y - x)

            ends.append(solve(x, local, STEPS[i]))
        x = p @ np.array(ends)
    assert np.abs(ours - x).max() < 1e-9


class Signs(fedlib.SGD):
    def step(self, x, state, oracle, lr):
        value, g = oracle(x)
        return value, x - lr * g.sign(), state


def test_a_subclass_of_sgd_takes_its_own_steps():
    def solve(x, local, steps):
        for _ in range(steps):
            x = x - 0.1 * np.sign(local(x)[1])
        return x

    check(fedlib.FedOpt(client=Signs(lr=0.1)), solve)


# With momentum: test_client_momentum.
OTHER = {"lr": 0.3, "eps": 0.1}
TORCH = [
    (fedlib.client.Adam(), optim.Adam, {}),
    (fedlib.client.Adam(beta1=0.5, beta2=0.7, **OTHER), optim.Adam, {"betas": (0.5, 0.7), **OTHER}),
    (fedlib.client.Adagrad(), optim.Adagrad, {}),
    (fedlib.client.Adagrad(**OTHER), optim.Adagrad, OTHER),
]


@pytest.mark.parametrize(("ours", "theirs", "given"), TORCH)
def test_equals_torch_optim_restarted_every_round(ours, theirs, given):
    def solve(start, local, steps):
        x = torch.tensor(start, requires_grad=True)
        optimizer = theirs([x], **given)
        for _ in range(steps):
            x.grad = torch.tensor(local(x.detach().numpy())[1])
            optimizer.step()
        return x.detach().numpy()

    check(fedlib.FedOpt(client=ours), solve)


def two_nets(**h):
    """Delta-SGD with a second copy of the model for the previous point, as the authors do it."""
    delta, gamma = h.get("delta", 0.1), h.get("gamma", 2.0)

    def solve(start, local, steps):
        x, prev = start.copy(), start.copy()
        eta, theta = h.get("eta0", 0.2), h.get("theta0", 1.0)
        g_kept = np.zeros(D)
        for k in range(steps):
            g = local(x)[1]
            g_prev = g_kept if h.get("reuse_gradient") else local(prev)[1]
            dx, dg = np.linalg.norm(x - prev), np.linalg.norm(g - g_prev)
            if k == 0 and h.get("first_step") == "eta0":
                new, theta_new = eta, theta
            else:
                new = eta * np.sqrt(1 + delta * theta)
                if dx > 0 and dg > 0:
                    new = min(new, gamma / 2 * dx / dg) + h.get("eps", 1e-8)
                theta_new = new / eta
            prev, g_kept = x.copy(), g
            eta, theta = new, theta_new
            x = x - eta * g
        return x

    return solve


DELTA = [
    {},
    {"first_step": "eta0"},
    {"reuse_gradient": True},
    {"reuse_gradient": True, "first_step": "eta0", "eps": 0.0},
    {"delta": 1.0, "gamma": 0.7, "eta0": 0.05, "theta0": 0.3, "eps": 1e-3},
    {"shared_masks": True},
]


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("settings", DELTA)
def test_delta_sgd_equals_two_nets(settings, mu):
    """With a proximal term both gradients have it."""
    method = fedlib.FedOpt(client=fedlib.DeltaSGD(**settings), objective=fedlib.Proximal(mu))
    check(method, two_nets(**settings), mu)


def test_delta_sgd_asks_twice_on_one_batch():
    """At the previous point with masks of its own, unless they are shared; or not at all."""
    asked = []

    def oracle(x, draw=0):
        asked.append((float(x[0]), draw))
        return x.square().sum(-1, keepdim=True), 2 * x

    for settings, draws in (({}, [0, 1]), ({"shared_masks": True}, [0, 0])):
        rule = fedlib.DeltaSGD(**settings)
        x = torch.ones(1)
        state = rule.init(x)
        asked.clear()
        _, y, state = rule.step(x, state, oracle, torch.ones(1))
        rule.step(y, state, oracle, torch.ones(1))
        assert [draw for _, draw in asked] == draws * 2
        assert [point for point, _ in asked] == [1, 1, float(y), 1]
    rule = fedlib.DeltaSGD(reuse_gradient=True)
    asked.clear()
    rule.step(x, rule.init(x), oracle, torch.ones(1))
    assert asked == [(1, 0)]


def polyak(**h):
    def solve(start, local, steps):
        x = start
        for _ in range(steps):
            value, g = local(x)
            excess = max(value - h.get("f_star", 0.0), 0)
            eta = excess / (h.get("c", 0.5) * g @ g + h.get("eps", 1e-8))
            x = x - min(eta, h.get("eta_max", np.inf)) * g
        return x

    return solve


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize(
    "settings", [{"c": 2.0}, {"eta_max": 0.3}, {"f_star": 0.9, "c": 1.0}, {"c": 1.0, "eps": 0.5}]
)
def test_sps_equals_numpy(settings, mu):
    """The step size is the whole local objective's, its proximal term included."""
    method = fedlib.FedOpt(client=fedlib.SPS(**settings), objective=fedlib.Proximal(mu))
    check(method, polyak(**settings), mu)


def test_sps_does_not_step_below_f_star_and_reports_the_own_loss():
    task = fedlib.quadratic_task(**problem())
    still = fedlib.FedOpt(client=fedlib.SPS(f_star=100.0), objective=fedlib.Proximal(1.0))
    history = fedlib.run(task, still, rounds=2, overrides={"local_steps": 3})
    assert np.allclose(history.params["x"].numpy(), problem()["x0"])
    # The first step is at the anchor and so the same; the second loss is without the term too.
    settings = {"client_optimizer": "sps", "c": 2.0, "local_steps": 2}
    keys = [{**settings, "mu": mu} for mu in (0, 5)]
    plain, proximal = (fedlib.run(task, "fedprox", rounds=1, overrides=own) for own in keys)
    assert plain.series("loss", "train").tolist() == proximal.series("loss", "train").tolist()


def resolved(algorithm, task, **overrides):
    return configure(task, algorithm, overrides=overrides)[1]


def test_names_keys_and_defaults(synthetic):
    built = resolved("fedadam", synthetic, client_optimizer="adam", client_beta1=0.5, eps=1e-4)
    assert built.client == fedlib.client.Adam(beta1=0.5, eps=1e-4) and built.server.beta1 == 0.9
    # The task's rate is SGD's: it holds with momentum, and says nothing for Adam and Adagrad.
    for name, rate in (("sgdm", 0.01), ("adam", 1e-3), ("adagrad", 1e-2)):
        assert resolved("fedavg", synthetic, client_optimizer=name).client.lr == rate
    assert resolved("fedavg", synthetic, client_optimizer="adam", client_lr=0.2).client.lr == 0.2
    tuned = fedlib.load_task("mnist", network="paper")
    assert resolved("fedavg", tuned, client_optimizer="adam").client.lr == 1e-3
    assert resolved("fedavg", tuned, client_optimizer="delta_sgd").client == fedlib.DeltaSGD()
    assert resolved("fedavgm", tuned, client_optimizer=None) == resolved("fedavgm", tuned)
