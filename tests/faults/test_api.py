"""Every public callable with every argument replaced by what does not belong there.

It works, or it is a :class:`fedlib.Error` of one line that names the argument.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import math
import re
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fedlib
from fedlib import algorithms, datasets, figures, partition, results, tasks
from fedlib.tasks import presets
from tests.faults.campaign import cases

VALUES: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "three": lambda: 3,
    "minus one": lambda: -1,
    "a half": lambda: 2.5,
    "nan": lambda: math.nan,
    "infinity": lambda: math.inf,
    "true": lambda: True,
    "a word": lambda: "x",
    "no word": lambda: "",
    "a long number": lambda: 10**30,
    "an empty list": lambda: [],
    "a list of words": lambda: ["x", None],
    "a dict": lambda: {},
    "an object": object,
    "a complex number": lambda: 1j,
    "a tensor of another shape": lambda: torch.ones(2, 1, 3),
    "a function": lambda: lambda *_: None,
    "a class": lambda: int,
}


@cache
def task() -> fedlib.Task:
    return fedlib.quadratic_task([[[1.0]], [[2.0]]], [[1.0], [0.0]])


@cache
def history() -> fedlib.History:
    return fedlib.run(labelled(), "fedavg", rounds=1)


@cache
def labelled() -> fedlib.Task:
    return fedlib.Task("mine", lambda: nn.Linear(3, 2), data(), data(), version="1")


def data() -> fedlib.ClientData:
    return fedlib.ClientData(torch.ones(4, 3), torch.tensor([0, 1, 0, 1]), [[0, 1], [2, 3]])


def compared() -> pd.DataFrame:
    return pd.DataFrame([{"task": "a", "method": "b", "printed": 1.0, "ours": 2.0}])


def frame() -> pd.DataFrame:
    return fedlib.grid(task(), "fedavg", rounds=1, client_lr=[0.1, 0.2], server_lr=[0.5, 1.0])


LABELS = np.array([0, 1, 0, 1, 2, 2])
SKEWED: dict[str, Any] = {"labels": LABELS, "clients": 2, "alpha": 1.0, "seed": 0}
SKEWED |= {"examples_per_client": 2}
RUN: dict[str, Any] = {"rounds": 1, "seed": 0, "device": "cpu", "backend": "auto"}
RUN |= {"dtype": "float32", "eval_every": 1, "clients_per_round": 1, "progress": False}
RUN |= {"overrides": {"client_lr": 0.1}}


def calls(folder: Path) -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Callables and right arguments, by name."""
    store = results.Store(folder / "runs", [])
    store.run(labelled(), "fedavg", rounds=1)
    arrays = {"x": np.ones((2, 3), np.uint8), "y": np.array([0, 1])}
    both = {f"{split}_{key}": each for split in ("train", "test") for key, each in arrays.items()}
    np.savez(folder / "mine.npz", **both)
    lines = [{"client": "ann", "split": split, "text": "word"} for split in ("train", "test")]
    (folder / "words.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    both |= {f"{split}_x": np.ones((2, 4, 4), np.uint8) for split in ("train", "test")}
    np.savez(folder / "pictures.npz", **both)
    lines = [{**line, "label": word} for line in lines for word in ("good", "bad")]
    (folder / "labelled.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kinds = {"mine": "npz", "words": "jsonl", "pictures": "npz", "labelled": "jsonl"}
    for name, kind in kinds.items():
        datasets.import_file(name, folder / f"{name}.{kind}", folder)
    about = {"id": "paper/figure", "caption": "", "histories": [history()], "root": str(folder)}
    how = {"chunk_clients": 1, "checkpoint": str(folder / "kept"), "checkpoint_every": 1}
    listed: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "run": (fedlib.run, {"task": task(), "algorithm": "fedavg", **RUN, **how}),
        "grid": (fedlib.grid, {"task": task(), "algorithm": "fedavg", **RUN, "server_lr": [1.0]}),
        "load_task": (
            fedlib.load_task,
            {"name": "quadratic", "preset": "quick", "seed": 0, "data_root": None, "clients": 3}
            | {"dimension": 2, "condition": 3.0, "heterogeneity": 1.0},
        ),
        "quadratic_task": (
            fedlib.quadratic_task,
            {"A": np.ones((2, 1, 1)), "b": np.ones((2, 1)), "weights": [1.0, 1.0], "x0": [0.0]}
            | {"offset": [0.0, 0.0], "name": "mine", "test": "loss"},
        ),
        "image_task": (
            tasks.image_task,
            {"data": "pictures", "clients": 2, "alpha": 1.0, "seed": 0, "data_root": str(folder)}
            | {"model": None, "transform": None},
        ),
        "text_task": (
            tasks.text_task,
            {"data": "labelled", "clients": 2, "alpha": 1.0, "seed": 0, "data_root": str(folder)}
            | {"model": None, "words": 9, "length": 4},
        ),
        "ClientData": (
            fedlib.ClientData,
            {"x": torch.ones(4, 3), "y": torch.zeros(4), "parts": [[0, 1], [2, 3]]}
            | {"ids": ["ann", "bob"], "weights": [1.0, 1.0]},
        ),
        "ClientData.contiguous": (
            fedlib.ClientData.contiguous,
            {"x": torch.ones(4, 3), "y": torch.zeros(4), "starts": np.array([0, 2])}
            | {"sizes": np.array([2, 2]), "ids": ["ann", "bob"], "weights": [1.0, 1.0]},
        ),
        "Task": (train, vars_of(labelled())),
        "clients_for_budget": (
            fedlib.clients_for_budget,
            {"method": fedlib.FedOpt(), "budget": 40.0},
        ),
        "build": (
            algorithms.build,
            {"algorithm": "fedadam", "client_lr": 0.1, "bias_correction": True},
        ),
        "hyperparameters": (
            algorithms.hyperparameters,
            {"algorithm": "fedadam", "client_optimizer": "sgdm"},
        ),
        "base.make": (fedlib.base.make, {"name": "adam", "beta1": 0.9, "momentum": 0.9}),
        "by_user": (partition.by_user, {"user_codes": LABELS}),
        "dirichlet": (partition.dirichlet, {**SKEWED, "proportions": np.ones((2, 3))}),
        "dirichlet_overlapping": (
            partition.dirichlet_overlapping,
            {**SKEWED, "author_split": False},
        ),
        "dirichlet_proportions": (
            partition.dirichlet_proportions,
            {"clients": 2, "classes": 3, "alpha": 1.0, "seed": 0},
        ),
        "iid": (partition.iid, {"n": 6, "clients": 2, "seed": 0}),
        "label_counts": (partition.label_counts, {"labels": LABELS, "parts": [[0, 1], [2]]}),
        "total_variation": (partition.total_variation, {"labels": LABELS, "parts": [[0, 1], [2]]}),
        "local_split": (
            partition.local_split,
            {"parts": [[0, 1], [2, 3]], "test_fraction": 0.5, "seed": 0},
        ),
        "lognormal_sizes": (
            partition.lognormal_sizes,
            {"clients": 2, "seed": 0, "mean": 3.0, "sigma": 2.0, "shift": 5, "cap": 1000},
        ),
        "uniform_sizes": (partition.uniform_sizes, {"clients": 2, "low": 1, "high": 3, "seed": 0}),
        "quantity": (partition.quantity, {"n": 6, "sizes": [2, 3], "seed": 0}),
        "silos": (
            partition.silos,
            {"labels": LABELS, "clients": 2, "beta": 10.0, "seed": 0, "strict": False},
        ),
        "pachinko": (
            partition.pachinko,
            {"coarse": LABELS // 2, "fine": LABELS, "clients": 2, "examples_per_client": 2}
            | {"alpha": 1.0, "beta": 1.0, "seed": 0},
        ),
        "datasets.names": (datasets.names, {"data_root": str(folder)}),
        "datasets.info": (datasets.info, {"name": "mine", "data_root": str(folder)}),
        "datasets.load": (datasets.load, {"name": "mine", "data_root": str(folder)}),
        "datasets.load_text": (datasets.load_text, {"name": "words", "data_root": str(folder)}),
        "datasets.load_posts": (
            datasets.load_posts,
            {"name": "stackoverflow", "data_root": str(folder)},
        ),
        "datasets.prepared": (datasets.prepared, {"data_root": str(folder)}),
        "datasets.verify": (datasets.verify, {"name": "mine", "data_root": str(folder)}),
        "datasets.import_file": (
            datasets.import_file,
            {"name": "mine", "path": str(folder / "mine.npz"), "data_root": str(folder)}
            | {"overwrite": True},
        ),
        "datasets.prepare": (
            datasets.prepare,
            {"name": "mnist", "data_root": str(folder), "overwrite": False, "keep_raw": True}
            | {"from_folder": str(folder), "progress": False},
        ),
        "datasets.leaf_synthetic": (
            datasets.leaf_synthetic,
            {"clients": 2, "classes": 2, "dimension": 2, "seed": 0},
        ),
        "figures.client_density": (
            figures.client_density,
            {"histories": [history()], "metric": "accuracy", "split": "test", "title": ""}
            | {"legend": True, "by": algorithm_of, "ax": None},
        ),
        "figures.client_distribution": (
            figures.client_distribution,
            {"histories": [history()], "metric": "accuracy", "split": "test", "title": ""}
            | {"percent": True, "legend": True, "by": algorithm_of, "ax": None},
        ),
        "figures.client_labels": (
            figures.client_labels,
            {"labels": LABELS, "parts": [[0, 1], [2]], "shares": True, "title": ""}
            | {"legend": True, "ax": None},
        ),
        "figures.unique_labels": (
            figures.unique_labels,
            {"labels": LABELS, "partitions": [[[0, 1], [2]]], "title": "", "ax": None},
        ),
        "figures.learning_curves": (
            figures.learning_curves,
            {"histories": [history()], "metric": "accuracy", "split": "test"}
            | {"printed": {"fedavg": 0.5}, "printed_rounds": 3, "title": "", "percent": True}
            | {"log_y": False, "legend": True, "by": algorithm_of, "looks": None, "ax": None},
        ),
        **dict.fromkeys(
            ("plot", "figures.plot"),
            (
                fedlib.plot,
                {"histories": [history()], "metric": "accuracy", "split": "test", "title": ""}
                | {"percent": True, "log_y": False, "ax": None},
            ),
        ),
        "figures.heat_map": (
            figures.heat_map,
            {"frame": frame(), "x": "client_lr", "y": "server_lr", "metric": "loss"}
            | {"split": "test", "title": "", "percent": True, "numbers": True, "ax": None},
        ),
        "figures.layers": (
            figures.layers,
            {"model": nn.Linear(3, 2), "example": torch.ones(1, 3)},
        ),
        "figures.draw_layers": (
            figures.draw_layers,
            {"frame": figures.layers(nn.Linear(3, 2), torch.ones(1, 3)), "title": "", "ax": None},
        ),
        "figures.save": (figures.save, {"figure": None, "data": frame(), **about}),
        "figures.table": (figures.table, {"frame": frame(), "caption": ""}),
        "figures.drawn": (figures.drawn, {"frame": frame(), "caption": ""}),
        "figures.comparison": (figures.comparison, {"frame": compared(), "caption": ""}),
        "Store": (results.Store, {"root": str(folder), "published": [str(folder)]}),
        "Store.run": (store.run, {"task": task(), "algorithm": "fedavg", **RUN}),
        "Store.runs": (
            store.runs,
            {"task": task(), "requests": [{"overrides": {"server_lr": 1.0}}], **RUN}
            | {"algorithm": "fedavg", "keep_params": True, "refresh": False},
        ),
        "Store.grid": (
            store.grid,
            {"task": task(), "algorithm": "fedavg", **RUN, "server_lr": [1.0]},
        ),
        "Store.has": (store.has, {"digest": "0" * 16}),
        "Store.load": (store.load, {"digest": history().config.digest, "params": True}),
        "Store.stored": (store.stored, {"task": "mine", "published": False}),
        "Store.path": (store.path, {"digest": history().config.digest}),
        "History": (fedlib.History, vars_of(history())),
    }
    return listed | dict(components())


def algorithm_of(run: fedlib.History) -> str:
    return run.config.algorithm


def vars_of(instance: Any) -> dict[str, Any]:
    fields = inspect.signature(type(instance)).parameters
    return {name: getattr(instance, name) for name in fields}


def train(**fields: Any) -> object:
    """A task of these parts, trained for a round."""
    made = fedlib.Task(**fields)
    return fedlib.run(made, "fedavg", rounds=min(made.rounds, 1))


def components() -> Iterator[tuple[str, tuple[Callable[..., Any], dict[str, Any]]]]:
    """All classes that methods are composed of, and the torch.optim classes."""
    rooms = {"": fedlib, "client.": fedlib.client, "server.": fedlib.server, "base.": fedlib.base}
    for room, module in rooms.items():
        for name in getattr(module, "__all__", vars(module)):
            kind = getattr(module, name)
            part = inspect.isclass(kind) and issubclass(kind, fedlib.component.Component)
            if part and not name.startswith("_") and name not in ("Together", "Component"):
                yield f"{room}{name}", (kind, vars_of(kind()))
    for name in fedlib.torch_optim.__all__:
        kind = getattr(fedlib.torch_optim, name)
        options = {
            key: each for key, each in vars_of(kind.rule()).items() if key not in kind.without
        }
        right = {"params": [nn.Parameter(torch.ones(2))], "lr": 0.1, **options}
        yield f"torch_optim.{name}", (kind, right)


def public() -> Iterator[str]:
    """The names of what the rooms export and can be called."""
    for prefix, room in (
        ("", fedlib),
        ("", algorithms),
        ("", partition),
        ("", tasks),
        ("datasets.", datasets),
        ("figures.", figures),
        ("", results),
    ):
        for name in room.__all__:
            member = getattr(room, name)
            if callable(member) and not isinstance(member, types.ModuleType):
                yield prefix + name


# Not called with arguments of the user's: errors, what the library makes, and what takes nothing.
LEFT = {"Error", "RunConfig", "Client", "Stored", "list_tasks", "list_algorithms"}
LEFT |= {"datasets.Dataset", "datasets.TextDataset", "datasets.Posts", "datasets.how_to_get"}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return calls(tmp_path_factory.mktemp("calls"))


def test_every_public_callable_is_tried(known: dict[str, Any]) -> None:
    assert set(public()) - set(known) == LEFT


def test_right_arguments_work(known: dict[str, Any], tmp_path: Path) -> None:
    for name, (function, right) in known.items():
        try:
            function(**right)
        except fedlib.Error:
            assert name in NOTHING_THERE, name


def wrong(known: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Callable, argument and value."""
    for name, (_, right) in known.items():
        yield from itertools.product([name], right, VALUES)


def verdict(known: dict[str, Any], name: str, argument: str, value: Any) -> str:
    """Empty if the call works or is refused as it should be, else what went wrong."""
    function, right = known[name]
    named = name in NOTHING_THERE
    try:
        function(**{**right, argument: value})
    except fedlib.Error as error:
        text = str(error)
        if "\n" in text or not text:
            return f"not one line: {text!r}"
        return "" if named or names(argument, text) else f"does not name the argument: {text}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        plt.close("all")
    return ""


def names(argument: str, text: str) -> bool:
    return any(word in text for word in (argument, *OTHER.get(argument, ())))


# Right arguments are refused too, as the official files are not there.
NOTHING_THERE = {"datasets.prepare", "datasets.load_posts"}
# What an error says in place of an argument's name.
OTHER = {
    "x": ("inputs", "column"),
    "parts": ("part of client", "for 0 clients"),
    "sizes": ("for 0 clients", "for 1 clients"),
    "y": ("column",),
    "name": ("unknown algorithm", "unknown task", "unknown base", "data set", "imported from"),
    "path": ("no file",),
    "data_root": ("unknown data set", "not prepared"),
    "histories": ("no runs to draw",),
    "metric": ("has no test",),
    "split": ("unknown metric", "per client"),
    "params": ("no run",),
    "clients": ("proportions has shape",),
}


def test_wrong_arguments_are_refused_by_name(
    known: dict[str, Any], count: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some texts are right names of folders
    for name, argument, value in cases(wrong(known), 600):
        count()
        problem = verdict(known, name, argument, VALUES[value]())
        if problem:
            count.failures.append(f"{name}({argument}={value}): {problem}")


def options() -> Iterator[tuple[str, str, str]]:
    """Task, option and a value that no option may have."""
    some = {"none", "three", "true", "a half", "a long number", "a word", "no word"}  # may have
    for name in tasks.TASKS:
        own = [option for option in preset(name) if option not in presets.RUN]
        yield from itertools.product([name], own, VALUES.keys() - some)


def preset(name: str) -> dict[str, Any]:
    declared: dict[str, Any] = declaration(name).quick
    return declared.get(name, declared)


def declaration(name: str) -> Any:
    return importlib.import_module(f"fedlib.tasks.{tasks.TASKS[name][0]}")


def test_wrong_options_of_tasks_are_refused_by_name(count: Any) -> None:
    for name, option, value in cases(sorted(options()), 200):
        with count.case(f"{name}({option}={value})"):
            try:
                presets.chosen(declaration(name), name, "quick", {option: VALUES[value]()})
            except fedlib.Error as error:
                assert re.fullmatch(f"{option} is .*", str(error)), error
            else:
                raise AssertionError("it was taken")
