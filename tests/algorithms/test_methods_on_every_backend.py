"""One result however a method is executed, whatever the clients' order; and they learn."""

import dataclasses

import numpy as np
import pytest
import torch

import fedlib
from fedlib.engine import configure, execute
from fedlib.models import MLP
from tests.engine.test_backends import difference

SETTINGS = {
    "scaffold": ("scaffold", {}),
    "lookahead": ("lookahead", {"client_optimizer": "adam", "client_lr": 0.01}),
    "adaalter": ("adaalter", {"client_lr": 0.1}),
    "centralized": ("centralized", {"base": "adam"}),
    "n_accadam": ("n_accadam", {}),
    "centralized yogi": ("centralized", {"base": "yogi", "bias_correction": True}),
    "mime": ("mime", {}),
    "mime adam": ("mime", {"base": "adam", "client_lr": 0.005}),
    "mime adagrad in halves": ("mime", {"base": "adagrad", "split": True, "eps": 0.1}),
    "mimelite momentum": ("mimelite", {"base": "momentum"}),
    "loc_mime momentum": ("loc_mime", {"base": "momentum"}),
    "mime_mvr": ("mime_mvr", {}),
    "mimelite_mvr in halves": ("mimelite_mvr", {"split": True}),
}
# Client optimizers, and methods that train with one; each client draws one or two epochs a round.
CLIENTS = {
    "sgdm": ("fedavg", {"client_optimizer": "sgdm", "nesterov": True}),
    "adam": ("fedadam", {"client_optimizer": "adam"}),
    "adagrad": ("fedprox", {"client_optimizer": "adagrad", "mu": 0.1, "eps": 1e-6}),
    "sps": ("fedprox", {"client_optimizer": "sps", "mu": 0.1, "c": 50.0, "eta_max": 0.5}),
    "delta_sgd": ("fedadam", {"client_optimizer": "delta_sgd"}),
    "qfedavg": ("qfedavg", {"client_optimizer": "delta_sgd", "L": 1.0}),  # without a rate
    "adafedadam": ("adafedadam", {"client_optimizer": "sgdm"}),
    "fednova": ("fednova", {"momentum": 0.9, "mu": 0.1}),
    "fednova's momentum": ("fednova", {"momentum": 0.9, "momentum_state": "client"}),
    "moon": ("moon", {}),
    "moon and momentum": ("moon", {"client_optimizer": "sgdm", "momentum_state": "client"}),
}
EVERY = {**SETTINGS, **CLIENTS}
COMMON = {"rounds": 2, "dtype": "float64", "clients_per_round": 4, "seed": 1}
RATES = {"sps": "c", "delta_sgd": "eta0", "qfedavg": "eta0"}


def small_task(clients):
    """Synthetic with a hidden layer."""
    task = fedlib.load_task("synthetic", clients=clients)
    return dataclasses.replace(task, model=lambda: MLP(60, (5,), 10))


@pytest.mark.parametrize("case", list(EVERY))
def test_backends_chunks_and_grids_agree(case):
    name, settings = EVERY[case]
    task, rate = small_task(7), RATES.get(case, "client_lr")
    work = {"local_steps": [3, 1, 4, 2, 0, 2, 3]}
    if case in CLIENTS:
        work = {"local_epochs": (1, 2)}
    elif name in ("centralized", "n_accadam"):
        work["local_steps"] = 4
    settings = {rate: 0.01, **settings, **work}
    common = {**COMMON, "overrides": settings}
    rows = fedlib.run(task, name, **common)
    assert rows.diverged is None
    assert difference(rows, fedlib.run(task, name, backend="plain", **common)) < 1e-10
    cells = [{**settings, rate: factor * settings[rate]} for factor in (0.3, 1)]
    requests = [configure(task, name, overrides=cell, **COMMON) for cell in cells]
    together = execute(requests, chunk_clients=2)
    assert together[1].meta["configurations"] == 2
    assert difference(rows, together[1]) < 1e-10 and difference(rows, together[0]) > 1e-6


@pytest.mark.parametrize("case", [c for c in EVERY if "halves" not in c])
def test_order_and_empty_clients_change_nothing(case):
    """Full-batch steps, so that no random order is involved, only that of sums."""
    name, settings = EVERY[case]
    task = small_task(5)
    data = task.train
    members = np.split(data.index.numpy(), data.starts[1:])
    parts = [*(members[i] for i in (3, 0, 4, 1, 2)), [], []]
    other = dataclasses.replace(task, train=fedlib.ClientData(data.x, data.y, parts))
    common = {**COMMON, "clients_per_round": None}
    common["overrides"] = {RATES.get(case, "client_lr"): 0.01, **settings}
    common["overrides"] |= {"batch_size": None, "local_steps": 2}
    a, b = (fedlib.run(one, name, **common) for one in (task, other))
    torch.testing.assert_close(a.params, b.params, rtol=0, atol=1e-11)
    losses = [history.series("loss", "train").tolist() for history in (a, b)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-11)
