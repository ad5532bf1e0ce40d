"""``fedlib run`` and ``fedlib grid``."""

from __future__ import annotations

import inspect
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlib.cli import options
from fedlib.cli.terminal import columns, parse_axes, parse_pairs, progress, show, store_root
from fedlib.errors import Error

if TYPE_CHECKING:
    from fedlib.task import Task


def run(
    task: options.TaskName,
    algorithm: options.AlgorithmName,
    preset: options.Preset = "quick",
    rounds: options.Rounds = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    dtype: options.Dtype = "float32",
    eval_every: Annotated[int, typer.Option(help="Rounds between evaluations.")] = 1,
    clients_per_round: options.Cohort = None,
    set_: options.Set = None,
    option: options.TaskOptions = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Train again although it is stored.")
    ] = False,
    as_json: options.Json = False,
    data_root: options.DataRoot = None,
) -> None:
    """Train one algorithm on one task and store the run; a stored run is answered from disk."""
    from fedlib.results import Store

    _look_here(task, algorithm)
    overrides = parse_pairs(set_, "--set")
    history = Store(store_root(data_root)).run(
        _load(task, preset, seed, data_root, option, as_json),
        algorithm,
        rounds=rounds,
        seed=seed,
        device=device,
        backend=backend,
        dtype=dtype,
        eval_every=eval_every,
        clients_per_round=clients_per_round,
        overrides=overrides,
        progress=progress(as_json),
        refresh=refresh,
    )
    last, final = {}, {}
    for split, metric in history.frame[["split", "metric"]].drop_duplicates().to_numpy():
        last[f"{split} {metric}"] = history.series(metric, split).iloc[-1]
        final[f"{split} {metric}"] = history.final(metric, split)
    config, seconds = history.config, history.meta["seconds"]
    result = {
        "task": task,
        "algorithm": algorithm,
        "digest": config.digest,
        "stand_in": history.stand_in,
        "rounds": config.rounds,
        "diverged": history.diverged,
        "seconds": seconds,
        "last": last,
        "final": final,
    }
    rows: list[tuple[Any, ...]] = [("", "last", f"last {history.window()} rounds")]
    rows += [(name, f"{value:.4f}", f"{final[name]:.4f}") for name, value in last.items()]
    state = f"diverged in round {history.diverged}" if history.diverged else "done"
    took = f"{config.rounds} rounds in {seconds:.1f} s"
    text = f"{algorithm} on {task}: {state}, {took}, run {config.digest}\n{columns(rows)}"
    show(result, as_json, text)


def grid(
    task: options.TaskName,
    algorithm: options.AlgorithmName,
    axes: Annotated[
        list[str],
        typer.Argument(help="KEY=V1,V2,... for each axis, e.g. client_lr=0.01,0.1 server_lr=1,10."),
    ],
    preset: options.Preset = "quick",
    rounds: options.Rounds = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    backend: options.Backend = "auto",
    dtype: options.Dtype = "float32",
    clients_per_round: options.Cohort = None,
    set_: options.Set = None,
    option: options.TaskOptions = None,
    as_json: options.Json = False,
    data_root: options.DataRoot = None,
) -> None:
    """Train all combinations of hyperparameters as one batched program, and store every run."""
    from fedlib.engine import grid as fedlib_grid
    from fedlib.results import Store

    _look_here(task, algorithm)
    overrides = parse_pairs(set_, "--set")
    settings = (*inspect.signature(fedlib_grid).parameters, "keep_params", "refresh")
    parsed = parse_axes(axes, overrides, settings)
    frame = Store(store_root(data_root)).grid(
        _load(task, preset, seed, data_root, option, as_json),
        algorithm,
        rounds=rounds,
        seed=seed,
        device=device,
        backend=backend,
        dtype=dtype,
        clients_per_round=clients_per_round,
        overrides=overrides,
        progress=progress(as_json),
        **parsed,
    )
    last = frame[(frame["split"] == "test") & (frame["round"] == frame["round"].max())]
    metric = "accuracy" if "accuracy" in set(last["metric"]) else "loss"
    names = list(parsed)
    cells = last[last["metric"] == metric].set_index(names)["value"]
    table = cells.unstack(names[-1]) if len(names) > 1 else cells.to_frame(metric)
    text = f"test {metric} after the last round (diverged: empty)\n{table.to_string(na_rep='')}"
    show(frame.to_dict("records"), as_json, text)


def _look_here(*names: str) -> None:
    """Find ``MODULE:NAME`` from the current folder, as ``python -m`` does."""
    if any(":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _load(
    name: str,
    preset: str,
    seed: int,
    data_root: Path | None,
    option: list[str] | None,
    as_json: bool,
) -> Task:
    """The task, which people are told about."""
    from fedlib.tasks import load_task

    given = parse_pairs(option, "--option")
    for key in inspect.signature(load_task).parameters:
        if key in given:
            raise Error(f"--option {key} is no option of a task; use --{key.replace('_', '-')}")
    task = load_task(name, preset, seed, data_root, **given)
    if not as_json:
        typer.echo(repr(task))
    return task
