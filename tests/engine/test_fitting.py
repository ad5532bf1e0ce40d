"""Data, model, loss and metrics that do not fit are refused before the first step."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib import losses
from fedlib.engine import fitting, program
from fedlib.engine.fairness import fairness
from tests.refusals import refused

COUNTER = itertools.count(1)
X = torch.linspace(-1, 1, 18).reshape(6, 3)
Y = torch.tensor([0, 1, 2, 0, 1, 2])
PARTS = [[0, 1], [5, 4, 3]]  # example 2 is nobody's


class Caches(nn.Linear):
    """A module that makes a constant buffer when it is first called."""

    def forward(self, input):
        if "ones" not in self._buffers:
            self.register_buffer("ones", torch.ones(3))
        return super().forward(input) * self.ones


def task(model=lambda: nn.Linear(3, 3), x=X, y=Y, **others):
    data = fedlib.ClientData(x, y, PARTS)
    return fedlib.Task("mine", model, data, data, **others)


def changed(values, example, value):
    values = values.clone()
    values[example] = value
    return values


def absolute(outputs, targets):
    return (outputs - targets).abs().mean(-1)


WRONG = {
    "wide inputs": ({"x": torch.ones(6, 4)}, r"client 0's example 0, float32 of shape \(4,\)"),
    "a word too many": (
        {"model": lambda: nn.Sequential(nn.Embedding(10, 3), nn.Flatten(), nn.Linear(6, 3))}
        | {"x": changed(torch.ones(6, 2, dtype=torch.int64), 3, 12)},
        r"train client 1's example 3, int64 of shape \(2,\) from 12 to 12",
    ),
    "a value that is no number": (
        {"y": changed(X, 4, float("nan")), "loss": losses.squared_error},
        "client 1's example 4 has the label .nan, nan, nan.",
    ),
    "a spectral norm": (
        {"model": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))},
        "changes the buffer 'parametrizations.weight.0._u'",
    ),
    "two outputs": ({"model": lambda: nn.GRU(3, 3)}, "model GRU gives a tuple"),
    "detached outputs": (
        {"loss": lambda o, y: losses.cross_entropy(o.detach(), y)},
        "loss does not depend on the param",
    ),
    "no model": ({"model": lambda: None}, r"model\(\) gives a NoneType"),
    "a model that fails": ({"model": lambda: nn.Linear(-1, 3)}, r"model\(\) fails: "),
    "a complex model": (
        {"model": lambda: nn.Linear(3, 3, dtype=torch.complex64)},
        "the model's weight is complex",
    ),
    "a mean loss": ({"loss": lambda outputs, y: outputs.mean()}, r"of shape \(\) for 1 row of 2"),
    "a metric by class": ({"metrics": {"hits": lambda outputs, y: outputs}}, r"hits \(a metric\)"),
    "a metric that fails": ({"metrics": {"hits": lambda outputs, y: 1 / 0}}, "division by zero"),
    "labels in a column": (
        {"y": X[:, :1], "model": lambda: nn.Sequential(nn.Linear(3, 1), nn.Flatten(0))}
        | {"loss": absolute},
        r"outputs \[B\], labels \[B, 1\], which broadcast to \[B, B\]: squeeze",
    ),
    "a loss of one row": (
        {"loss": lambda o, y: losses.cross_entropy(o[:1], y[:1])},
        r"of shape \(1, 3\) for 2 rows of 3 examples",
    ),
    "a metric that draws": (
        {"metrics": {"hits": lambda o, y: losses.correct(o, y) + next(COUNTER)}},
        r"hits \(a metric\) gives something else when it is called again",
    ),
    "a metric that writes": (
        {"metrics": {"hits": lambda o, y: losses.correct(o.neg_(), y)}},
        r"hits \(a metric\) writes to its arguments",
    ),
    "a transform of one row": (
        {"transform": lambda x, keys: x[:1]},
        r"the transform gives float32 of shape \(1, 5, 3\), but must give \[2, 5, ...\]",
    ),
    "a transform that draws": (
        {"transform": lambda x, keys: x + next(COUNTER)},
        "the transform gives something else when it is called again",
    ),
    "a label that is infinite in float32": (
        {"y": changed(X.double(), 4, 1e300), "loss": nn.L1Loss()},
        "train client 1's example 4 has the label .1e.300, .* so that its loss is inf",
    ),
    "a transform that fails": (
        {"transform": lambda x, keys: x @ x},
        "the transform on train client 0's example 0, .* fails: RuntimeError",
    ),
}


# Each makes of an example what depends on the others.
TRANSFORMS = {
    "largest": fedlib.task.Fixed(lambda x, keys: x / x.amax()),
    "rows": lambda x, keys: x - x.mean(0),
    "another's key": lambda x, keys: x if keys is None else x * keys[:, :1, None].cos(),
}
MEASURES = {
    "contrast": lambda o, y: (o @ o.mT).logsumexp(-1) - o.square().sum(-1),
    "centre": lambda o, y: (o - o.mean(1, keepdim=True)).square().sum(-1),
    "hardest": lambda o, y: losses.cross_entropy(o, y) * (o == o.amax((1, 2), True)).any(-1),
    "others' labels": lambda o, y: losses.cross_entropy(o, y) * (y == y[:, :1]).sum(1, True),
    "how many there are": lambda o, y: losses.cross_entropy(o, y) / y.shape[1],
}
ACROSS = "of an example changes with the others"
BY_ROWS = {"loss": lambda o, y: losses.cross_entropy(o - o.mean(0), y)}
WRONG["a loss by the rows"] = BY_ROWS, ACROSS
WRONG |= {f"a transform by the {by}": ({"transform": f}, ACROSS) for by, f in TRANSFORMS.items()}
for by, f in MEASURES.items():
    WRONG[f"a loss by the {by}"] = ({"loss": f}, f"loss {ACROSS}'")
    WRONG[f"a metric by the {by}"] = ({"metrics": {"mine": f}}, rf"mine \(a metric\) {ACROSS}'")


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused(name, monkeypatch):
    def refuse(*_):
        raise AssertionError("trained")

    monkeypatch.setattr(program.Training, "round", refuse)
    monkeypatch.setattr(fitting, "READ_AGAIN", 0)  # a user's own data are read however many
    wrong, message = WRONG[name]
    refused(message, fedlib.run, task(**wrong), "fedavg", rounds=1)


def test_a_cache_that_the_first_call_makes_is_no_state():
    cached = fedlib.run(task(lambda: Caches(3, 3)), "fedavg", rounds=2)
    plain = fedlib.run(task(), "fedavg", rounds=2)
    np.testing.assert_allclose(cached.frame["value"], plain.frame["value"], rtol=1e-5)


def test_labels_that_nobody_has_are_not_looked_at():
    assert fedlib.run(task(y=changed(Y, 2, -100)), "fedavg", rounds=1).diverged is None


def test_labels_of_a_loss_that_declares_nothing_are_its_own_affair():
    def first(outputs, targets):
        return fedlib.task.cross_entropy(outputs, targets[..., 0].long())

    mine = task(y=torch.stack([Y, -Y], 1).double(), loss=first, metrics={})
    assert fedlib.run(mine, "fedavg", rounds=1).diverged is None


def hit(outputs, targets):
    return outputs.argmax(-1) == targets


HITS = {
    "bool": hit,
    "whole": lambda o, y: hit(o, y).long(),
    "pair": lambda o, y: (hit(o, y), torch.ones_like(y)),
    "NumPy": lambda o, y: torch.from_numpy(o.numpy().argmax(-1) == y.numpy()),
}


@pytest.mark.parametrize("kind", HITS)
def test_metrics_may_be_of_any_type(kind):
    history = fedlib.run(task(metrics={"hit": HITS[kind]}), "fedavg", rounds=2)
    usual = fedlib.run(task(), "fedavg", rounds=2)
    assert history.final("hit") == usual.final("accuracy")
    assert history.final("hit_unweighted") == usual.final("accuracy_unweighted")


@pytest.mark.parametrize("algorithm", ["fedavg", "mime", "qfedavg"])
@pytest.mark.parametrize("kind", [torch.float64, torch.float16])
def test_losses_may_be_of_any_type(algorithm, kind):
    def converted(outputs, targets):
        return losses.cross_entropy(outputs, targets).to(kind)

    history = fedlib.run(task(loss=converted), algorithm, rounds=2)
    usual = fedlib.run(task(), algorithm, rounds=2)
    np.testing.assert_allclose(history.frame["value"], usual.frame["value"], rtol=1e-2)


def test_labels_may_be_numpys_doubles():
    given = {"loss": losses.squared_error, "metrics": {"mae": absolute}}
    double = fedlib.run(task(y=X.double() / 2, **given), "scaffold", rounds=2)
    single = fedlib.run(task(y=X / 2, **given), "scaffold", rounds=2)
    np.testing.assert_allclose(double.frame["value"], single.frame["value"], rtol=1e-5)


def test_a_loss_may_leave_out_labels_that_are_missing():
    def present(outputs, targets):
        return (outputs - targets).nan_to_num().square().mean(-1)

    mine = task(y=changed(X, 4, float("nan")), loss=present)
    assert fedlib.run(mine, "fedavg", rounds=1).diverged is None


@pytest.mark.parametrize("kind", [fedlib.task.Fixed, lambda function: function])
def test_a_transform_may_write_to_what_it_is_given(kind):
    own, array = X.clone(), X.numpy().copy()
    for x in (own, torch.from_numpy(array)):
        writes = task(x=x, transform=kind(lambda x, keys: x.div_(2)))
        history = fedlib.run(writes, "scaffold", rounds=1)
        usual = fedlib.run(task(x=X / 2), "scaffold", rounds=1)
        assert history.frame["value"].tolist() == usual.frame["value"].tolist()
    assert torch.equal(own, X) and np.array_equal(array, X.numpy())


def test_the_default_metric_is_each_tasks_own():
    values = task(y=X, loss=nn.MSELoss())
    values.metrics["bias"] = lambda o, y: (o - y).mean(-1)
    history = fedlib.run(values, "fedavg", rounds=1)
    assert history.metrics() == ["loss", "bias", "bias_unweighted"]
    assert list(fedlib.evaluate(values, history.params)) == ["loss", "bias"]
    assert list(values.metrics) == ["accuracy", "bias"] and list(task().metrics) == ["accuracy"]


@pytest.mark.parametrize("split", ["train", "test", "communication"])
def test_evaluated_data_may_not_be_named_as_another_split(split):
    data = fedlib.ClientData(X, Y, PARTS)
    refused(f"evaluated '{split}'", task, evaluated={split: data})
    mine = task()
    mine.evaluated[split] = data
    refused(f"evaluated '{split}'", fedlib.run, mine, "fedavg", rounds=1)


def test_metrics_that_are_asked_for_later_must_fit():
    history = fedlib.run(task(), "fedavg", rounds=1)
    for metric in (lambda o, y: o.mean(), MEASURES["centre"], lambda o, y: o.zero_().sum(-1)):
        message = r"mine .a metric. (gives|of an example|writes)"
        refused(message, fedlib.evaluate, history.task, history.params, {"mine": metric})


def test_a_metric_of_one_row_is_one_line_where_there_are_several():
    one = task(metrics={"mine": lambda o, y: losses.correct(o[:1], y[:1])})
    assert fedlib.run(one, "fedavg", rounds=1).final("mine") >= 0
    message = r"mine gives .* of shape \(1, 5\) for 2 rows of 5"
    refused(message, fedlib.grid, one, "fedavg", rounds=1, client_lr=[0.1, 0.2])


def test_missing_labels_of_other_data_are_told():
    history = fedlib.run(task(y=X, loss=nn.MSELoss()), "fedavg", rounds=1)
    data = fedlib.ClientData(X, changed(X, 3, float("nan")), PARTS)
    message = "evaluated client 1's example 3 has the label"
    refused(message, fedlib.evaluate, history.task, history.params, data=data)


RESERVED = ["loss", "mine_unweighted", *fairness(torch.ones(1, 2), torch.ones(2))]


@pytest.mark.parametrize("name", RESERVED)
def test_a_metric_may_not_take_the_name_of_another_number(name):
    refused(f"metric '{name}'", task, metrics={name: losses.correct})
