"""What users of other libraries find: data sets a client, predictions, callbacks."""

import copy
import dataclasses
import io
import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, Subset
from torch.utils.data import TensorDataset as Tensors
from tqdm import tqdm

import fedlib
from fedlib.results import Store
from tests.refusals import refused

X = torch.randn(90, 5, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] + 0.3 * X[:, 1] > 0).long()
WHOLE = Tensors(X, Y)
PARTS = [range(0, 50), range(50, 80), range(80, 90)]
TEST = fedlib.ClientData(X, Y, [range(40), range(40, 90)])


class Stream(IterableDataset):
    def __init__(self, part):
        self.part = part

    def __iter__(self):
        return ((X[place], Y[place]) for place in self.part)


def rows(inputs, targets):
    """As Hugging Face's data sets give them."""
    return [
        {inputs: X[i].tolist(), targets: int(Y[i]), "writer": f"w{owner}"}
        for owner, part in enumerate(PARTS)
        for i in part
    ]


DATASETS = {
    "subsets": ([Subset(WHOLE, part) for part in PARTS], {}),
    "by name": ({f"w{i}": Subset(WHOLE, part) for i, part in enumerate(PARTS)}, {}),
    "streams": ([Stream(part) for part in PARTS], {}),
    "lists": (tuple([(X[i].numpy(), int(Y[i])) for i in part] for part in PARTS), {}),
    "rows": (rows("image", "label"), {"client": "writer"}),
    "tensors' owners": (
        [row | {"u": torch.tensor(int(row["writer"][1]))} for row in rows("x", "y")],
        {"client": "u"},
    ),
    "named rows": (rows("a", "b"), {"client": "writer", "inputs": "a", "targets": "b"}),
}


@pytest.mark.parametrize("name", DATASETS)
def test_data_sets_are_clients(name):
    given, fields = DATASETS[name]
    data = fedlib.ClientData.from_datasets(given, **fields)
    usual = fedlib.ClientData(X, Y, PARTS)
    assert data.sizes.tolist() == [50, 30, 10]
    named = fields.get("client") == "writer" or name == "by name"
    assert data.ids == (["w0", "w1", "w2"] if named else ["0", "1", "2"])
    assert torch.equal(data.x, X) and torch.equal(data.y, Y)
    assert torch.equal(data.index, usual.index)


@pytest.mark.parametrize("given", [[WHOLE, []], {"w0": WHOLE, "w1": []}], ids=["list", "by name"])
def test_a_client_without_items_stays(given):
    data = fedlib.ClientData.from_datasets(given)
    assert data.sizes.tolist() == [len(WHOLE), 0] and len(data.ids) == 2


def test_pictures_of_pillow_come_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = fedlib.ClientData.from_datasets([[(Image.new("L", (2, 1), 7), 3)]])
    assert data.x.tolist() == [[[7, 7]]] and data.y.tolist() == [3]


@pytest.mark.parametrize(
    ("given", "fields", "message"),
    [
        ([Tensors(X)], {}, "must be a pair"),
        ([[("text", 1)]], {}, "is no pair of numbers"),
        ([[(Image.new("P", (2, 1)), 1)]], {}, "an image with a palette: make it colours"),
        ([rows("words", "label")], {}, "unknown field 'x'"),
        ([[]], {}, "have no items"),
        (None, {}, "datasets is None. Give a list"),
        ([WHOLE, None], {}, "data set 1 is None: give a torch.utils.data.Dataset"),
        (pd.DataFrame({"u": [1]}), {"client": "u"}, r"item 0 of data set 0 \(DataFrame\) fails"),
        ([DataLoader(WHOLE)], {}, "data set 0 is a DataLoader, which gives batches: give its data"),
        ([row | {"u": float("nan")} for row in rows("x", "y")], {"client": "u"}, "0 is missing"),
    ],
)
def test_other_items_are_one_line(given, fields, message):
    refused(message, fedlib.ClientData.from_datasets, given, **fields)


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 8), nn.Dropout(0.2), nn.ReLU(), nn.Linear(8, 2))


def task(**more):
    data = fedlib.ClientData.from_datasets(DATASETS["subsets"][0])
    return fedlib.Task("mine", Net, data, TEST, **more)


@pytest.mark.parametrize(
    ("algorithm", "dtype"), [("fedavg", "float32"), ("mime", "float64"), ("centralized", "float32")]
)
def test_what_was_trained_is_at_hand(algorithm, dtype):
    history = fedlib.run(task(), algorithm, rounds=3, dtype=dtype)
    model = history.model()
    assert not model.training
    kind = next(model.parameters()).dtype
    assert str(kind) == f"torch.{dtype}"
    with torch.no_grad():
        outputs = model(X.to(kind))
    predicted = fedlib.predict(task(), history.params)
    torch.testing.assert_close(predicted, outputs)
    torch.testing.assert_close(fedlib.predict(task(), history.params, X[:7]), outputs[:7])
    found = fedlib.evaluate(task(), history.params)
    assert found == {name: history.series(name).iloc[-1] for name in ("loss", "accuracy")}
    sure = {"sure": lambda o, y: o.softmax(-1).amax(-1)}
    found = fedlib.evaluate(task(), history.params, sure, fedlib.ClientData(X, Y, [[3]]))
    assert found["sure"] == pytest.approx(float(outputs[3].softmax(-1).max()))
    assert 0.5 < roc_auc_score(Y, predicted[:, 1]) <= 1
    again = pickle.loads(pickle.dumps(history))
    assert torch.equal(again.model(task())[0].weight, model[0].weight)
    refused(r"give it, as in history.model\(task\)", again.model)


def test_predictions_are_of_the_test_examples_with_targets_and_clients():
    # One array for both, as most people have it: train 0..29, test 30.., one example of it twice.
    test = fedlib.ClientData(X, Y, [[41, 33], [], [36, 33, 30]], ["bob", "nobody", "ann"])
    one = dataclasses.replace(task(), train=fedlib.ClientData(X, Y, [range(30)]), test=test)
    history = fedlib.run(one, "fedavg", rounds=2)
    outputs, places = fedlib.predict(one, history.params), [41, 33, 36, 33, 30]
    with torch.no_grad():
        torch.testing.assert_close(outputs, history.model()(X[places]))
    assert torch.equal(outputs.targets, Y[places])
    assert outputs.clients.tolist() == ["bob", "bob", "ann", "ann", "ann"]
    right = (outputs.argmax(1) == outputs.targets).double().mean()
    assert float(right) == pytest.approx(history.series("accuracy").iloc[-1])
    assert type(outputs.softmax(1)) is type(outputs[:, 1]) is torch.Tensor  # whose rows may differ
    copied = copy.deepcopy(outputs)
    assert torch.equal(copied, outputs) and copied.clients.tolist() == outputs.clients.tolist()
    for x in (X.numpy(), X.tolist(), pd.DataFrame(X.numpy())):  # inputs of one's own
        given = fedlib.predict(one, history.params, x)
        torch.testing.assert_close(given[places], outputs)
        assert given.targets is None
    for x in (X[0], X[None]):
        message = rf"x has {x.ndim} axes .* 2: give \[N, ...\]"
        refused(message, fedlib.predict, one, history.params, x)


def test_a_model_made_with_less_precision_keeps_what_it_learned():
    narrow = dataclasses.replace(task(), model=lambda: Net().bfloat16())
    history = fedlib.run(narrow, "fedavg", rounds=3)
    assert fedlib.evaluate(narrow, history.params)["loss"] == history.series("loss").iloc[-1]


def test_parameters_of_another_model_are_refused():
    history = fedlib.run(fedlib.load_task("synthetic"), "fedavg", rounds=1)
    refused("x has no examples", fedlib.predict, task(), history.params, X[:0])
    for wrong in (lambda: history.model(task()), lambda: fedlib.predict(task(), history.params)):
        refused("these are not its parameters", wrong)
    params = Net().state_dict()
    waves = {name: parameter.to(torch.complex64) for name, parameter in params.items()}
    refused("not its parameters: .* is complex", fedlib.evaluate, task(), waves)
    refused("have no examples", fedlib.evaluate, task(), params, data=fedlib.ClientData(X, Y, [[]]))
    nans = fedlib.ClientData(X * np.nan, Y, [[0]])
    refused("the input nan", fedlib.evaluate, task(), params, data=nans)


def test_a_callback_sees_every_round_and_may_end_the_run(tmp_path):
    seen = []

    def look(history):
        loss = history.series("loss")
        bias = history.params["0.bias"]
        assert torch.equal(history.model()[0].bias, bias)
        seen.append((int(history.frame["round"].max()), len(loss), bias))
        return len(seen) == 4

    whole = fedlib.run(task(version="1"), "fedadam", rounds=9, eval_every=3)
    for given in ({}, {"checkpoint": tmp_path / "kept"}):
        seen.clear()
        given |= {"rounds": 9, "eval_every": 3, "callback": look}
        history = fedlib.run(task(version="1"), "fedadam", **given)
        assert [one[:2] for one in seen] == [(1, 1), (2, 1), (3, 2), (4, 2)]
        assert len({one[2].sum().item() for one in seen}) == 4  # no later round changes them
        assert history.series("loss").index.tolist() == [0, 3, 4]  # the last model is evaluated
        assert history.series("loss")[3] == whole.series("loss")[3]
        assert history.meta["stopped"] == 4 and "stopped" not in whole.meta
    assert not (tmp_path / "kept").exists()

    def fail(history):
        raise RuntimeError("own")

    with pytest.raises(RuntimeError):
        fedlib.run(task(version="1"), "fedadam", **{**given, "callback": fail})
    assert len([*(tmp_path / "kept").iterdir()]) == 1  # where it goes on
    seen.clear()
    given = {"rounds": 4, "eval_every": 3, "callback": look}
    ended = fedlib.run(task(), "fedadam", **given)  # in the last round, which ends anyway
    assert ended.series("loss").index.tolist() == [0, 3, 4] and "stopped" not in ended.meta


def test_a_grid_calls_back_for_each_configuration_and_a_store_for_what_it_trains(tmp_path):
    seen, store = [], Store(tmp_path, published=[])

    def look(history):
        seen.append((history.config.method["client"]["lr"], int(history.frame["round"].max())))
        return len(seen) > 3

    given = {"rounds": 9, "client_lr": [0.1, 0.2], "callback": look}
    frame = fedlib.grid(task(), "fedavg", **given)
    rounds = [(lr, done) for done in (1, 2, 3) for lr in (0.1, 0.2)]
    assert seen == rounds and frame["round"].max() == 3  # it said True of one only before
    run = partial(store.run, task(version="1"), "fedavg", rounds=2)
    assert run(callback=lambda _: True).meta["stopped"] == 1 and not store.stored()
    seen.clear()
    assert run(callback=look).frame.equals(run(callback=look).frame) and len(seen) == 2
    assert len(store.stored()) == 1


def test_a_callback_that_only_looks_changes_nothing():
    answers = iter([None, False, 0, np.False_, ""])

    def look(history):
        torch.rand(3), np.random.rand(), history.model().train()
        fedlib.run(task(), "fedavg", rounds=1)  # another run
        return next(answers)

    alone, watched = (fedlib.run(task(), "fedavg", rounds=5, callback=how) for how in (None, look))
    assert watched.frame.equals(alone.frame)


def test_what_happens_to_be_true_does_not_end_a_run(caplog):
    bar, file = tqdm(total=9, file=io.StringIO(), mininterval=0), io.StringIO()
    how = {"rounds": 3}
    assert (
        "stopped" not in fedlib.run(task(), "fedavg", callback=lambda _: bar.update(), **how).meta
    )
    assert bar.n == 3 and len(caplog.messages) == 1 and "tqdm" in caplog.messages[0]
    for answer in (file.write("x"), "yes", torch.tensor(True), np.ones(2)):
        with pytest.raises(fedlib.Error, match=r"callback gives .* after round 1: return True to"):
            fedlib.run(task(), "fedavg", callback=lambda _, answer=answer: answer, **how)
    for answer in (True, np.True_):
        history = fedlib.run(task(), "fedavg", callback=lambda _, answer=answer: answer, **how)
        assert history.meta["stopped"] == 1
    diverged = []  # which it is told
    given = {"rounds": 5, "overrides": {"client_lr": 1e30}}
    fedlib.run(task(), "fedavg", callback=lambda run: diverged.append(run.diverged), **given)
    assert diverged == [1]
