"""Arguments that do not belong where they are: Python's, tasks' options, any hyperparameter.

The call works, or it is a :class:`fedlib.Error` of one line that names the argument.
"""

import importlib
import inspect
import math
import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import fedlib
from fedlib import algorithms, datasets, figures, partition, results, tasks
from fedlib.engine.config import TRAINING_KEYS
from fedlib.models import MLP
from fedlib.tasks import presets
from tests import copies
from tests.faults.campaign import case, examples

VALUES = [None, 3, -1, 2.5, math.nan, math.inf, True, "x", "", 10**30, [], ["x", None], {}, 1j]
VALUES += [object(), torch.ones(2, 1, 3), lambda *_: None, int]


X = torch.linspace(-1, 1, 16).reshape(8, 2)
DATA = fedlib.ClientData(X, (X[:, 0] > 0).long(), [[0, 1, 4, 5], [2, 3, 6, 7]])
TASK = fedlib.Task("mine", lambda: MLP(2, (3,), 2), DATA, DATA, batch_size=2, version="1")
HISTORY = fedlib.run(TASK, "fedavg", rounds=1)
FRAME = fedlib.grid(TASK, "fedavg", rounds=1, client_lr=[0.1, 0.2], server_lr=[0.5, 1.0])
LABELS = np.array([0, 1, 0, 1, 2, 2])


def vars_of(instance):
    return {name: getattr(instance, name) for name in inspect.signature(type(instance)).parameters}


def train(**given):
    """A task of these parts, trained for a round."""
    made = fedlib.Task(**given)
    return fedlib.run(made, "fedavg", rounds=min(made.rounds, 1))


# ------------------------------------------------------------------------------- every callable

# Right arguments by their names, where they are not the defaults; "." is a folder with small data.
RIGHT = {"algorithm": "fedavg", "alpha": 1.0, "budget": 40.0, "caption": ""}
RIGHT |= {"client_optimizer": "sgdm", "clients": 2, "clients_per_round": 1, "data_root": "."}
RIGHT |= {"digest": HISTORY.config.digest, "dimension": 2, "example": torch.ones(1, 3)}
RIGHT |= {"examples_per_client": 2, "frame": FRAME, "histories": [HISTORY], "ids": ["ann", "bob"]}
RIGHT |= {"labels": LABELS, "metric": "accuracy", "model": nn.Linear(3, 2), "n": 6, "name": "mine"}
RIGHT |= {"parts": [[0, 1], [2, 3]], "path": "mine.npz", "root": ".", "rounds": 1, "seed": 0}
RIGHT |= {"task": TASK, "weights": [1.0, 1.0], "y": torch.zeros(4)}
# Those of one callable, where its arguments mean something else or are any keywords.
X3 = torch.ones(4, 3)
ROWS = pd.DataFrame({"task": [0, 1] * 9, "method": [*"abc"] * 6, "ours": 2.0})
TABLE = pd.DataFrame([{"task": "a", "method": "b", "printed": 1.0, "ours": 2}])
OWN = {
    "run": {"checkpoint": "kept", "checkpoint_every": 1, "chunk_clients": 1},
    "grid": {"server_lr": [1.0]},
    "load_task": {"name": "quadratic", "clients": 3, "dimension": 2, "condition": 3.0},
    "quadratic_task": {"A": np.ones((2, 1, 1)), "b": np.ones((2, 1)), "x0": [0.0], "test": "loss"},
    "image_task": {"data": "pictures", "model": None},
    "table_task": {"frame": ROWS, "label": "task", "client": "method", "split": None}
    | dict.fromkeys(("model", "clients", "alpha")),
    "from_datasets": {"datasets": [[(1.0, 0), (2.0, 1)]]},
    "text_task": {"data": "labelled", "words": 9, "length": 4, "model": None},
    "ClientData": {"x": X3},
    "Task": vars_of(TASK),
    "History": vars_of(HISTORY),
    "clients_for_budget": {"method": fedlib.FedOpt()},
    "build": {"algorithm": "fedadam", "client_lr": 0.1, "bias_correction": True},
    "by_user": {"user_codes": LABELS},
    "dirichlet_proportions": {"classes": 3},
    "local_split": {"test_fraction": 0.5},
    "pachinko": {"coarse": LABELS // 2, "fine": LABELS, "beta": 1.0},
    "quantity": {"sizes": [2, 3]},
    "uniform_sizes": {"low": 1, "high": 3},
    "datasets.load_text": {"name": "words"},
    "datasets.load_posts": {"name": "stackoverflow"},
    "datasets.import_file": {"overwrite": True},
    "datasets.prepare": {"name": "mnist", "from_folder": ".", "progress": False},
    "datasets.leaf_synthetic": {"classes": 2},
    "figures.unique_labels": {"partitions": [[[0, 1], [2]]]},
    "figures.learning_curves": {"printed": {"fedavg": 0.5}},
    "figures.draw_layers": {"frame": figures.layers(nn.Linear(3, 2), torch.ones(1, 3))},
    "figures.save": {"id": "a/b", "figure": None, "data": FRAME, "root": "."},
    "figures.comparison": {"frame": TABLE},
    "Store": {"published": ["."]},
    "Store.runs": {"requests": [{"overrides": {"server_lr": 1.0}}], "algorithm": "fedavg"},
    "Store.grid": {"server_lr": [1.0]},
    "Store.stored": {"published": True},
    "silos": {"beta": 10.0},
    "shards": {"shards_per_client": 2},
    "fixed_classes": {"classes_per_client": 1},
    **{name: {"params": HISTORY.params, "device": "cpu"} for name in ("evaluate", "predict")},
}
# Not called with arguments of the user's: errors, what the library makes, and what takes nothing.
LEFT = {"Error", "RunConfig", "Client", "Stored", "list_tasks", "list_algorithms", "Oracle"}
LEFT |= {"Dataset", "TextDataset", "Posts", "how_to_get", "Together"}
LEFT |= {"adam_state", "adam_step"}
ROOMS = {"": [fedlib, algorithms, partition, tasks, results], "datasets.": [datasets]}
ROOMS |= {"figures.": [figures], "client.": [fedlib.client], "server.": [fedlib.server]}
ROOMS |= {"base.": [fedlib.base]}


def public():
    """What the rooms export and can be called, and the methods of a store and of data."""
    for prefix, room in ((prefix, room) for prefix, rooms in ROOMS.items() for room in rooms):
        own = [k for k, v in vars(room).items() if getattr(v, "__module__", "") == room.__name__]
        for name in getattr(room, "__all__", own):
            member = getattr(room, name)
            if callable(member) and name not in LEFT:
                yield prefix + name, train if name == "Task" else member
    for name in ("run", "runs", "grid", "load", "stored"):
        yield f"Store.{name}", getattr(results.Store, name)


PUBLIC = dict(public())


def right(name):
    """A callable's right arguments: its own, those of their names, and the defaults."""
    function = PUBLIC[name]
    if inspect.isclass(function) and issubclass(function, fedlib.component.Component):
        return vars_of(function())
    found = {}
    for key, parameter in inspect.signature(function).parameters.items():
        if key in RIGHT or parameter.default is not parameter.empty:
            found[key] = RIGHT.get(key, parameter.default)
    return found | OWN.get(name, {})


ARGUMENTS = [(name, argument) for name in PUBLIC for argument in right(name)]
# Right arguments are refused too, as the official files are not there.
NOTHING_THERE = {"datasets.prepare", "datasets.load_posts"}
# What an error says in place of an argument's name.
OTHER = {"x": "inputs|column", "y": "column", "path": "no file|its images"}
OTHER |= {"parts": "part of client|for 0 clients", "sizes": "for [01] clients"}
OTHER |= {"params": "no run|its parameters", "metric": "has no test"}
OTHER |= {"name": "unknown (algorithm|task|base)|data set|imported from|holds arrays"}
OTHER |= {"data_root": "unknown data set|not prepared", "histories": "no runs to draw"}
OTHER |= {"split": "unknown metric|per client", "datasets": "data set", "client": "a feature is"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where all are called, with small data of each kind; some texts are right names of folders."""
    place = tmp_path_factory.mktemp("calls")
    for name, shape in {"mine": (2, 3), "pictures": (2, 4, 4)}.items():
        copies.pictures(place, name, np.ones(shape, np.uint8), np.arange(2))
    for name, labels in {"words": [{}], "labelled": [{"label": "good"}, {"label": "bad"}]}.items():
        line = {"client": "ann", "text": "word"}
        lines = [line | {"split": s} | label for s in ("train", "test") for label in labels]
        copies.texts(place, name, lines)
    results.Store(place, []).run(TASK, "fedavg", rounds=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        yield place


def call(name, wrong):
    function = PUBLIC[name]
    if name.startswith("Store."):
        function = getattr(results.Store(".", []), name.removeprefix("Store."))
    try:
        function(**{**right(name), **wrong})
    finally:
        plt.close("all")


@pytest.mark.parametrize("name", PUBLIC)
def test_right_arguments_work(name, folder):
    try:
        call(name, {})
    except fedlib.Error:
        assert name in NOTHING_THERE


@given(st.sampled_from(ARGUMENTS), st.sampled_from(VALUES))
@examples(every=len(ARGUMENTS) * len(VALUES), few=600)
def test_wrong_arguments_are_refused_by_name(folder, where, value):
    name, argument = where
    with case(f"{name}({argument}={value})"):
        try:
            call(name, {argument: value})
        except fedlib.Error as error:
            text, said = str(error), f"{argument}|{OTHER.get(argument, argument)}"
            assert text and (name in NOTHING_THERE or re.search(said, text))
        except TypeError:  # the user's own function fails
            assert argument == "callback" and value is int


def declaration(name):
    return importlib.import_module(f"fedlib.tasks.{tasks.TASKS[name]['module']}")


OPTIONS = [
    (name, option)
    for name in tasks.TASKS
    for option in declaration(name).quick.get(name, declaration(name).quick)
    if option not in presets.RUN
]
NO_OPTION = [-1, math.nan, math.inf, [], ["x"], {}, 1j, object(), torch.ones(2), int]


@given(st.sampled_from(OPTIONS), st.sampled_from(NO_OPTION))
@examples(every=len(OPTIONS) * len(NO_OPTION), few=200)
def test_wrong_options_of_tasks_are_refused_by_name(where, value):
    name, option = where
    with pytest.raises(fedlib.Error) as caught:
        presets.chosen(declaration(name), name, "quick", {option: value})
    assert re.fullmatch(f"{option} is .*", str(caught.value))


# --------------------------------------------------------------------------- any hyperparameter


def hyperparameters():
    """Algorithm, client optimizer, hyperparameter: that optimizer's own, where it is not SGD."""
    for name in algorithms.METHODS:
        for optimizer in algorithms.CLIENT_OPTIMIZERS:
            try:
                known = algorithms.hyperparameters(name, optimizer)
                algorithms.build(name, client_optimizer=optimizer)
            except fedlib.Error:  # they do not go together
                continue
            plain = algorithms.hyperparameters(name) if optimizer != "sgd" else {}
            own = TRAINING_KEYS if optimizer == "sgd" else ()
            yield from ((name, optimizer, key) for key in (*known, *own) if key not in plain)


EDGES = [0, -1, 1, 2, 1.9, -0.0, 0.5, 1.0, 1 - 1e-9, 1 + 1e-9, 1e-300, 1e300, 1e-9, -1e-9, 1e9]
NO_NUMBERS = [None, True, False, "x", "", "0.1", [], [0.1], {}, 1j, math.nan, math.inf, -math.inf]
ANYTHING = st.one_of(
    st.sampled_from([*EDGES, *NO_NUMBERS, 10**30, object()]),
    st.floats(),
    st.integers(-3, 10),
    st.text(max_size=3),
    st.lists(st.integers(-1, 3), max_size=3),
)


@given(st.sampled_from(list(hyperparameters())), ANYTHING, st.sampled_from([*fedlib.base.BASES]))
@examples(every=3000, few=150)
def test_any_value_of_any_hyperparameter(where, value, base):
    """Refused, or finite, or said to diverge; what is accepted is part of what the run is."""
    name, optimizer, key = where
    overrides = {key: value}
    if optimizer != "sgd":
        overrides["client_optimizer"] = optimizer
    known = algorithms.hyperparameters(name, optimizer)
    if "base" in known and key != "base":
        overrides["base"] = base
    with case(f"{name} {overrides}"):
        try:
            history = fedlib.run(TASK, name, rounds=2, overrides=overrides)
        except fedlib.Error as error:
            text = str(error)
            assert key in text or key.split("_")[-1] in text, text
            return
        # The last loss of a model whose numbers are finite may be too large for its type.
        lost = history.frame[history.frame["value"].isna()]
        ends = (lost["split"] == "test") & (lost["round"] == 2)
        assert history.diverged is not None or ends.all()
        assert not (isinstance(value, float) and math.isnan(value)), "NaN was taken"
        # A base may leave the number; a default is what the algorithm does anyway.
        if "base" not in known and value is not None and known.get(key, value) != value:
            assert says({**history.config.method, **vars(history.config)}, value), "not said"


def says(described, value):
    """Whether a value occurs in a configuration."""
    if isinstance(described, dict):
        return any(says(part, value) for part in described.values())
    if isinstance(described, tuple) and isinstance(value, (list, tuple)):
        return described == tuple(value)
    if isinstance(described, float) and isinstance(value, int):
        return described == float(value)  # 10**30 is no float
    return bool(described == value) or str(described).lower() == str(value).lower()
