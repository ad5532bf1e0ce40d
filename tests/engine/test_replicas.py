"""Repetitions of a run as rows of one program: each is what it would be alone."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fedlib
from fedlib.engine import Configured, configure, execute, programs
from fedlib.task import ClientData, Fixed, Task
from tests.engine.test_backends import difference
from tests.engine.test_checkpoint import interrupted, same

SMALL = {"clients": 6}
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {"client_optimizer": "delta_sgd"},
    "fedadam": {},
    "scaffold": {},
    "mime": {"base": "adam"},
    "mime_mvr": {},
    "adafedadam": {},
    "qfedavg": {},
    "moon": {"mu": 0.1},
    "fednova": {"local_epochs": (1, 3)},
    "centralized": {"base": "adam"},
}


def repeated(
    tasks: list[Task], algorithm: str, overrides: dict[str, Any], **settings: Any
) -> list[Configured]:
    common: dict[str, Any] = {"rounds": 3, "dtype": "float64", "clients_per_round": 4, **settings}
    return [
        configure(task, algorithm, seed=seed, overrides=overrides, **common)
        for seed, task in enumerate(tasks)
    ]


def draws(same: bool, name: str = "synthetic", **options: Any) -> list[Task]:
    tasks = [fedlib.load_task(name, seed=seed, **(options or SMALL)) for seed in range(3)]
    return [tasks[0]] * 3 if same else tasks


def check(runs: list[Configured]) -> None:
    """Each is together what it is alone, one client after the other."""
    for run, one in zip(runs, execute(runs), strict=True):
        assert one.config == run.config and one.meta["configurations"] > 1
        assert difference(one, execute([run], backend="reference")[0]) < 1e-10


@pytest.mark.parametrize(
    ("algorithm", "same"),
    [*((name, False) for name in METHODS), ("mime_mvr", True), ("moon", True)],
)
def test_a_replica_is_what_it_is_alone(algorithm: str, same: bool) -> None:
    settings = {"clients_per_round": None} if algorithm == "centralized" else {}
    tasks = draws(same, "cifar10_resnet18") if algorithm == "moon" else draws(same)
    runs = repeated(tasks, algorithm, METHODS[algorithm], **settings)
    assert programs(runs) == [[0, 1, 2]]
    check(runs)


@pytest.mark.parametrize(
    "how", [{"backend": "parallel"}, {"chunk_clients": 1}, {"chunk_clients": 5}]
)
def test_chunks_and_workers_change_nothing(how: dict[str, Any]) -> None:
    runs = repeated(draws(False), "scaffold", {})
    for one, other in zip(execute(runs), execute(runs, **how), strict=True):
        assert difference(one, other) < 1e-10


def test_grids_and_servers_of_several_kinds_join_too() -> None:
    tasks = draws(False)
    rates = [{"client_lr": rate} for rate in (0.01, 0.1)]
    runs = [run for own in rates for run in repeated(tasks, "fedadam", own)]
    runs += repeated(tasks, "fedyogi", rates[0])
    alone = repeated(tasks[:1], "fedavgm", {})
    assert programs(runs + alone) == [[0, 3, 6, 1, 4, 7, 2, 5, 8], [9]]
    check(runs)


def test_inputs_that_a_task_makes_of_its_own_data_stay_its_own() -> None:
    runs = repeated(draws(False, "stackoverflow_lr", words=30), "fedadagrad", {})
    bags = [run.task.transform for run in runs]
    assert all(isinstance(own, Fixed) for own in bags) and bags[0] != bags[1]
    assert programs(runs) == [[0, 1, 2]]
    check(runs)


def diverging(seed: int, rate: float) -> Configured:
    """A run whose loss grows beyond bounds for the larger rates."""
    task = fedlib.load_task("quadratic", seed=seed)
    overrides = {"client_lr": rate, "local_steps": 40}
    return configure(task, "fedavg", rounds=12, seed=seed, overrides=overrides)


def test_one_that_diverges_ends_alone() -> None:
    cells = [(seed, rate) for rate in (0.01, 3.0, 1e30) for seed in range(3)]
    runs = [diverging(*cell) for cell in cells]
    together, alone = execute(runs), [execute([run])[0] for run in runs]
    ends = [history.diverged for history in alone]
    assert ends[:3] == [None] * 3 and None not in ends[6:] and len(set(ends[3:6])) > 1
    for one, other in zip(together, alone, strict=True):
        assert one.diverged == other.diverged
        assert one.frame.to_csv(float_format="%.5g") == other.frame.to_csv(float_format="%.5g")
        assert torch.allclose(one.params["x"], other.params["x"], rtol=1e-5)


def test_an_interrupted_program_of_replicas_goes_on_bit_for_bit(tmp_path: Path) -> None:
    runs = repeated(draws(False), "scaffold", {}, rounds=6)
    runs += repeated(draws(False), "scaffold", {"client_lr": 1e38}, rounds=6)
    whole = execute(runs)
    again = interrupted(runs, tmp_path / "state", (3,))
    assert all(same(one, other) for one, other in zip(whole, again, strict=True))


def task_of(model: Any, parts: list[list[int]], name: str = "mine") -> Task:
    data = ClientData(torch.eye(4), torch.arange(4) % 2, parts)
    return Task(name, model, data, data, clients_per_round=2, batch_size=2)


def frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    return model


class Noisy(nn.Linear):
    """A linear model with a buffer that depends on the seed."""

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.register_buffer("noise", torch.randn(2))


WHOLE = [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (task_of(lambda: nn.Linear(4, 2), [[0, 1], [2, 3], []]), "a client without examples"),
        (task_of(frozen, WHOLE), "frozen parameters of another seed"),
        (task_of(Noisy, WHOLE), "a buffer of another seed"),
        (task_of(lambda: nn.Linear(4, 2), WHOLE), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_seeds_change_besides_the_first_parameters_is_not_joined(task: Task, why: str) -> None:
    runs = repeated([task] * 2, "fedavg", {}, clients_per_round=2)
    assert len(programs(runs)) == (2 if why else 1)


def test_tasks_that_were_made_by_hand_are_joined_with_themselves_only() -> None:
    tasks = [task_of(lambda: nn.Linear(4, 2), WHOLE) for _ in range(2)]
    runs = repeated(tasks, "fedavg", {}, clients_per_round=2)
    assert programs(runs) == [[0], [1]]


def test_large_programs_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = repeated(draws(True), "fedavg", {})
    size = 610 * 4  # parameters of four clients
    for limit, expected in ((2 * size - 1, [[0], [1], [2]]), (2 * size, [[0, 1], [2]])):
        monkeypatch.setattr(import_module("fedlib.engine.run"), "JOINED_NUMBERS", limit)
        assert programs(runs) == expected


def test_joined_data_are_those_of_each_part() -> None:
    x = torch.arange(10.0).unsqueeze(1)
    scattered = ClientData(x, torch.arange(10), [[3, 1], [7]])
    following = ClientData.contiguous(x + 100, torch.arange(10) + 100, [4, 0], [2, 3])
    for parts in ([scattered, following, scattered], [following] * 2, [scattered]):
        joined = ClientData.joined(parts)
        assert len(joined) == 2 * len(parts)
        for client in range(len(joined)):
            part, own = parts[client // 2], client % 2
            got, expected = (
                data.x[data.places(torch.arange(data.sizes[c]) + int(data.starts[c]))]
                for data, c in ((joined, client), (part, own))
            )
            assert torch.equal(got, expected)
        assert len(joined.x) == 10 * len({id(part) for part in parts})
