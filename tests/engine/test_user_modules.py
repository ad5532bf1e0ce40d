"""Modules that users write with torch's own layers: the backends agree, or one line refuses."""

import warnings

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

import fedlib
from fedlib.models.layers import Conv2d, Dropout, GroupNorm, Linear
from tests.engine.reference import assert_rows_agree, fedavg
from tests.refusals import refused


class Square(torch.autograd.Function):
    """A function without a rule for vmap."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * ctx.saved_tensors[0]


class Net(nn.Module):
    """Two dense layers with something between them: a function of (module, hidden)."""

    def __init__(self, between, *inner):
        super().__init__()
        self.first, self.inner = nn.Linear(6, 8), nn.ModuleList(inner)
        self.between, self.last = between, nn.Linear(8, 2)
        self.register_buffer("scale", torch.full((8,), 0.5))

    def forward(self, x):
        return self.last(self.between(self, self.first(x)))


class Tamed(Net):
    """A part is never in training mode, and ``train`` gives nothing."""

    def train(self, mode=True):
        super().train(mode)
        self.inner.eval()


class Sequence(nn.Module):
    """A layer on three steps of two numbers."""

    def __init__(self, layer):
        super().__init__()
        self.embed, self.layer, self.last = nn.Linear(2, 4), layer, nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.layer(self.embed(x.view(-1, 3, 2))).mean(1))


class Recurrent(nn.Module):
    """A layer of torch's without a rule for vmap, on features that have a head with dropout."""

    def __init__(self, layer, p=0.0):
        super().__init__()
        self.layer = layer(2, 4, batch_first=True)
        self.dropout, self.dense = nn.Dropout(p), nn.Linear(4, 2)

    def features(self, x):
        return self.layer(x.view(-1, 3, 2))[0].mean(1)

    def head(self, features):
        return self.dense(self.dropout(features))

    def forward(self, x):
        return self.head(self.features(x))


class Words(nn.Module):
    def __init__(self, embedding):
        super().__init__()
        self.embedding, self.last = embedding, nn.Linear(4, 2)

    def forward(self, x):
        hidden = self.embedding((x * 2).long().clamp(0, 6))
        return self.last(hidden if hidden.dim() == 2 else hidden.mean(1))


class Scaled(nn.Module):
    """Parameters without dimensions, the first one of all among them."""

    def __init__(self):
        super().__init__()
        self.scale, self.last = nn.Parameter(torch.tensor(1.5)), nn.Linear(6, 2)
        self.shift = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.last(x) * self.scale + self.shift


class Ordered(nn.Module):
    """A frozen parameter of whole numbers, the first one of all."""

    def __init__(self):
        super().__init__()
        self.order = nn.Parameter(torch.arange(6).flip(0), requires_grad=False)
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(x[:, self.order])


def image(net, x):
    return net.inner[0](x.view(-1, 2, 2, 2)).flatten(1)


def inner(net, x):
    for layer in net.inner:
        x = layer(x)
    return x


def steps_first(net, x):
    """Dropout of ``[T, B, F]``, as many have it around ``nn.LSTM``."""
    return net.inner[0](x.unflatten(-1, (4, 2)).transpose(0, 1)).transpose(0, 1).flatten(1)


class StepsFirst(Dropout):
    """The same where there may be rows: ``[(R,) B, 8]``."""

    def forward(self, x):
        steps = x.unflatten(-1, (4, 2)).transpose(-3, -2)
        return super().forward(steps).transpose(-3, -2).flatten(-2)


def written(net, x):
    zeros = torch.zeros(len(x), 8, dtype=x.dtype)
    zeros[:, :4] = x[:, :4]
    zeros += x
    return zeros.relu_()


def hooked(register, hook):
    net = Net(inner)
    getattr(net.last, register)(hook)
    return net


def reversed_by_hook(net, x):
    if x.requires_grad:
        x.register_hook(lambda grad: -grad)
    return x


@torch.enable_grad()
def slope(net, x):
    x = x.detach().requires_grad_() if not x.requires_grad else x
    return torch.autograd.grad((net.last(x) ** 3).sum(), x, create_graph=True)[0]


class Around(nn.Module):
    """A layer that is called by a closure."""

    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(6, 8), nn.Linear(8, 2)
        self.hidden = lambda x: self.layer(x).tanh()

    def forward(self, x):
        return self.last(self.hidden(x))


def gated():
    """Of whose parts one is nothing at the start."""
    net = Net(lambda net, x: x + net.gate * x.mean(0))
    net.gate = nn.Parameter(torch.zeros(()))
    return net


class Tuned(nn.Module):
    """Layers of fedlib's, of which some are frozen, one of them in part."""

    carries_rows = True

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = Conv2d(2, 4, 1), GroupNorm(2, 4), Linear(12, 2)
        self.first.requires_grad_(False)
        self.norm.weight.requires_grad_(False)

    def forward(self, x):
        hidden = self.first(x.unflatten(-1, (2, 3, 1)))
        return self.last((hidden + self.norm(hidden)).flatten(-3))


class Rows(nn.Module):
    """Layers with rows, and something before them: a function of (module, inputs)."""

    carries_rows = True

    def __init__(self, before, last=None):
        super().__init__()
        self.before, self.first, self.last = before, Linear(6, 8), last or Linear(8, 2)

    def forward(self, x):
        return self.last(self.first(self.before(self, x)).tanh())


MODELS = {
    "encoder": lambda: Sequence(nn.TransformerEncoderLayer(4, 2, 8, 0, batch_first=True)),
    "GRU": lambda: Recurrent(nn.GRU),
    "padding": lambda: Words(nn.Embedding(7, 4, padding_idx=0)),
    "by frequency": lambda: Words(nn.EmbeddingBag(7, 4, scale_grad_by_freq=True)),
    "function": lambda: Net(lambda net, x: Square.apply(x)),
    "in place": lambda: Net(written),
    "buffer": lambda: Net(lambda net, x: x * net.scale),
    "weight_norm": lambda: Net(inner, parametrizations.weight_norm(nn.Linear(8, 8))),
    "no dimensions": Scaled,
    "whole numbers": Ordered,
    "fx": lambda: torch.fx.symbolic_trace(nn.Sequential(nn.Linear(6, 3), nn.Linear(3, 2))),
    "NumPy": lambda: Net(lambda net, x: x * torch.from_numpy(np.tanh(x.detach().numpy()))),
    "item": lambda: Net(lambda net, x: x * net.last.weight.abs().max().item()),
    "unused": lambda: Net(lambda net, x: x, nn.Linear(3, 3)),
    "hook": lambda: hooked("register_forward_hook", lambda module, _, output: output * 2),
    "backward hook": lambda: hooked(
        "register_full_backward_hook", lambda module, grads, _: (-2 * grads[0],)
    ),
    "hook on a tensor": lambda: Net(reversed_by_hook),
    "sparse": lambda: Words(nn.Embedding(7, 4, sparse=True)),
    "gradient within": lambda: Net(slope),
    "changes its inputs": lambda: nn.Sequential(nn.SiLU(inplace=True), nn.Linear(6, 2)),
    "closure": Around,
    "data parallel": lambda: nn.DataParallel(Net(inner)),
    "frozen in part": Tuned,
    "changes its inputs, with rows": lambda: Rows(lambda net, x: x.sub_(0.5)),
    "rows that meet": lambda: Rows(lambda net, x: x * net.last.weight.abs().mean()),
    "a layer without rows": lambda: Rows(lambda net, x: x, nn.Linear(8, 2)),
    "tamed": lambda: Tamed(inner, nn.Dropout(0.5)),
    "compiled": lambda: torch.compile(Net(inner), backend="eager"),
}
DRAWING = {
    "GRU": lambda: Recurrent(nn.GRU, 0.4),
    "rand": lambda: Net(lambda net, x: x + torch.rand(8) if net.training else x),
    "dropout twice": lambda: Net(
        lambda net, x: F.dropout(F.dropout(x, 0.2, net.training), 0.5, net.training)
    ),
    "Dropout2d": lambda: Net(image, nn.Dropout2d(0.3)),
    "AlphaDropout": lambda: Net(inner, nn.AlphaDropout(0.3)),
    "with rows": lambda: Rows(lambda net, x: F.dropout(x, 0.3, net.training)),
    "RReLU": lambda: Net(inner, nn.RReLU()),
    "encoder": lambda: Sequence(nn.TransformerEncoderLayer(4, 2, 8, 0.2, batch_first=True)),
    "along steps": lambda: Net(steps_first, nn.Dropout(0.5)),
    "along steps, with rows": lambda: Rows(
        lambda net, x: x, nn.Sequential(StepsFirst(), Linear(8, 2))
    ),
}
# Forward passes that look across their batch: they see no padding.
MIXING = {
    "BatchNorm2d": lambda: Net(image, nn.BatchNorm2d(2, track_running_stats=False)),
    "mean": lambda: Net(lambda net, x: x - x.mean(0)),
    "largest": lambda: Net(lambda net, x: x / x.abs().amax()),
    "order": lambda: Net(lambda net, x: x.sort(0).values),
    "first": lambda: Net(lambda net, x: x + x[-1:]),
    "and dropout": lambda: Net(lambda net, x: F.dropout(x - x.mean(0), 0.3, net.training)),
    "attention": lambda: Sequence(nn.TransformerEncoderLayer(4, 2, 8, 0)),
    "gate": gated,
    "with rows": lambda: Rows(lambda net, x: x - x.mean(-2, keepdim=True)),
    "but of three": lambda: Net(lambda net, x: x if len(x) == 3 else x - x.mean(0)),
}
EVERY = {**MODELS, **MIXING, **{f"drawing {name}": model for name, model in DRAWING.items()}}


def examples(count):
    x = torch.randn(count, 6, generator=torch.Generator().manual_seed(0)).abs()
    return x, (x[:, 0] > 0.6).long()


PARTS = [np.arange(0, 8), np.arange(8, 15), np.arange(15, 20)]  # last batches of 2, 1 and 2
DATA = fedlib.ClientData(*examples(20), PARTS)
TESTED = fedlib.ClientData(*examples(300), [range(300)])


def task(model):
    return fedlib.Task("modules", model, DATA, DATA, batch_size=3)


def trained(model, lr=0.1, **given):
    settings = {"rounds": 3, "dtype": "float64", **given}
    return fedlib.run(task(model), "fedavg", overrides={"client_lr": lr}, **settings).params


@pytest.mark.parametrize("name", EVERY)
def test_rows_are_those_of_one_client_after_the_other(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of torch's, for instance: vmap is slow here
        warnings.filterwarnings("ignore", "Guards may run slower")  # compiled, on Python 3.13.0
        by_rows = assert_rows_agree(task(EVERY[name]), rounds=3, overrides={"client_lr": 0.1})
    EVERY[name]().load_state_dict(by_rows)


# Those that neither draw nor depend on the order of a batch's examples.
FIXED = [*MODELS, "BatchNorm2d", "mean", "largest", "attention", "gate", "with rows"]


@pytest.mark.parametrize("name", [name for name in FIXED if name != "tamed"])
def test_the_plain_backend_is_a_loop_in_pytorch(name):
    whole = fedlib.Task("whole", EVERY[name], DATA, DATA, batch_size=None)
    how = {"dtype": "float64", "backend": "plain"}
    overrides = {"client_lr": 0.1, "local_steps": 2}
    ours = fedlib.run(whole, "fedavg", rounds=2, overrides=overrides, **how).params
    initial = fedlib.run(whole, "fedavg", rounds=0, dtype="float64").params
    theirs = fedavg(whole, initial, 2, 0.1, local_steps=2)
    torch.testing.assert_close(ours, {name: theirs[name] for name in ours}, rtol=1e-9, atol=1e-12)


INPLACE = "changes its inputs", "changes its inputs, with rows"


@pytest.mark.parametrize("name", ["tamed", *INPLACE, "mean", "with rows", "GRU", "whole numbers"])
def test_evaluate_says_what_the_run_said(name):
    task = fedlib.Task("m", EVERY[name], DATA, TESTED)
    history = fedlib.run(task, "fedavg", rounds=2, dtype="float64")
    assert fedlib.evaluate(task, history.params)["loss"] == pytest.approx(history.final("loss"))
    y, outputs = TESTED.y, fedlib.predict(task, history.params)
    assert F.cross_entropy(outputs, y).item() == pytest.approx(history.final("loss"))


@pytest.mark.parametrize(
    ("algorithm", "model"),
    [("scaffold", DRAWING["GRU"]), ("moon", DRAWING["GRU"]), ("mime", MODELS["encoder"])],
)
def test_other_methods_train_them_as_one_client_after_the_other(algorithm, model):
    assert_rows_agree(task(model), algorithm, rounds=3, overrides={"client_lr": 0.5})


def test_what_changes_its_inputs_has_them_whole_in_a_second_gradient():
    # Of one client a round, whose pass has no axis of rows, and so no copy of its batch.
    small = {"client_optimizer": "delta_sgd", "gamma": 0.1}  # so that the gradients' change counts
    how = {"rounds": 2, "clients_per_round": 1, "overrides": small}

    def params(inplace):
        def model():
            return nn.Sequential(nn.SiLU(inplace), nn.Linear(6, 2))

        return fedlib.run(task(model), "fedavg", **how).params

    torch.testing.assert_close(params(True), params(False), rtol=1e-5, atol=1e-6)


GRIDS = ["padding", "drawing rand", "drawing encoder", "function", "frozen in part"]


@pytest.mark.parametrize("name", [*GRIDS, "mean", "BatchNorm2d"])
def test_a_grid_of_them_is_their_runs(name, caplog):
    """Of those that look across a batch too: evaluation's pieces depend on no other run."""
    task, rates = fedlib.Task("m", EVERY[name], DATA, TESTED), [0.1 * n for n in range(1, 12)]
    how = {"rounds": 2, "dtype": "float64"}
    frame = fedlib.grid(task, "fedavg", client_lr=rates, **how)
    plainly = any(record.name == "fedlib.plainly" for record in caplog.records)
    assert plainly == (name in MIXING)
    frame = frame[(frame["split"] == "test") & (frame["metric"] == "loss")]
    for rate in (0.1, 0.5):
        alone = fedlib.run(task, "fedavg", overrides={"client_lr": rate}, **how)
        first, last = frame[frame["client_lr"] == rate]["value"]
        assert (first, last) == pytest.approx(tuple(alone.series("loss").iloc[[0, -1]]), rel=1e-10)


class Remembers(nn.Module):
    """A module of some state, which ``remember`` takes up in its call."""

    def __init__(self, remember):
        super().__init__()
        self.last, self.remember = nn.Linear(6, 2), remember
        self.kept = None
        self.rng = np.random.default_rng(0)

    def forward(self, x):
        return self.last(self.remember(self, x))


def of_first_batch(module, x):
    module.kept = x.mean(0) if module.kept is None else module.kept
    return x - module.kept


def counted_in_evaluation(module, x):
    if not module.training:
        module.kept = (module.kept or 0) + 1
    return x * (1 + 0.1 * (module.kept or 0))


MEMORIES = {
    "of the first batch": of_first_batch,
    "a counter in evaluation": counted_in_evaluation,
    "NumPy's generator": lambda module, x: x * (1 + module.training * module.rng.random()),
}


def test_a_model_in_evaluation_mode_is_trained_in_training_mode():
    """As ``history.model()`` and many a pretrained one come."""

    def model():
        return Net(inner, nn.Dropout(0.5))

    torch.testing.assert_close(trained(lambda: model().eval()), trained(model))


@pytest.mark.parametrize("name", MEMORIES)
def test_what_a_call_leaves_to_the_next_is_refused(name):
    refused("other outputs after earlier calls", trained, lambda: Remembers(MEMORIES[name]))


def holding(what):
    net = Net(lambda net, x: x * net.held[0].mean())
    net.held = [what(net)]
    return net


def with_hook(register):
    net = Net(inner)
    getattr(net.first.weight, register)(lambda _: None)
    return net


def checkpointed(net, x):
    layer = net.inner[0]
    return checkpoint(lambda x: layer(x).tanh().square(), x, use_reentrant=False)


def on_one_memory():
    net = Net(inner, nn.Linear(6, 8))
    net.inner[0].weight = nn.Parameter(net.first.weight.detach()[2:])
    return net


def on_every_other_row():
    """Of one memory, too, but beyond as many numbers as the first has."""
    net, memory = Net(inner, nn.Linear(6, 8)), torch.randn(16, 6)
    net.first.weight = nn.Parameter(memory[::2])
    net.inner[0].weight = nn.Parameter(memory[9:15])
    return net


def bounded(net, x):
    net.last.weight.data = torch.renorm(net.last.weight.data, 2, 0, 1.5)  # beyond the first ones
    return x


OTHERWISE = {
    "closure of another": (Around(), "reads a parameter of another module"),
    "one memory": (on_one_memory, "inner.0.weight shares the memory of first.weight. Make"),
    "one memory, strided": (on_every_other_row, "inner.0.weight shares the memory of first.we"),
    "hook": (lambda: with_hook("register_hook"), "first.weight has a hook"),
    "late hook": (lambda: with_hook("register_post_accumulate_grad_hook"), "has a hook"),
    "hook of a module": (with_hook("register_hook"), "first.weight has a hook"),
    "bounded": (lambda: Net(bounded), "changes its parameter 'last.weight' in its forward pass"),
    "frozen max_norm": (
        lambda: Words(nn.Embedding(7, 4, max_norm=0.5).requires_grad_(False)),
        "changes its frozen parameter 'embedding.weight' when it is called",
    ),
}
# What rows would train otherwise, and the plain loop trains.
PLAINLY = {
    "in a list": lambda: holding(lambda net: net.last.weight),
    "a view of values": lambda: holding(lambda net: net.last.weight.data),
    "checkpoint": lambda: Net(checkpointed, nn.Linear(8, 8)),
    "sparse gradient": lambda: Net(
        lambda net, x: F.embedding((x[:, 0] > 0).long(), net.inner[0].weight, sparse=True),
        nn.Embedding(2, 8),
    ),
    "mean": MIXING["mean"],
}


@pytest.mark.parametrize("name", PLAINLY)
def test_what_rows_would_train_otherwise_is_trained_plainly(name, caplog):
    whole = fedlib.Task("whole", PLAINLY[name], DATA, DATA, batch_size=None)
    initial = fedlib.run(whole, "fedavg", rounds=0).params
    caplog.clear()
    overrides = {"client_lr": 0.1, "local_steps": 2}
    history = fedlib.run(whole, "fedavg", rounds=2, overrides=overrides)
    assert len(caplog.records) == 1 and "continues on the plain backend" in caplog.text
    theirs = fedavg(whole, initial, 2, 0.1, local_steps=2, dtype=torch.float32)
    theirs = {name: theirs[name] for name in history.params}
    torch.testing.assert_close(history.params, theirs, rtol=1e-4, atol=1e-6)
    assert fedlib.evaluate(whole, history.params)["loss"] == pytest.approx(history.final("loss"))


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_no_loop_would_train_the_same_is_refused(name):
    model, message = OTHERWISE[name]
    refused(message, trained, model, dtype="float32")


def test_initial_parameters_are_drawn_from_the_runs_numbers():
    rng = np.random.default_rng(0)

    def model():
        layer = nn.Linear(6, 2)
        nn.init.constant_(layer.bias, rng.random())
        return layer

    refused("another 'bias' at each call", trained, model)


class Features(nn.Module):
    """Random features, kept in one of three ways."""

    def __init__(self, kept):
        super().__init__()
        self.last = nn.Linear(9, 2)
        if kept == "attribute":
            self.features = torch.randn(6, 9)
        else:
            self.register_buffer("features", torch.randn(6, 9), persistent=kept == "buffer")

    def forward(self, x):
        return self.last((x @ self.features).cos())


@pytest.mark.parametrize("kept", ["attribute", "temporary"])
def test_random_constants_that_could_not_be_read_back_are_refused(kept):
    refused("numbers that its state dict lacks", trained, lambda: Features(kept), dtype="float32")
    trained(lambda: Features("buffer"), dtype="float32")


class Shares(nn.Module):
    """Shares of classes, of inputs with dropout of torch's."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 2)

    def forward(self, x):
        return self.last(F.dropout(x, 0.2, self.training)).softmax(-1)


def test_a_loss_may_be_infinite_at_outputs_of_zero():
    """As padding's were, beside which clients of several sizes train."""
    generator = torch.Generator().manual_seed(0)
    x, parts = torch.randn(60, 6, generator=generator), [range(13), range(13, 30), range(30, 60)]
    data = fedlib.ClientData(x, (x[:, 0] > 0).long(), parts)

    def loss(outputs, targets):
        return -outputs.gather(-1, targets.unsqueeze(-1)).squeeze(-1).log()

    task = fedlib.Task("mine", Shares, data, data, loss=loss, batch_size=5)
    together, alone = (
        fedlib.run(task, "fedavg", rounds=2, chunk_clients=count) for count in (None, 1)
    )
    assert together.diverged is None
    torch.testing.assert_close(together.params["last.weight"], alone.params["last.weight"])


def test_a_model_that_has_no_copies_is_trained_by_one_worker():
    auto = trained(Around)
    torch.testing.assert_close(auto, trained(Around, backend="plain"))
    torch.testing.assert_close(auto, trained(Around, backend="parallel"))


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_padding_is_seen_where_first_and_last_examples_are_alike(kind):
    codes = (torch.arange(20) % 3).to(kind)
    codes[19] = codes[0]
    data = fedlib.ClientData(codes, examples(20)[1], PARTS)

    def model():
        return Words(nn.Sequential(nn.Embedding(7, 4), nn.Softmax(0)))

    assert_rows_agree(fedlib.Task("codes", model, data, data, batch_size=3), rounds=2)


def test_outputs_of_nan_diverge():
    class Nan(nn.Linear):
        def forward(self, x):
            return super().forward(x) * float("nan")

    nan = fedlib.Task("m", lambda: Nan(6, 2), DATA, TESTED)
    assert fedlib.run(nan, "fedavg", rounds=1).diverged == 1


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: nn.Sequential(nn.LazyLinear(2)), "0.weight has no values yet. Call the model"),
        (lambda: torch.jit.script(nn.Linear(6, 2)), "is scripted"),
        (lambda: Net(inner, nn.BatchNorm1d(8)), "running statistics"),
        (
            lambda: Net(inner, nn.BatchNorm1d(8, track_running_stats=False)),
            "on batches of 1 to 3 examples fails: .*Expected more than 1",
        ),
    ],
)
def test_what_cannot_be_trained_is_one_line(model, message):
    refused(message, trained, model)


def test_a_frozen_model_is_refused_also_by_evaluate():
    def model():
        return nn.Linear(6, 2).requires_grad_(False)

    for use in (trained, lambda make: fedlib.evaluate(task(make), dict(make().named_parameters()))):
        refused("model Linear has no parameters to train", use, model)
