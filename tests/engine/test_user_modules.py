"""Modules that users write with torch's own layers: the backends agree, or one line refuses."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import fedlib
from fedlib.losses import cross_entropy


class Square(torch.autograd.Function):
    """A function without a rule for vmap."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> Tensor:  # type: ignore[override]
        return 2 * grad * ctx.saved_tensors[0]  # type: ignore[attr-defined]


class Net(nn.Module):
    """Two dense layers with something between them: a function of (module, hidden)."""

    def __init__(self, between: Callable[[Net, Tensor], Tensor], *inner: nn.Module) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(6, 8), nn.ModuleList(inner)
        self.between, self.last = between, nn.Linear(8, 2)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.between(self, self.first(x)))


class Sequence(nn.Module):
    """A layer on three steps of two numbers."""

    def __init__(self, layer: nn.Module, attends: bool) -> None:
        super().__init__()
        self.embed, self.layer, self.last = nn.Linear(2, 4), layer, nn.Linear(4, 2)
        self.attends = attends

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embed(x.view(-1, 3, 2))
        out = self.layer(hidden, hidden, hidden)[0] if self.attends else self.layer(hidden)
        return self.last(out.mean(1))


class Recurrent(nn.Module):
    """A layer of torch's without a rule for vmap, on features that have a head with dropout."""

    def __init__(self, layer: Callable[..., nn.Module], p: float = 0.0) -> None:
        super().__init__()
        self.layer = layer(2, 4, batch_first=True)
        self.dropout, self.dense = nn.Dropout(p), nn.Linear(4, 2)

    def features(self, x: Tensor) -> Tensor:
        return self.layer(x.view(-1, 3, 2))[0].mean(1)

    def head(self, features: Tensor) -> Tensor:
        return self.dense(self.dropout(features))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


class Words(nn.Module):
    def __init__(self, embedding: nn.Module) -> None:
        super().__init__()
        self.embedding, self.last = embedding, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.embedding((x * 2).long().clamp(0, 6))
        return self.last(hidden if hidden.dim() == 2 else hidden.mean(1))


class Scaled(nn.Module):
    """Parameters without dimensions, the first one of all among them."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.tensor(1.5)), nn.Linear(6, 2)
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x) * self.scale + self.shift


def by_numpy(net: Net, x: Tensor) -> Tensor:
    return x * torch.from_numpy(np.tanh(x.detach().numpy()))


def image(net: Net, x: Tensor) -> Tensor:
    return net.inner[0](x.view(-1, 2, 2, 2)).flatten(1)


def inner(net: Net, x: Tensor) -> Tensor:
    for layer in net.inner:
        x = layer(x)
    return x


def written(net: Net, x: Tensor) -> Tensor:
    zeros = torch.zeros(len(x), 8, dtype=x.dtype)
    zeros[:, :4] = x[:, :4]
    zeros += x
    return zeros.relu_()


def noisy(net: Net, x: Tensor) -> Tensor:
    return x + torch.rand(8) if net.training else x


def hooked() -> nn.Module:
    net = Net(inner)
    net.first.register_forward_hook(lambda module, inputs, output: output * 2)
    return net


MODELS: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: Sequence(nn.MultiheadAttention(4, 2, batch_first=True), True),
    "encoder": lambda: Sequence(nn.TransformerEncoderLayer(4, 2, 8, 0, batch_first=True), False),
    "GRU": lambda: Recurrent(nn.GRU),
    "LSTM": lambda: Recurrent(nn.LSTM),
    "padding": lambda: Words(nn.Embedding(7, 4, padding_idx=0)),
    "max_norm": lambda: Words(nn.Embedding(7, 4, max_norm=0.5)),
    "bag": lambda: Words(nn.EmbeddingBag(7, 4)),
    "function": lambda: Net(lambda net, x: Square.apply(x)),
    "in place": lambda: Net(written),
    "buffer": lambda: Net(lambda net, x: x * net.scale),
    "weight_norm": lambda: Net(inner, parametrizations.weight_norm(nn.Linear(8, 8))),
    "list": lambda: Net(inner, nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)),
    "no dimensions": Scaled,
    "fx": lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2))),
    "NumPy": lambda: Net(by_numpy),
    "NumPy of weights": lambda: Net(lambda net, x: x * float(net.scale.numpy().sum())),
    "item": lambda: Net(lambda net, x: x * net.last.weight.abs().max().item()),
    "unused": lambda: Net(lambda net, x: x, nn.Linear(3, 3)),
    "hook": hooked,
    "data parallel": lambda: nn.DataParallel(Net(inner)),
    "compiled": lambda: torch.compile(Net(inner), backend="eager"),
}
DRAWING: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: Recurrent(nn.GRU, 0.4),
    "rand": lambda: Net(noisy),
    "F.dropout": lambda: Net(lambda net, x: F.dropout(x, 0.5, net.training)),
    "F.dropout twice": lambda: Net(
        lambda net, x: F.dropout(F.dropout(x, 0.2, net.training), 0.5, net.training)
    ),
    "Dropout2d": lambda: Net(image, nn.Dropout2d(0.3)),
    "AlphaDropout": lambda: Net(inner, nn.AlphaDropout(0.3)),
    "RReLU": lambda: Net(inner, nn.RReLU()),
    "encoder": lambda: Sequence(nn.TransformerEncoderLayer(4, 2, 8, 0.2, batch_first=True), False),
}
# Forward passes that look across their batch: they see no padding.
MIXING: dict[str, Callable[[], nn.Module]] = {
    "BatchNorm2d": lambda: Net(image, nn.BatchNorm2d(2, track_running_stats=False)),
    "mean": lambda: Net(lambda net, x: x - x.mean(0)),
    "largest": lambda: Net(lambda net, x: x / x.abs().amax()),
    "softmax": lambda: Net(lambda net, x: x.softmax(0)),
    "order": lambda: Net(lambda net, x: x.sort(0).values),
    "similarities": lambda: Net(lambda net, x: (x @ x.T).softmax(-1) @ x),
    "first": lambda: Net(lambda net, x: x + x[-1:]),
    "and dropout": lambda: Net(lambda net, x: F.dropout(x - x.mean(0), 0.3, net.training)),
    "attention": lambda: Sequence(nn.MultiheadAttention(4, 2), True),
}
EVERY = {**MODELS, **MIXING, **{f"drawing {name}": model for name, model in DRAWING.items()}}


def examples(count: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(0)).abs()
    return x, (x[:, 0] > 0.6).long()


PARTS = [np.arange(0, 8), np.arange(8, 15), np.arange(15, 20)]  # last batches of 2, 1 and 2
DATA, MANY = fedlib.ClientData(*examples(20), PARTS), examples(300)


def task(model: Callable[[], nn.Module]) -> fedlib.Task:
    return fedlib.Task("modules", model, DATA, DATA, batch_size=3)


def trained(model: Callable[[], nn.Module], lr: float = 0.1, **given: str) -> dict[str, Tensor]:
    settings = {"rounds": 3, "dtype": "float64", **given}
    return fedlib.run(task(model), "fedavg", overrides={"client_lr": lr}, **settings).params


@pytest.mark.parametrize("name", EVERY)
def test_rows_are_those_of_one_client_after_the_other(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of torch's, for instance: vmap is slow here
        by_rows, plain = (trained(EVERY[name], backend=b) for b in ("vectorized", "reference"))
    EVERY[name]().load_state_dict(by_rows)
    torch.testing.assert_close(by_rows, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("algorithm", ["scaffold", "moon"])
def test_other_methods_train_them_row_by_row(algorithm: str) -> None:
    settings = {"rounds": 3, "dtype": "float64", "overrides": {"client_lr": 0.5}}
    by_rows, plain = (
        fedlib.run(task(DRAWING["GRU"]), algorithm, backend=backend, **settings).params
        for backend in ("vectorized", "reference")
    )
    torch.testing.assert_close(by_rows, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["padding", "drawing rand", "drawing encoder", "function"])
def test_a_grid_of_them_is_their_runs(name: str) -> None:
    frame = fedlib.grid(
        task(EVERY[name]), "fedavg", rounds=2, dtype="float64", client_lr=[0.1, 0.5]
    )
    for rate in (0.1, 0.5):
        alone = fedlib.run(
            task(EVERY[name]), "fedavg", rounds=2, dtype="float64", overrides={"client_lr": rate}
        )
        cell = frame[(frame["client_lr"] == rate) & (frame["metric"] == "loss")]
        value = cell[(cell["split"] == "test") & (cell["round"] == 2)]["value"].item()
        assert value == pytest.approx(alone.series("loss").iloc[-1], rel=1e-10)


@pytest.mark.parametrize("name", ["mean", "BatchNorm2d"])
def test_evaluation_across_a_batch_depends_on_no_other_run(name: str) -> None:
    task = fedlib.Task("m", MIXING[name], DATA, fedlib.ClientData(*MANY, [range(300)]))
    rates = [0.1 * n for n in range(1, 12)]
    frame = fedlib.grid(task, "fedavg", rounds=1, client_lr=rates)
    alone = fedlib.run(task, "fedavg", rounds=1, overrides={"client_lr": 0.1}).frame
    alone = alone[(alone["split"] == "test") & (alone["metric"] == "loss")]
    own = frame[(frame["client_lr"] == 0.1) & (frame["metric"] == "loss")]
    own = own[own["split"] == "test"]
    assert own["value"].tolist() == pytest.approx(alone["value"].tolist(), rel=1e-6)


LOSSES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "contrastive": lambda o, y: (o @ o.mT).logsumexp(-1) - o.square().sum(-1),
    "centred": lambda o, y: (o - o.mean(1, keepdim=True)).square().sum(-1),
    "normalised": lambda o, y: cross_entropy(o, y) / cross_entropy(o, y).sum(),
    "mean": lambda o, y: cross_entropy(o, y).mean().expand(y.shape),
    "hardest": lambda o, y: cross_entropy(o, y) * (o == o.amax((1, 2), keepdim=True)).any(-1),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_and_metrics_across_a_batch_are_refused(name: str) -> None:
    for given in ({"loss": LOSSES[name]}, {"metrics": {"mine": LOSSES[name]}}):
        task = fedlib.Task("m", lambda: nn.Linear(6, 2), DATA, DATA, **given)  # type: ignore[arg-type]
        with pytest.raises(fedlib.Error, match="changes with the others' outputs"):
            fedlib.run(task, "fedavg", rounds=1)


def test_the_row_of_padding_stays_as_it_is() -> None:
    params = trained(MODELS["padding"])
    assert (params["embedding.weight"][0] == 0).all()
    assert (params["embedding.weight"][1:] != 0).all()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: nn.Linear(5, 2), "shapes cannot be multiplied"),
        (lambda: nn.Sequential(nn.LazyLinear(2)), r"0 \(LazyLinear\) has no parameters yet"),
        (lambda: torch.jit.script(nn.Linear(6, 2)), "is scripted"),
        (lambda: Net(inner, nn.BatchNorm1d(8)), "running statistics"),
        (
            lambda: Net(inner, nn.BatchNorm1d(8, track_running_stats=False)),
            "looks across its batch and does not take one of one example.*: Expected more than 1",
        ),
    ],
)
def test_what_cannot_be_trained_is_one_line(model: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(fedlib.Error, match=message) as caught:
        trained(model)
    assert "\n" not in str(caught.value)
