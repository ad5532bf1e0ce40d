"""Running statistics travel with the model: moved by the clients' steps, averaged by the server.

And the L2 term, of weights alone.
"""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedlib
from fedlib.engine import configure
from fedlib.engine.rows import FlatModel
from fedlib.models import replace_batch_norm
from fedlib.models.batch_norm import BatchNorm2d
from fedlib.models.layers import Conv2d, GlobalAvgPool2d, Linear
from tests.engine.reference import assert_rows_agree
from tests.engine.test_checkpoint import interrupted
from tests.results.test_store import same

BACKENDS = ["vectorized", "plain", "parallel"]
SETTINGS = {"rounds": 3, "dtype": "float64", "clients_per_round": 2}
# Client 0 trains in batches of 4, 4 and 2 with a batch size of 4, client 1 in 4 and 1.
PARTS = [list(range(10)), list(range(10, 15)), []]


class Net(nn.Module):
    carries_rows = True

    def __init__(self, make_norm, convolution, dense):
        super().__init__()
        self.convolution = convolution(1, 3, 3)
        self.norm = make_norm(3)
        self.average = GlobalAvgPool2d()
        self.dense = dense(3, 2)

    def features(self, x):
        return self.average(F.relu(self.norm(self.convolution(x))))

    def head(self, z):
        return self.dense(z)

    def forward(self, x):
        return self.head(self.features(x))


def tracked():
    return Net(lambda channels: BatchNorm2d(channels, track=True), Conv2d, Linear)


def users():
    """The same by a module whose rows go one by one."""
    net = Net(lambda channels: BatchNorm2d(channels, track=True), nn.Conv2d, nn.Linear)
    net.carries_rows = False
    return net


def task(**fields):
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(15, 1, 5, 5, generator=draw, dtype=torch.float64) * 2 + 1
    y = torch.randint(0, 2, (15,), generator=draw)
    data = fedlib.ClientData(x, y, PARTS)
    everyone = fedlib.ClientData(x, y, [list(range(15))])
    return fedlib.Task(
        "tracked", tracked, data, everyone, clients_per_round=3, version="1", **fields
    )


def by_hand(rounds, steps, lr, start, l2=0.0):
    """Two clients with torch's own layers, each step on all of a client's examples.

    The squares of weights count in gradients, those of the norm do not.
    """
    problem = task()
    server = Net(nn.BatchNorm2d, nn.Conv2d, nn.Linear).double()
    server.load_state_dict(start, strict=False)
    for _ in range(rounds):
        states = []
        for part in PARTS[:2]:
            client = copy.deepcopy(server).train()
            optimizer = torch.optim.SGD(client.parameters(), lr=lr)
            for _ in range(steps):
                optimizer.zero_grad()
                loss = F.cross_entropy(client(problem.train.x[part]), problem.train.y[part])
                weights = [*client.convolution.parameters(), *client.dense.parameters()]
                (loss + l2 * sum(w.square().sum() for w in weights)).backward()
                optimizer.step()
            states.append(client.state_dict())
        mean = {name: (10 * states[0][name] + 5 * states[1][name]) / 15 for name in states[0]}
        server.load_state_dict(mean)
    return server.eval()


def pretrained():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    for _ in range(9):
        net.train()(torch.rand(16, 3, 5, 5) * 5 + 2)
    return net.eval()


class Frozen(nn.Module):
    """Pretrained features that stay, and a layer of its own."""

    def __init__(self):
        super().__init__()
        self.body, self.head = pretrained().requires_grad_(False), nn.Linear(36, 3)

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))


def test_pretrained_statistics_stay_or_go_on_from_where_they_are():
    x = torch.rand(12, 3, 5, 5, generator=torch.Generator().manual_seed(1)) * 5 + 2
    data = fedlib.ClientData(x, torch.arange(12) % 3, [range(5), range(5, 12)])
    frozen = fedlib.run(fedlib.Task("own", Frozen, data, data), "fedavg", rounds=2)
    assert torch.equal(frozen.model().body(x), pretrained()(x)) and frozen.diverged is None
    assert frozen.series("loss").iloc[-1] < frozen.series("loss").iloc[0]

    def moving():
        return nn.Sequential(replace_batch_norm(pretrained(), by="running"), nn.Linear(36, 3))

    task = fedlib.Task("own", moving, data, data)
    before = fedlib.run(task, "fedavg", rounds=0).model()[0]
    torch.testing.assert_close(before(x), pretrained()(x))
    after = fedlib.run(task, "fedavg", rounds=1).model()[0]
    assert not torch.equal(after[1].running_mean, before[1].running_mean)


@pytest.mark.parametrize(
    ("backend", "l2", "model"),
    [*((name, 0.0, tracked) for name in BACKENDS), ("auto", 0.03, tracked), ("auto", 0.0, users)],
)
def test_two_clients_are_torchs_batch_norm_trained_by_hand(backend, l2, model):
    problem = task(batch_size=None, local_epochs=2, l2=l2)
    problem = dataclasses.replace(problem, model=model)
    settings = {**SETTINGS, "clients_per_round": 3, "backend": backend}
    start = fedlib.run(problem, "fedavg", **{**settings, "rounds": 0}).params
    history = fedlib.run(problem, "fedavg", overrides={"client_lr": 0.3}, **settings)
    wanted = by_hand(3, 2, 0.3, start, l2)
    state = wanted.state_dict()
    del state["norm.num_batches_tracked"]
    torch.testing.assert_close(history.params, dict(state), rtol=0, atol=1e-10)
    assert (state["norm.running_mean"] - start["norm.running_mean"]).abs().min() > 0.01
    logits = wanted(problem.train.x)
    expected = F.cross_entropy(logits, problem.train.y).item()
    assert history.final("loss", window=1) == pytest.approx(expected, abs=1e-10)
    sent = history.frame.query("metric == 'floats_up'")["value"].iloc[0]
    assert sent == 2 * (sum(p.numel() for p in wanted.parameters()) + 6)


def test_a_step_moves_the_statistics_once_however_often_it_evaluates():
    problem = task(batch_size=None, local_epochs=3)
    settings = {**SETTINGS, "rounds": 1, "clients_per_round": 3}
    start = fedlib.run(problem, "fedavg", **{**settings, "rounds": 0}).params
    expected = by_hand(1, 3, 0.1, start).state_dict()
    # Two gradients a step, at other parameters, and yet SGD's steps of size 0.1.
    overrides = {"client_optimizer": "delta_sgd", "gamma": 1e9, "delta": 0, "eta0": 0.1, "eps": 0}
    got = fedlib.run(problem, "fedavg", overrides=overrides, **settings).params
    for name in ("norm.running_mean", "norm.running_var"):
        torch.testing.assert_close(got[name], expected[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("algorithm", "model"), [("fedavg", tracked), ("mime", users)])
def test_a_configuration_is_the_same_alone_and_in_a_grid(algorithm, model, tmp_path):
    problem = dataclasses.replace(task(batch_size=4), model=model)
    rates = [0.05, 0.3, 1e200]  # the last one diverges
    alone = [fedlib.run(problem, algorithm, client_lr=rate, **SETTINGS) for rate in rates]
    configured = [
        configure(problem, algorithm, overrides={"client_lr": rate}, **SETTINGS) for rate in rates
    ]
    resumed, grid = (interrupted(configured, tmp_path, cuts) for cuts in ((1, 1), ()))
    assert [run.diverged is None for run in grid] == [True, True, False]
    assert grid[0].meta["backend"] == "vectorized"
    assert all(same(a, b) for a, b in zip(resumed[:2], grid[:2], strict=True))
    for one, other in zip(alone[:2], grid[:2], strict=True):
        torch.testing.assert_close(one.params, other.params, rtol=1e-9, atol=1e-10)


def test_pieces_of_an_evaluation_are_whole_batches(monkeypatch):
    """Where a batch is normalised with its own statistics, in evaluation, too."""
    x = torch.randn(300, 1, 5, 5, generator=torch.Generator().manual_seed(0)) * 2 + 1
    test = fedlib.ClientData(x, torch.arange(300) % 2, [range(300)])
    model = Net(BatchNorm2d, Conv2d, Linear)
    problem = dataclasses.replace(task(), model=model, test=test)
    at_once = fedlib.run(problem, "fedavg", **{**SETTINGS, "rounds": 0})
    monkeypatch.setattr("fedlib.engine.evaluation.CHUNK_NUMBERS", 200 * 25)  # 200 images
    pieces = fedlib.run(problem, "fedavg", **{**SETTINGS, "rounds": 0})
    assert pieces.final("loss") == pytest.approx(at_once.final("loss"), rel=1e-12)


def ordinary():
    """Layers for torch.func.vmap."""
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, 2))


SPS, DELTA = {"client_optimizer": "sps"}, {"client_optimizer": "delta_sgd"}


@pytest.mark.parametrize(
    ("algorithm", "overrides", "model", "reduction"),
    [
        *(("mime", {}, tracked, "mean"), ("mime", {}, ordinary, "sum")),
        *(("qfedavg", {}, tracked, "sum"), ("adafedadam", {}, ordinary, "mean")),
        *(("fedavg", SPS, tracked, "sum"), ("fedavg", SPS, ordinary, "mean")),
        *((name, {}, tracked, "mean") for name in ("fedadam", "moon", "scaffold", "adafedadam")),
        ("fedavg", DELTA, tracked, "mean"),
    ],
)
def test_rows_agree_in_short_batches_with_an_l2_term(algorithm, overrides, model, reduction):
    problem = task(batch_size=4, local_epochs=2, l2=0.03, reduction=reduction)
    problem = dataclasses.replace(problem, model=model)
    params = assert_rows_agree(problem, algorithm, overrides=overrides, **SETTINGS)
    assert model is not tracked or (params["norm.running_mean"] != 0).all()


@pytest.mark.parametrize(
    "norm", [nn.GroupNorm(2, 4), nn.LayerNorm(4), nn.RMSNorm(4), nn.InstanceNorm2d(4, affine=True)]
)
def test_an_l2_term_is_of_no_normalisation(norm):
    dense = nn.Linear(4, 2)
    rows = FlatModel(nn.Sequential(norm, dense), torch.float32, torch.device("cpu"))
    expected = sum(p.detach().square().sum() for p in dense.parameters())
    torch.testing.assert_close(rows.squares(rows.views(rows.initial())), expected)


def test_an_l2_term_is_an_option_of_cifar_and_off_by_default():
    for given in ({}, {"l2": 1e-4}):
        task = fedlib.load_task("cifar10", clients=4, test_clients=1, width=1 / 32, **given)
        assert task.l2 == task.options["l2"] == given.get("l2", 0.0)
