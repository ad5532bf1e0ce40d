"""The CUDA path without a GPU: no mixed devices, no waiting in a round, few transfers and kernels.

Every task with three methods, and every method on three tasks, whose networks are a dense, a
convolutional and a text one: all of them on all would take minutes. Networks are the papers' where
that is possible, of a small width, which changes the size of an operation but not how many there
are. ``python -m tests.engine.test_rehearsal`` writes the table of numbers again.
"""

from __future__ import annotations

import functools
import tomllib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import fedlib
from fedlib.algorithms import CLIENT_OPTIMIZERS
from fedlib.engine import batches as feed
from fedlib.engine.config import Configured, configure
from tests.engine.rehearsal import DEVICE, Mistake, Seen, rehearse, watched
from tests.tasks.test_every_task import SMALL

TABLE = Path(__file__).with_name("rehearsal.toml")
TORCH = ".".join(torch.__version__.split(".")[:2])
METHODS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "scaffold": {},
    "delta_sgd": {"client_optimizer": "delta_sgd"},
}
RESNET = {**SMALL["cifar10"], "data": "cifar10", "network": "resnet18"}
OPTIONS = {**SMALL, "cifar10": RESNET}
DENSE, CONVOLUTIONAL, TEXT = "fair_femnist", "mnist", "dbpedia"


@pytest.fixture(autouse=True)
def cifar(prepared: Callable[..., None]) -> None:
    """Small copies, which the ResNets take."""
    prepared("cifar10", "cifar100")


@functools.cache
def load(name: str) -> fedlib.Task:
    return fedlib.load_task(name, **OPTIONS.get(name, {}))


def configured(name: str, method: str, **overrides: Any) -> Configured:
    algorithm = "fedavg" if method == "delta_sgd" else method
    task, overrides = load(name), {**METHODS.get(method, {}), **overrides}
    overrides = {"local_steps": 2, **overrides}
    if name != "quadratic":
        overrides = {"batch_size": 4, **overrides}
    cohort = min(2, len(task.train))
    return configure(task, algorithm, rounds=2, clients_per_round=cohort, overrides=overrides)


def checked(rounds: list[Seen]) -> Seen:
    """The last of some rounds. No step has an upload: a CUDA graph could not record that."""
    for seen in rounds:
        assert seen.steps and all(step.kernels and not step.uploads for step in seen.steps)
    return rounds[-1]


def numbers(name: str, method: str) -> dict[str, int]:
    """What a task's round takes with a method: operations of its longest step, and uploads."""
    seen = checked(rehearse([configured(name, method)]))
    return {"kernels": max(step.kernels for step in seen.steps), "uploads": len(seen.uploads)}


@pytest.mark.parametrize("name", fedlib.list_tasks())
def test_no_task_takes_more_kernels_or_uploads_than_it_did(name: str) -> None:
    table = tomllib.loads(TABLE.read_text())
    assert name in table, f"{name} is not in {TABLE.name}: python -m tests.engine.test_rehearsal"
    for method in METHODS:
        found, known = numbers(name, method), table[name][method]
        if table["torch"] != TORCH:
            continue  # another torch may count otherwise; devices and syncs were looked at
        for what, count in found.items():
            row = f"{name} with {method}: {count} {what}, {known[what]} in {TABLE.name}"
            assert count <= known[what], f"{row}; if it must be so, write the table again"
            if count < known[what]:
                warnings.warn(f"{row}: lower it there", stacklevel=1)


@pytest.mark.parametrize("name", [DENSE, CONVOLUTIONAL, TEXT])
@pytest.mark.parametrize("algorithm", [one for one in fedlib.list_algorithms() if one != "fedavg"])
def test_every_method_goes_through(name: str, algorithm: str) -> None:
    run = configured(name, algorithm)
    rounds = rehearse([run], rounds=2)
    checked(rounds)
    first, second = (len(seen.uploads) for seen in rounds)
    # One for each phase; in the second round maybe no client is new and makes its memory.
    always = 1 + run.method.measures
    assert first == always + run.method.remembers and always <= second <= first


@pytest.mark.parametrize("optimizer", CLIENT_OPTIMIZERS)
def test_every_client_optimizer_goes_through(optimizer: str) -> None:
    run = configured(DENSE, "fedavg", client_optimizer=optimizer)
    assert len(checked(rehearse([run])).uploads) == 1


def test_a_grid_is_sent_as_one_run_is_and_chunks_one_by_one() -> None:
    grid = [configured(DENSE, "fedadam", client_lr=rate) for rate in (0.01, 0.1, 1.0)]
    assert len(checked(rehearse(grid)).uploads) == 1
    assert len(checked(rehearse(grid, chunk_clients=1)).uploads) == 2


def test_batches_that_are_gathered_one_by_one_are_not_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(feed, "GATHER_BYTES", 0)
    assert len(checked(rehearse([configured("cifar10", "fedavg")])).uploads) == 1
    # The words of posts are read on the host, for one step after the other here.
    assert len(checked(rehearse([configured("stackoverflow_lr", "fedavg")])).uploads) == 1 + 2


def on_device(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, device=DEVICE)


MISTAKES: dict[str, tuple[str, Callable[[], object]]] = {
    "item": ("host sync", lambda: on_device(1).item()),
    "if": ("host sync", lambda: bool(on_device(2).any())),
    "cpu": ("host sync", lambda: on_device(2).cpu()),
    "nonzero": ("host sync", lambda: on_device(2).nonzero()),
    "masked": ("host sync", lambda: on_device(2)[on_device(2) > 0]),
    "product": ("two devices", lambda: on_device(2, 3) @ torch.zeros(3, 2)),
    "sum": ("two devices", lambda: on_device(2) + torch.zeros(2)),
    "joined": ("two devices", lambda: torch.cat([on_device(2), torch.zeros(2)])),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_seen(name: str) -> None:
    message, mistake = MISTAKES[name]
    with pytest.raises(Mistake, match=message), watched(Seen()):
        mistake()


def test_a_loss_that_waits_is_found_in_a_round() -> None:
    task = fedlib.load_task(DENSE, **OPTIONS[DENSE])
    plain = task.loss

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        each = plain(outputs, targets)
        return each * float(each.detach().sum()) if each.device == DEVICE else each

    task.loss = loss
    with pytest.raises(Mistake, match=r"host sync: aten\._local_scalar_dense"):
        rehearse([configure(task, "fedavg", rounds=1, clients_per_round=2)])


def test_uploads_and_kernels_are_counted() -> None:
    seen, x, place = Seen(), on_device(4, 3), torch.tensor([0, 1])
    with watched(seen):
        torch.zeros(2).to(DEVICE)
        on_device(2).copy_(torch.zeros(2))
        torch.tensor([1.0, 2.0], device=DEVICE)
        x[place], x[[0, 1]]
        x[place] = x[:2]
        torch.as_tensor([1.0, 2.0], device=DEVICE)
    assert len(seen.uploads) == 7
    seen = Seen()
    with watched(seen):
        y = (x.view(3, 4).t()[1:] * torch.tensor(2.0)).sum()  # a view, a product, a sum
        torch.empty_like(y)
        torch.zeros(3).sum()
    assert (seen.uploads, seen.kernels) == ([], 2)


def main() -> None:
    lines = [
        "# Operations of a task's longest local step (views aside), and uploads of its round; see",
        "# test_rehearsal.py. The networks' layers count, not their width.",
        f'torch = "{TORCH}"',
    ]
    for name in fedlib.list_tasks():
        lines += ["", f"[{name}]"]
        for method in METHODS:
            found = numbers(name, method)
            row = ", ".join(f"{what} = {count}" for what, count in found.items())
            lines.append(f"{method} = {{ {row} }}")
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
