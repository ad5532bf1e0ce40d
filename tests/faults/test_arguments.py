"""Arguments that do not belong where they are: Python's, tasks' options, any hyperparameter.

The call works, or it is a :class:`fedlib.Error` of one line that names the argument.
"""

import importlib
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

import fedlib
from fedlib import algorithms, datasets, figures, partition, tasks
from fedlib.arguments import Count, Numbers, Seed, Size, checked
from fedlib.engine.config import TRAINING_KEYS
from fedlib.models import MLP
from fedlib.tasks import presets
from tests.faults.campaign import case, examples
from tests.refusals import refused

X = torch.linspace(-1, 1, 16).reshape(8, 2)
DATA = fedlib.ClientData(X, (X[:, 0] > 0).long(), [[0, 1, 4, 5], [2, 3, 6, 7]])
TASK = fedlib.Task("mine", lambda: MLP(2, (3,), 2), DATA, DATA, batch_size=2, version="1")


# ------------------------------------------------------------------------------- every function


@checked
def taken(
    whole: int = 0,
    rate: float = 0.0,
    seed: Seed = 0,
    count: Count = 1,
    size: Size = 0,
    word: str | None = None,
    function: Callable[..., Any] | None = None,
    pair: tuple[float, float] = (0.0, 1.0),
    several: tuple[int, ...] = (),
    names: Sequence[str] = (),
    table: Mapping[str, float] | None = None,
    array: ArrayLike = (0,),
    numbers: Numbers = (0,),
    **more: Sequence[int],
) -> None:
    """One argument of each type that public functions have."""


# What each takes, and what it does not.
GIVEN = {
    "whole": ([3, np.int64(3), -1, 10**30], [True, 2.5, None, "x", torch.ones(1), np.ones(2)]),
    "rate": ([3, math.nan, np.float32(1), 2**1022], [True, np.bool_(True), "x", 1j, 2**1023]),
    "seed": ([0, 10**30], [-1, 1.5]),
    "count": ([1, 2**31 - 1], [0, 2**31]),
    "size": ([0, 2**31 - 1], [-1, 2**31]),
    "word": (["", None], [3, b"x", ["x"]]),
    "function": ([print, int, None], [3, "print"]),
    "pair": ([(1, 2.5)], [(1,), (1, 2, 3), ("x", 1), [1, 2], 3]),
    "several": ([(), (1, 2, 3)], [(1, "x"), 1]),
    "names": ([["a"], ("a",), np.array(["a"])], ["ab", [3], {"a"}, None, np.array("a"), b"a"]),
    "table": ([{"a": 1}, {}, None], [{"a": "x"}, {1: 1.0}, [("a", 1)]]),
    "array": ([[1], np.array(["a"]), pd.Series(["a"], dtype=object)], [3, [[1], [1, 2]], [int]]),
    "numbers": ([[1.5], [[True]]], [["a"], [1j], 1.0, pd.Series(["a"], dtype=object)]),
    "other": ([[1]], [["x"], 1, b"x"]),
}


@pytest.mark.parametrize("argument", GIVEN)
def test_an_argument_is_of_its_type_or_is_refused_by_name(argument):
    good, bad = GIVEN[argument]
    for value in good:
        taken(**{argument: value})
    for value in bad:
        refused(f"^taken: {argument} is .* .allowed: ", taken, **{argument: value})


def test_an_error_has_the_words_of_a_range():
    refused("allowed: a whole number >= 0", taken, seed=-1)


# What takes nothing, or only what the library makes.
LEFT = {"list_tasks", "list_algorithms", "how_to_get"}


ROOMS = [fedlib, algorithms, partition, tasks, datasets, figures]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_every_public_function_checks_its_arguments(room):
    public = {name: getattr(room, name) for name in getattr(room, "__all__", vars(room))}
    functions = {name for name, member in public.items() if inspect.isfunction(member)}
    unchecked = {name for name in functions if not hasattr(public[name], "__wrapped__")}
    assert functions and unchecked <= LEFT


def test_fields_of_tasks_and_methods_are_checked():
    parts = {"name": "mine", "model": TASK.model, "train": DATA, "test": DATA}
    for kind, fields in ((fedlib.Task, parts), (fedlib.FedOpt, {}), (fedlib.DeltaSGD, {})):
        wrong = {"FedOpt": "client", "DeltaSGD": "delta"}.get(kind.__name__, "rounds")
        refused(f"^{kind.__name__}: {wrong} is 'x' .allowed: ", kind, **fields, **{wrong: "x"})


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
@examples(every=3000, few=100)
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
