"""Data as people have them: taken right, or refused in one line that says what and where."""

import copy
import dataclasses
import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.transforms import v2

import fedlib
from fedlib import datasets, losses, partition
from tests import copies
from tests.refusals import refused

X = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3
PARTS = [[0, 1, 2, 3], [11, 10, 9], [4, 5]]
NAN, INF = float("nan"), float("inf")
DATA = fedlib.ClientData(X, Y, PARTS)
OWNERS = pd.Series([*"zzzzaaabbbbb"]).map({"z": "zoe", "a": "ann", "b": "bob"})
# As rows that were left of more.
ROWS = pd.DataFrame(X.numpy(), index=np.arange(11, -1, -1))
OWNERS.index = ROWS.index


def run(**changed):
    """A round on these data, of clients and tested."""
    given = {"x": X, "y": Y, "parts": PARTS, "model": lambda: nn.Linear(4, 3), **changed}
    own = {key: given.pop(key) for key in ("x", "y", "parts", "ids", "weights") if key in given}
    tested = given.pop("test", DATA)
    task = fedlib.Task("mine", given.pop("model"), fedlib.ClientData(**own), tested, **given)
    return fedlib.run(task, "fedavg", rounds=1)


def with_(value, example):
    x = X.clone()
    x[example, 2] = value
    return x


TWO, PLACES = {"clients_per_round": 2}, itertools.count()
NANS, NOTHING = fedlib.ClientData(X * NAN, Y, [[3, 4]]), fedlib.ClientData(X, Y, [[]])
REFUSED = {
    "masked": ({"x": np.ma.masked_greater(X.numpy(), 1)}, "x has masked values"),
    "infinite": ({"x": with_(-INF, 10)}, "train client 1's example 10 has the input -inf"),
    "beyond float32": ({"x": with_(0, 0).double() * 1e200}, "0's example 0 .*no finite fl"),
    "a test set of NaN": ({"test": NANS}, "test client 0's example 3 has the input nan"),
    "a scale of 0": ({"transform": lambda x, keys: (x - x) / (x - x)}, "the transform gives NaN"),
    "chance without keys": (
        {"transform": v2.RandomHorizontalFlip()},
        "the transform draws from torch's random numbers.* a function of x and keys",
    ),
    "sparse": ({"x": X.to_sparse()}, "x is sparse"),
    "meta": ({"y": Y.to("meta")}, "y is without values"),
    "ids of no letter": ({"ids": ["", "ann", ""]}, "two clients have the id ''"),
    "ids alike": ({"ids": [1, "1", 2]}, "1 and '1' would have one name"),
    "nobody has anything": ({"parts": [[], []]}, "none of the 2 training clients has examples"),
    "a mask": ({"parts": [[0, 1], np.arange(12) > 3]}, "client 1 is a mask"),
    "two dimensions": ({"parts": [[0], [[1, 2]]]}, "client 1 is int64 of shape"),
    "an index too large": ({"parts": [[0, 12], [1]]}, "client 0 has example 12, outside 0..11"),
    "few targets": ({"y": Y[:3]}, "12 inputs but 3 targets"),
    "a list": ({"x": X.tolist()}, "x is .* .allowed: Tensor"),
    "a table of words": ({"x": pd.DataFrame({"a": ["b"] * 12})}, "x is a DataFrame of .*get_dum"),
    "labels of rows": (
        {"x": ROWS, "parts": ROWS.groupby(OWNERS).groups},
        "parts are labels of rows, which here are not their positions. Give .*indices",
    ),
    "ids in the order of appearance": (
        {"parts": partition.by_user(OWNERS), "ids": OWNERS.unique()},
        "ids calls client 0 'zoe', who is 'ann'",
    ),
    "ids of a dict, turned": (
        {"parts": dict(zip("abc", PARTS, strict=True)), "ids": ["a", "c", "b"]},
        "ids calls client 1 'c', who is 'b'",
    ),
    "a dict of one name": ({"parts": {1: [0], "1": [1]}}, "1 and '1' would have one name"),
    "a dict that names nobody": ({"parts": {"a": [0], None: [1]}}, "parts: number 1 is missing"),
    "few ids": ({"ids": ["ann"]}, r"ids of shape \(1,\) for 3 clients"),
    "a ragged part": ({"parts": [[[1], [2, 3]]]}, "client 0 is no list of indices"),
    "an id that is missing": ({"ids": [1.0, NAN, 2.0]}, "ids: number 1 is missing"),
    "nothing to evaluate": ({"evaluated": {"own": NOTHING}}, "evaluated 'own' has no examples"),
    "a class of losses": ({"loss": nn.CrossEntropyLoss}, "loss is the class CrossEntropyLoss: giv"),
    "an infinite l2": ({"l2": INF}, "l2 is inf .allowed: 0 to 1e"),
    "an algorithm of no name": ({"hyperparameters": {"FedAvg": {}}}, "did you mean 'fedavg'"),
    "an optimizer of no name": ({"client_hyperparameters": {"SGD": {}}}, "parameters 'SGD'"),
    "cohorts of one argument": ({**TWO, "cohorts": lambda r: [0, 1]}, r"cohorts\(0, 2\) fails"),
    "cohorts of fractions": ({**TWO, "cohorts": lambda r, n: [0.0, 1.0]}, "must give diff"),
    "cohorts with a negative client": ({**TWO, "cohorts": lambda r, n: [-1, 0]}, "of 0..2"),
    "cohorts with one too many": ({**TWO, "cohorts": lambda r, n: [0, 3]}, "of 0..2"),
    "cohorts with one twice": ({**TWO, "cohorts": lambda r, n: [0, 0]}, "must give different"),
    "cohorts in a set": ({**TWO, "cohorts": lambda r, n: {0, 1}}, "must give different"),
    "cohorts that go on": (
        {**TWO, "cohorts": lambda r, n: [next(PLACES) % 3]},
        r"cohorts\(0, 2\) gives others when it is called again",
    ),
    "few weights": ({"weights": np.ones(1)}, r"weights of shape \(1,\) for 3 clients"),
    "a negative weight": ({"weights": np.array([1.0, -1.0, 1])}, "client 1 has weight -1.0"),
    "a weight that is no number": ({"weights": [NAN, 1, 1]}, "client 0 has weight nan"),
    "no weight": ({"weights": np.zeros(3)}, "all weights are 0"),
    "large weights": ({"weights": [1, 1e200, 1]}, "client 1 has weight 1e\\+200 .allowed: 0, or"),
    "small weights": ({"weights": [1, 1, 1e-300]}, "client 2 has weight 1e-300"),
    "steps as many as classes": (
        {
            "model": lambda: nn.Sequential(nn.Linear(4, 4), nn.Unflatten(1, (2, 2))),
            "y": torch.stack([Y, Y], 1).clamp(max=1),
            "loss": nn.CrossEntropyLoss(),
        },
        "classes may be the second or the last: give your own loss",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_is_one_line(name):
    changed, message = REFUSED[name]
    refused(message, run, **changed)


IMAGES = torch.randn(12, 2, 4, 4, generator=torch.Generator().manual_seed(0))
MASKS, BOTH = (IMAGES[:, 0] > 0).long(), (X[:, 0] > 0).long()
SOME = torch.where(torch.arange(12) % 4 == 2, -100, Y)
CE, BCE = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
# A loss, targets, how many outputs, and what is said: of images where targets are.
WRONG = [
    (BCE, MASKS[:, None] * 255, 1, "example 0 has .*, in it 255, .*between 0 and 1 .*give y / 255"),
    (BCE, MASKS.float(), 1, r"outputs \[2, 1, 4, 4\] and targets \[2, 4, 4\] .*give y\[:, None\]"),
    (BCE, Y, 3, r"outputs \[2, 3\] and targets \[2\] a batch: the two must have the same shape"),
    (CE, MASKS * 255, 2, "whole numbers in 0..1 .*give y // 255"),
    (CE, MASKS, 1, "an output for each class, and the model gives one: .*BCEWithLogits"),
    (losses.cross_entropy, BOTH, 1, "in 0..0, .*BCEWithLogits"),
    (CE, 5 * X[:, :3], 3, "needs numbers between 0 and 1"),
    (CE, Y.float(), 3, r"give y\.long\(\) if these are classes"),
    (nn.KLDivLoss(), F.one_hot(Y).float(), 3, "the logarithms of probabilities, which the model"),
    (losses.cross_entropy, torch.where(Y == 2, -1, Y), 3, "has the label -1 .*in 0..2"),
    (CE, torch.where(Y == 2, 156, Y).to(torch.uint8), 3, r"label 156 \(uint8\)"),  # -100 of 8 bits
    (CE, torch.where(torch.arange(12) == 9, 3, SOME), 3, "client 1's example 9 has the label 3"),
    (losses.cross_entropy, Y.float(), 3, r"the label 0\.0 \(float32\)"),
    (losses.cross_entropy, torch.stack([Y, Y], 1), 3, r"label \[0, 0\].*one for each example"),
    (CE, Y[:, None], 3, r"targets \[2, 1\] .*give y\.squeeze\(-1\)"),
    (nn.NLLLoss(), Y, 3, "the logarithms of probabilities, which the model does not give: end"),
    (losses.squared_error, X[:, 0], 1, r"of shape \(1,\): give y\[:, None\]"),
    (nn.SoftMarginLoss(), BOTH, 1, "needs -1 and 1, .*give 2 \\* y - 1"),
]


@pytest.mark.parametrize(("loss", "y", "outputs", "message"), WRONG)
def test_targets_of_another_loss_are_refused_with_what_to_give(loss, y, outputs, message):
    layer = nn.Linear(4, outputs) if y.dim() < 3 else nn.Conv2d(2, outputs, 3, padding=1)
    refused(message, run, x=X if y.dim() < 3 else IMAGES, y=y, loss=loss, model=layer)


USERS = pd.Series(["ann", "bob", "cy"])
TAKEN = {
    **{str(kind): {"y": Y.to(kind)} for kind in (torch.int8, torch.uint8, torch.int16)},
    **{str(kind): {"y": Y.to(kind)} for kind in (torch.uint16, torch.uint32, torch.uint64)},
    "inference": {"x": torch.inference_mode()(X.clone)()},
    "a graph": {"x": X.clone().requires_grad_() * 1},
    "a parameter": {"x": nn.Parameter(X.clone())},
    "NaN of nobody": {"x": with_(NAN, 8)},
    "names": {"ids": USERS},
    "categories": {"ids": USERS.astype("category").unique()},
    "numbers": {"ids": [17, 42, 3]},
    "text of pandas": {"ids": USERS.astype("string").to_numpy()},
    "an index": {"ids": pd.Index(["a", "b", "c"])},
    "arrays": {"x": X.numpy(), "y": Y.numpy()},
    "arrays that cannot be written": {"x": np.broadcast_to(X.numpy(), X.shape)},
    "arrays of another machine": {"x": X.numpy().astype(">f4"), "y": Y.numpy().astype(">i8")},
    "a table": {"x": pd.DataFrame(X.numpy()), "y": pd.Series(Y.numpy())},
    "a transform of inputs alone": {"transform": lambda x: x * 1.0},
    "one of torchvision's": {"transform": v2.Compose([v2.ToDtype(torch.float32)])},
    "parts by name": {"parts": dict(zip("abc", PARTS, strict=True))},
    "parts of a dict": {"parts": dict(zip("cab", PARTS, strict=True)).values()},
    "parts that come one by one": {"parts": iter(PARTS)},
    "labels of rows that are their places": {
        "x": pd.DataFrame(X.numpy()),
        "parts": [pd.Index(part) for part in PARTS],
    },
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_right_trains_as_ever(name):
    history, usual = run(**TAKEN[name]), run()
    assert history.frame.equals(usual.frame)
    assert history.params["weight"].grad_fn is None


def test_weights_of_classes_below_0_are_refused():
    for weight in (-2.0, NAN):
        loss = nn.CrossEntropyLoss(weight=torch.tensor([1.0, weight, 1.0]))
        refused("CrossEntropyLoss: a weight of a class is (-2|nan) .allowed", run, loss=loss)


def test_unknown_weights_in_a_mean_are_refused():
    refused("weighing of two examples is .* so it weighs examples in its mean", run, loss=weighing)
    tags = F.one_hot(Y, 3) | F.one_hot(Y.flip(0), 3)
    refused("give y.float", run, y=tags, loss=nn.CrossEntropyLoss(weight=T))


def test_many_classes_in_eight_bits():
    """127 is the largest int8, but not the largest class that a network may have."""
    history = run(y=Y.to(torch.int8), model=lambda: nn.Linear(4, 300))
    assert history.diverged is None


def test_a_client_may_have_nothing_and_an_example_two_clients():
    data = fedlib.ClientData(X, Y, [[], [0, 3], np.array([3], dtype=np.uint8)])
    assert data.sizes.tolist() == [0, 2, 1] and data.ids == ["0", "1", "2"]
    assert data.index.tolist() == [0, 3, 3]


def test_a_copy_with_other_inputs_has_the_same_clients():
    data = dataclasses.replace(DATA, x=2 * X)
    assert data.sizes.tolist() == DATA.sizes.tolist() and torch.equal(data.index, DATA.index)


def test_no_client_has_anothers_name():
    for parts in (partition.by_user(OWNERS), ROWS.groupby(OWNERS).indices):
        names = {"ids": parts.names} if isinstance(parts, list) else {}
        data = fedlib.ClientData(ROWS, Y, parts, **names)
        whose = OWNERS.to_numpy()
        assert [set(whose[part]) for part in data.parts] == [{name} for name in data.ids]
    other = fedlib.ClientData(X, Y, partition.by_user(OWNERS), ids=["A", "B", "Z"])  # of ours
    assert other.ids == ["A", "B", "Z"]


def test_small_floats_and_options_of_numpys_are_taken():
    few = run(x=X.to(torch.float8_e4m3fn))
    assert few.frame.equals(run(x=X.to(torch.float8_e4m3fn).float()).frame)
    ours, plain = (run(options={"a": a, "b": [a]}).config for a in (np.int64(1), 1))
    assert ours.as_dict()["task"]["options"] == plain.as_dict()["task"]["options"]
    with pytest.raises(
        fedlib.Error, match="1} cannot name a run: options and fields must be words"
    ):
        print(run(options={"a": {1}}).config.digest)


def test_weights_are_copied():
    weights = np.array([1.0, 2.0, 3.0])
    data = fedlib.ClientData(X, Y, PARTS, weights=weights)
    weights[:] = 0
    assert data.client_weights().tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["bob", "ann", "bob"]).astype("category"),
        pd.Series(["bob", "ann", "bob"], dtype="string"),
        pd.Series([7, 3, 7]),
        pd.Index(["bob", "ann", "bob"]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_a_column_of_users_is_a_partition(column):
    assert [part.tolist() for part in partition.by_user(column)] == [[1], [0, 2]]


def test_users_of_one_name_or_none_are_refused():
    refused("user_codes: 5 and '5' would have one name", partition.by_user, [5, 6, "5"])
    for column in (np.array([1, NAN]), pd.Series([1, None], dtype="Int64"), ["ann", NAN]):
        refused("user_codes: number 1 is missing", partition.by_user, column)


def pictures(**changed):
    draw = np.random.default_rng(0)
    labels = {"train_y": np.arange(60) % 3, "test_y": np.arange(30) % 3}
    sizes = {"train_x": 60, "test_x": 30}
    images = {key: draw.integers(0, 256, (n, 8, 8), dtype=np.uint8) for key, n in sizes.items()}
    return {**images, **labels, **changed}


def image_task(folder, arrays, **given):
    np.savez(folder / "i.npz", **arrays)
    datasets.import_file("few", folder / "i.npz", folder, overwrite=True)
    return fedlib.image_task("few", data_root=folder, **given)


class Weighing(nn.CrossEntropyLoss):
    """Torch's loss under another name."""


def weighing(outputs, targets, reduction="mean"):
    """A loss whose mean divides by weights that nobody else knows."""
    return F.cross_entropy(outputs, targets, weight=T, reduction=reduction)


T = torch.tensor([1.0, 2.0, 3.0])
ONE, MANY_TAGS = (Y > 0).float()[:, None], F.one_hot(Y, 3).float()
# A loss, targets, and how many outputs.
LOSSES = {
    "of a derived class": (Weighing(weight=T), Y, 3),
    "smoothed": (nn.CrossEntropyLoss(label_smoothing=0.1), Y, 3),
    "of shares": (nn.CrossEntropyLoss(), MANY_TAGS, 3),
    "of eight bits": (nn.CrossEntropyLoss(), Y.to(torch.uint8), 3),
    "MSELoss": (nn.MSELoss(), X[:, :2], 2),
    "MSELoss, flat": (nn.MSELoss(), X[:, 0], 1),
    "Huber": (nn.HuberLoss(delta=0.5), X[:, :1], 1),
    "summed": (nn.MSELoss(reduction="sum"), X[:, :2], 2),
    "one logit": (nn.BCEWithLogitsLoss(), ONE, 1),
    "one logit of whole numbers": (nn.BCEWithLogitsLoss(pos_weight=T[1:2]), Y.clamp(max=1), 1),
    "tags": (nn.MultiLabelSoftMarginLoss(), MANY_TAGS, 3),
}


@pytest.mark.parametrize(
    ("name", "dtype"), [*zip(LOSSES, itertools.cycle(["float32", "float64"]), strict=False)]
)
def test_losses_of_torchs_are_each_examples_own(name, dtype):
    """The reported loss is torch's of all test examples; accuracy is there where it fits."""
    loss, y, outputs = LOSSES[name]
    data, kind = fedlib.ClientData(X, y, PARTS), getattr(torch, dtype)
    task = partial(fedlib.Task, "mine", lambda: nn.Linear(4, outputs), data, data, loss=loss)
    if name == "summed":
        refused("sums over a batch, but the task's reduction is 'mean'", task)
        task = partial(task, reduction="sum")
    history = fedlib.run(task(), "fedavg", rounds=2, dtype=dtype)
    classes, held = outputs == 3 and y.dim() == 1, [*itertools.chain(*PARTS)]
    own = copy.deepcopy(loss).to(kind) if isinstance(loss, nn.Module) else loss
    net = nn.Linear(4, outputs).to(kind)
    net.load_state_dict(history.params)
    o = net(X[held].to(kind))
    o = o if classes or y.dim() > 1 else o[:, 0]
    whole = own(o, y[held].long() if classes else y[held].to(kind)).item()
    whole = whole / len(held) if name == "summed" else whole
    assert history.series("loss").iloc[-1] == pytest.approx(whole, rel=1e-5)
    assert ("accuracy" in set(history.frame["metric"])) == classes


def tokens():
    """A label of each example's two tokens."""
    return nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (2, 3)))


# A loss, targets, some of which are ignored, and a model.
IGNORED = {
    "labels": (nn.CrossEntropyLoss(), SOME, lambda: nn.Linear(4, 3)),
    "of a function": (F.cross_entropy, SOME, lambda: nn.Linear(4, 3)),
    "another number": (nn.CrossEntropyLoss(ignore_index=2), Y, lambda: nn.Linear(4, 3)),
    "tokens": (nn.CrossEntropyLoss(), torch.stack([SOME, SOME.flip(0)], 1), tokens),
    "weights": (nn.CrossEntropyLoss(weight=T), Y, lambda: nn.Linear(4, 3)),
    "equal weights": (nn.CrossEntropyLoss(weight=T / T * 2), Y, lambda: nn.Linear(4, 3)),
    "weights of tokens": (
        nn.CrossEntropyLoss(weight=T / 9, label_smoothing=0.2),
        torch.stack([SOME, SOME.flip(0)], 1),
        tokens,
    ),
    "weights for a function": (
        partial(F.cross_entropy, weight=torch.tensor([0.0, 2, 2]).double()),
        SOME,
        lambda: nn.Linear(4, 3),
    ),
    # -100 in eight bits, without a sign.
    "156": (nn.CrossEntropyLoss(), (Y + 155).to(torch.uint8), lambda: nn.Linear(4, 200)),
}


# A sum of labels without weights is over examples, of means over tokens.
SUMMED = [(name, "sum") for name in IGNORED if "weights" in name]


@pytest.mark.parametrize(("name", "reduction"), [(name, "mean") for name in IGNORED] + SUMMED)
def test_labels_count_as_torch_has_it(name, reduction):
    """A step over all data is torch's, and so are the loss and the accuracy after it."""
    loss, y, model = IGNORED[name]
    data = fedlib.ClientData(X, y, PARTS)
    task = fedlib.Task("mine", model, data, data, loss=loss, batch_size=None, reduction=reduction)
    settings = {"dtype": "float64", "overrides": {"client_lr": 0.05, "local_steps": 1}}
    history = fedlib.run(task, "centralized", rounds=1, **settings)
    begun = fedlib.run(task, "centralized", rounds=0, **settings)
    held = sorted(example for part in PARTS for example in part)
    net, labels = model().double(), y[held].long()
    given = dict(getattr(loss, "keywords", {})) or {
        "weight": None if getattr(loss, "weight", None) is None else loss.weight.double(),
        "ignore_index": getattr(loss, "ignore_index", -100),
        "label_smoothing": getattr(loss, "label_smoothing", 0.0),
    }

    def torchs(reduction="mean"):
        outputs = net(X[held].double())
        whole = F.cross_entropy(outputs.movedim(-1, 1), labels, reduction=reduction, **given)
        right = (outputs.argmax(-1) == labels)[labels != given.get("ignore_index", -100)]
        return whole, right.double().mean().item()

    net.load_state_dict(begun.params)
    before, _ = torchs(reduction)
    before.backward()
    for key, parameter in net.named_parameters():
        torch.testing.assert_close(history.params[key], parameter.detach() - parameter.grad / 20)
    if reduction == "mean":
        assert history.final("loss", "train") == pytest.approx(before.item())
    net.load_state_dict(history.params)
    after, accuracy = torchs()
    assert history.final("loss") == pytest.approx(after.item())
    assert history.final() == pytest.approx(accuracy)


@pytest.mark.parametrize("algorithm", ["qfedavg", "adafedadam", "mime"])
def test_examples_without_a_label_that_counts_might_be_left_out(algorithm):
    """Where methods look at a client's whole data."""
    kept = [[example for example in part if SOME[example] >= 0] for part in PARTS]
    histories, model = [], nn.Linear(4, 3)
    # Nor does a client without examples count, whatever its weight.
    for parts, weights in (([*PARTS, []], [1, 1, 1, 9]), (kept, [1, 1, 1])):
        train = fedlib.ClientData(X, SOME, parts, weights=weights)
        task = fedlib.Task("m", model, train, DATA, loss=nn.CrossEntropyLoss())
        histories.append(fedlib.run(task, algorithm, rounds=1, dtype="float64"))
    first, second = histories
    torch.testing.assert_close(first.params, second.params)


def test_weights_do_not_weigh_what_is_reported():
    data = fedlib.ClientData(X, Y, PARTS, weights=[100, 1, 1])
    task = fedlib.Task("m", lambda: nn.Linear(4, 3), data, data, evaluated={"local": data})
    history = fedlib.run(task, "fedavg", rounds=1)
    plain = fedlib.evaluate(task, history.params, data=DATA)
    assert fedlib.evaluate(task, history.params) == plain
    for split in ("test", "local"):
        assert history.final("loss", split) == pytest.approx(plain["loss"])
        assert history.final("accuracy", split) == pytest.approx(plain["accuracy"])


WORDS = np.array(["dog", "ant", "cat"])
ARRAYS = {
    "skewed": ({}, {"clients": 61, "alpha": 0.1}, "61 clients ask for 61 examples in all"),
    "at random": ({}, {"clients": 100}, "100 clients ask for 100 examples in all, .* only 60"),
    "ids": ({"train_y": np.arange(60) * 10**6}, {"clients": 2}, "look like ids"),
    "tested by ids": ({"test_y": np.arange(30) * 10**7}, {"clients": 2}, "test labels look like"),
    "words in one split": ({"train_y": WORDS[np.arange(60) % 3]}, {"clients": 2}, "words in both"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_cannot_be_right_are_one_line(name, tmp_path):
    changed, given, message = ARRAYS[name]
    refused(message, image_task, tmp_path, pictures(**changed), **given)


def test_labels_and_clients_may_be_words(tmp_path):
    users = np.array(["ömer", "ann"])
    arrays = pictures(train_y=WORDS[np.arange(60) % 3], test_y=WORDS[np.arange(30) % 2])
    arrays |= {"train_client": users[np.arange(60) % 2], "test_client": users[[0] * 30]}
    task = image_task(tmp_path, arrays)
    assert task.classes == ("ant", "cat", "dog") and task.train.ids == ["ann", "ömer"]
    assert task.train.y[:3].tolist() == [2, 0, 1] and task.test.ids == ["ömer"]
    assert task.train.index[0] == 1


TEXTS = {"Chinese": ["很好喜欢", "太差退货"], "accents": ["é", "ü"], "emoji": ["😀", "😡"]}


@pytest.mark.parametrize("language", TEXTS)
def test_no_letters_of_a_text_are_lost(language, tmp_path):
    lines = [
        {"client": f"u{i % 4}", "split": "test" if i % 4 == 3 else "train", "label": i // 4 % 2}
        | {"text": TEXTS[language][i // 4 % 2]}
        for i in range(16)
    ]
    copies.texts(tmp_path, "texts", lines)
    task = fedlib.text_task("texts", data_root=tmp_path)
    good, poor = (set(map(tuple, task.train.x[task.train.y == c].tolist())) for c in (0, 1))
    assert good != poor and all(1 not in row and row[1] >= 4 for row in good | poor)
    assert task.test.x.max() == task.train.x.max()


def test_texts_in_ascii_have_the_words_they_had():
    for text in ("Don't use os.path; see C++ (or C#)!", 'a_b e-mail ~ 3.14 "x" <y> ‘\'s', "\t\n"):
        assert datasets.text.any_words(text) == datasets.text.post_words(text)
