"""Control variates and Mime's family: one result however they are executed, and they learn."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

import fedlib
from fedlib.engine.config import configure
from fedlib.engine.run import execute

SETTINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "scaffold": ("scaffold", {}),
    "lookahead": ("lookahead", {"client_optimizer": "adam", "client_lr": 0.01}),
    "adaalter": ("adaalter", {"client_lr": 0.1}),
    "centralized": ("centralized", {"base": "adam"}),
    "centralized yogi": ("centralized", {"base": "yogi", "bias_correction": True}),
    "mime": ("mime", {}),
    "mime adam": ("mime", {"base": "adam", "client_lr": 0.005}),
    "mime adagrad in halves": ("mime", {"base": "adagrad", "split": True, "eps": 0.1}),
    "mimelite momentum": ("mimelite", {"base": "momentum"}),
    "loc_mime momentum": ("loc_mime", {"base": "momentum"}),
    "mime_mvr": ("mime_mvr", {}),
    "mimelite_mvr in halves": ("mimelite_mvr", {"split": True}),
}
COMMON: dict[str, Any] = {"rounds": 2, "dtype": "float64", "clients_per_round": 4, "seed": 1}


def difference(a: fedlib.History, b: fedlib.History) -> float:
    """The largest difference in parameters and in recorded values."""
    params = max(float((a.params[n] - b.params[n]).abs().max()) for n in a.params)
    assert a.frame[["round", "split", "metric"]].equals(b.frame[["round", "split", "metric"]])
    return max(params, float((a.frame["value"] - b.frame["value"]).abs().max()))


@pytest.mark.parametrize("case", list(SETTINGS))
def test_backends_chunks_and_grids_agree(case: str) -> None:
    name, settings = SETTINGS[case]
    task = fedlib.load_task("synthetic", clients=7)
    settings = {"client_lr": 0.01, **settings, "local_steps": [3, 1, 4, 2, 0, 2, 3]}
    if name == "centralized":
        settings["local_steps"] = 4
    common = {**COMMON, "overrides": settings}
    rows = fedlib.run(task, name, **common)
    assert rows.diverged is None
    assert difference(rows, fedlib.run(task, name, backend="reference", **common)) < 1e-10
    assert difference(rows, fedlib.run(task, name, chunk_clients=2, **common)) < 1e-10
    rates = [0.3 * settings["client_lr"], settings["client_lr"]]
    cells = [{**settings, "client_lr": lr} for lr in rates]
    requests = [configure(task, name, overrides=cell, **COMMON) for cell in cells]
    together = execute(task, requests)
    assert together[1].meta["configurations"] == 2
    assert difference(rows, together[1]) < 1e-10 and difference(rows, together[0]) > 1e-6


def with_clients(task: fedlib.Task, order: list[int], extra: int) -> fedlib.Task:
    """The clients in another order, and ``extra`` empty ones."""
    data = task.train
    parts = [data.index[data.starts[i] : data.starts[i] + data.sizes[i]].numpy() for i in order]
    parts += [np.array([], dtype=np.int64)] * extra
    return dataclasses.replace(task, train=fedlib.ClientData(data.x, data.y, parts))


@pytest.mark.parametrize("case", [c for c in SETTINGS if "halves" not in c])
def test_order_and_empty_clients_change_nothing(case: str) -> None:
    """Full-batch steps, so that no random order is involved."""
    name, settings = SETTINGS[case]
    task = fedlib.load_task("synthetic", clients=5)
    other = with_clients(task, [3, 0, 4, 1, 2], extra=2)
    common = {**COMMON, "clients_per_round": None}
    common["overrides"] = {"client_lr": 0.01, **settings, "batch_size": None, "local_steps": 2}
    a, b = (fedlib.run(one, name, **common) for one in (task, other))
    assert max(float((a.params[n] - b.params[n]).abs().max()) for n in a.params) < 1e-11


@pytest.mark.parametrize("case", list(SETTINGS))
def test_they_learn(case: str) -> None:
    name, settings = SETTINGS[case]
    task = fedlib.load_task("synthetic", clients=20)
    settings = {"client_lr": 0.01, **settings, "local_steps": 5}
    history = fedlib.run(task, name, rounds=30, eval_every=30, overrides=settings)
    loss = history.series("loss")
    assert history.diverged is None and loss.iloc[-1] < 0.7 * loss.iloc[0]


def test_a_method_stops_where_it_diverges_and_the_others_go_on() -> None:
    task = fedlib.load_task("quadratic")
    for name in ("scaffold", "mime", "mime_mvr"):
        common: dict[str, Any] = {"rounds": 60, "dtype": "float64", "clients_per_round": 4}
        rates = (0.1, 1e30, 0.2)
        requests = [
            configure(task, name, overrides={"client_lr": lr, "local_steps": 3}, **common)
            for lr in rates
        ]
        together = execute(task, requests)
        assert [h.diverged is None for h in together] == [True, False, True]
        alone = execute(task, requests[2:])[0]
        assert torch.allclose(alone.params["x"], together[2].params["x"], atol=1e-12)
