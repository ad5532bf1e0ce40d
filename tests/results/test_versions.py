"""A stored run never answers for a task or an algorithm of the user's whose code may be another."""

import copy
import logging
from dataclasses import FrozenInstanceError, dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

import fedlib
from fedlib.engine import configure, execute
from fedlib.results import Store
from fedlib.task import cross_entropy


def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 3))


def bent():
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 3), nn.Tanh())


def doubled(outputs, targets):
    return 2 * cross_entropy(outputs, targets)


def task(model=net, version="", **parts):
    """A task that is made by hand, of arrays of its own."""
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((12, 2, 4)).astype(np.float32), np.arange(12) % 3
    sets = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11]]
    data = fedlib.ClientData(torch.from_numpy(x), torch.from_numpy(y), sets, weights=np.ones(2))
    settings = {"rounds": 1, "clients_per_round": 2, "version": version}
    rates = {"fedavg": {"client_lr": 0.5}}
    return fedlib.Task("mine", model, data, data, hyperparameters=rates, **settings, **parts)


def edit_array(made):
    made.train.x.numpy()[:] += np.eye(4, dtype=np.float32)[:2]  # torch does not notice


CODE = {"model": lambda made: task(bent), "loss": lambda made: task(loss=doubled)}
DATA = {"array": edit_array}


def same(a, b):
    return all(torch.equal(a.params[name], b.params[name]) for name in a.params)


@pytest.mark.parametrize("change", CODE | DATA)
@pytest.mark.parametrize("version", ["", "1"])
def test_a_changed_task_is_not_answered(change, version, tmp_path):
    store, made = Store(tmp_path), task(version=version)
    before = store.run(made, "fedavg")
    assert len(store.stored()) == (version != "")
    again = (CODE | DATA)[change](made) or made
    if change in CODE and version:  # the version says that the code is another
        again = replace(again, version="2")
    after = store.run(again, "fedavg")
    assert same(after, fedlib.run(again, "fedavg")) and not same(after, before)
    assert after.config.digest != before.config.digest or not version


X = torch.arange(24.0).reshape(4, 6)
# Data whose bytes, or whose sizes, are those of X, 0..3 and [[0, 1], [2, 3]].
LIKE = {
    "other members": {"parts": [[0, 2], [1, 3]]},
    "other targets": {"y": torch.arange(4).flip(0)},
    "other weights": {"weights": [1.0, 2.0]},
    "another shape": {"x": X.reshape(4, 2, 3)},
    "another type": {"x": X.view(torch.int32)},
    "other names": {"ids": ["ann", "bob"]},
}


@pytest.mark.parametrize("other", LIKE.values(), ids=LIKE)
def test_data_that_differ_in_one_respect_have_another_digest(other):
    given = {"x": X, "y": torch.arange(4), "parts": [[0, 1], [2, 3]]}
    known = fedlib.ClientData(**given).digest()
    assert fedlib.ClientData(**given).digest() == known
    assert fedlib.ClientData(**{**given, **other}).digest() != known


GIVEN = {
    "itself": lambda module: module,
    "again": lambda module: lambda: module,
    "below a new head": lambda module: lambda: nn.Sequential(module, nn.Linear(3, 3)),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_a_module_that_was_trained_further_is_not_answered(given):
    module = net()
    made = task(given(module), version="1")
    before = configure(made, "fedavg").config.digest
    assert configure(made, "fedavg").config.digest == before
    nn.init.zeros_(module[1].weight)
    assert configure(made, "fedavg").config.digest != before


def test_tasks_that_name_no_version_have_runs_of_their_own_names():
    """Else a figure would take two losses' runs on the same data for one."""
    one, other = (configure(task(loss=loss), "fedavg").config for loss in (cross_entropy, doubled))
    assert one.digest != other.digest


def test_a_version_is_answered_and_its_absence_said_once(tmp_path, caplog, monkeypatch):
    store = Store(tmp_path)
    first = store.run(task(version="1"), "fedavg")
    assert store.run(task(version="1"), "fedavg").meta["created"] == first.meta["created"]
    fewer = fedlib.ClientData(task().train.x, task().train.y, [[0]])
    parts = [{"l2": 0.1}, {"test": fewer}, {"reduction": "sum"}]
    others = [replace(task(version="1"), **part) for part in parts]
    others.append(task(lambda: nn.Flatten(), "1"))
    digests = {configure(other, "fedavg").config.digest for other in others}
    assert len(digests | {first.config.digest}) == 5 and not caplog.messages
    made = task()
    with caplog.at_level(logging.WARNING, "fedlib"):
        one, two = store.runs(made, [{"algorithm": "fedavg", "seed": seed} for seed in (0, 1)])
        store.run(made, "fedavg")
    assert not same(one, two) and len(store.stored()) == 1
    assert len(caplog.messages) == 1 and "version='1'" in caplog.messages[0]
    with pytest.raises(fedlib.Error, match=r"task mine is your own.* version='1'"):
        fedlib.run(made, "fedavg", checkpoint=tmp_path / "state")
    assert same(fedlib.run(task(version="1"), "fedavg", checkpoint=tmp_path / "state"), first)


def test_the_catalogues_tasks_are_described_and_copies_with_other_parts_are_not():
    known = fedlib.load_task("synthetic", clients=3)
    for name in ("fedavg", "centralized"):
        assert configure(known, name).config.task["data"] == known.fingerprint
    assert not replace(known, loss=doubled).described
    with pytest.raises(FrozenInstanceError):
        known.loss = doubled
    known.test.ids.reverse()
    assert not known.described
    known = fedlib.load_task("synthetic", clients=3)
    known.options["clients"] = 4
    assert not known.described


def flip_a_label(made):
    made.train.y.numpy()[7] ^= 1  # torch does not notice


HELD = ("train.parts", "test.parts", "train.starts", "train.sizes", "weighted.weights")
HELD += ("train.index", "test.index")


@pytest.mark.parametrize("copied", [lambda made: made, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", HELD)
def test_who_holds_what_cannot_be_changed(name, copied):
    known = fedlib.load_task("synthetic", clients=3)
    data = {"train": known.train, "test": known.test, "weighted": task().train}
    array = getattr(copied(data[name.split(".")[0]]), name.split(".")[1])
    array = array[0] if isinstance(array, list) else array
    with pytest.raises((ValueError, RuntimeError), match=r"read-only|Inplace update"):
        array[0] = 1


CHANGES = {
    "tested examples": lambda made: made.test.index.numpy().fill(int(made.test.index[0])),
    "labels": lambda made: made.train.y.zero_(),
    "one label": flip_a_label,
    "tested inputs": lambda made: made.test.x.mul_(2),
    "a metric": lambda made: made.metrics.update(twice=doubled),
    "a split": lambda made: made.evaluated.update(more=made.train),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_the_catalogues_task_and_its_copies_are_no_longer_described_once_changed(change, tmp_path):
    def load():
        return fedlib.load_task("synthetic", clients=3)

    store = Store(tmp_path)
    before = store.run(load(), "fedavg", rounds=1)
    known, *copies = load(), copy.copy(load()), copy.deepcopy(load())
    for each in (known, *copies):
        each.train.x.numpy(), each.train.x.clone().mul_(2)
        assert each.described and each.identity == known.fingerprint
    assert store.run(known, "fedavg", rounds=1).meta["created"] == before.meta["created"]
    for each in (known, *copies):
        change(each)
        assert each.identity != each.fingerprint
        for again in (each, copy.copy(each), copy.deepcopy(each)):
            assert not again.described
    after = store.run(known, "fedavg", rounds=1)
    assert not after.frame.equals(before.frame) and len(store.stored()) == 1
    known = replace(known, version="1")
    assert store.run(known, "fedavg", rounds=1).frame.equals(after.frame)
    assert len(store.stored()) == 2


@pytest.mark.parametrize("part", ["train.x", "test.y", "train.index"])
@pytest.mark.parametrize("by", ["torch", "NumPy"])
def test_a_change_of_large_data_is_seen(part, by, monkeypatch):
    monkeypatch.setattr("fedlib.clients.SMALL", 0)
    monkeypatch.setattr("fedlib.clients.SAMPLE", 8)
    known = fedlib.load_task("synthetic", clients=3)
    split, name = part.split(".")
    values = getattr(getattr(known, split), name)
    assert known.described
    if by == "torch" and name != "index":  # which torch may not write to
        values[1] += 1
    else:
        values.numpy()[len(values) // 2 :] = values[0]
    assert not known.described


def test_one_number_of_small_data_that_numpy_changes_is_seen():
    known = fedlib.load_task("synthetic", clients=3)
    assert 2**12 < known.train.x.numel() and known.train.x.nbytes < 2**19
    known.train.x.numpy()[0, 1] += 1
    assert not known.described


def test_no_two_tasks_made_by_hand_have_one_digest_nor_one_before_and_after_a_change():
    def digest(one):
        return configure(one, "fedavg").config.digest

    one = task()
    digests = [digest(one), digest(task()), digest(replace(one)), digest(replace(one, rounds=1))]
    assert digest(one) == digests[0]
    one.train.y.zero_()
    digests += [digest(one), digest(replace(one, loss=doubled))]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("test", ["loss", "gradient"])
@pytest.mark.parametrize("algorithm", ["fedavg", "centralized"])
def test_a_quadratics_numbers_and_its_weights_are_its_own(test, algorithm):
    def made():
        return fedlib.quadratic_task(np.ones((2, 1, 1)), [[0.0], [1.0]], [1.0, 2.0], test=test)

    def digest(problem):
        return configure(problem, algorithm).config.digest

    problem = made()
    assert digest(problem) == digest(made())
    problem.new_model().b.add_(1)  # a copy
    assert digest(problem) == digest(made())
    assert torch.equal(problem.new_model().b, made().new_model().b)
    assert digest(fedlib.quadratic_task(np.ones((2, 1, 1)), [[0.0], [1.0]])) != digest(made())


@dataclass(frozen=True)
class Halved(fedlib.FedOpt):
    share: float = 0.5


@dataclass(frozen=True)
class Rate(fedlib.client.SGD):
    more: float = 0.0


@pytest.mark.parametrize("kind", [Halved, Rate])
def test_a_class_of_the_users_is_stored_by_its_version(kind, tmp_path, caplog, monkeypatch):
    known, store = fedlib.load_task("quadratic"), Store(tmp_path)

    def digest(version):
        monkeypatch.setattr(kind, "version", version, raising=False)
        method = Halved() if kind is Halved else fedlib.FedOpt(client=Rate(lr=0.1))
        return store.run(known, method, rounds=1).config.digest

    digest("")
    assert f"class {kind.__name__}" in caplog.text and not store.stored()
    assert len({digest("1"), digest("2"), digest("1")}) == 2 == len(store.stored())

    class Below(Halved):
        """What its base's version says is not said of it."""

    monkeypatch.setattr(Halved, "version", "1", raising=False)
    store.run(known, Below(), rounds=1)
    assert len(store.stored()) == 2


def test_two_classes_of_one_name_are_two_methods(quadratic):
    """As where a notebook's cell was changed: neither hides the other or trains with its code."""

    def made(factor):
        @dataclass(frozen=True)
        class Mine(fedlib.FedOpt):
            def server_update(self, server, mean):
                new = super().server_update(server, mean)
                return {**new, "x": factor * new["x"]}

        return Mine

    runs = [configure(quadratic, kind(), rounds=2) for kind in (made(1.0), made(0.5))]
    together = execute(runs)
    assert runs[0].config.digest != runs[1].config.digest
    for run, history in zip(runs, together, strict=True):
        alone = fedlib.run(quadratic, run.method, rounds=2)
        assert torch.equal(history.params["x"], alone.params["x"])
    assert not torch.equal(together[0].params["x"], together[1].params["x"])
