"""``fedlib run`` and ``fedlib grid``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fedlib.cli.options import (
    Backend,
    Cohort,
    DataRoot,
    Device,
    Dtype,
    Json,
    Preset,
    Rounds,
    Seed,
    Set,
    TaskOptions,
    announce,
    columns,
    parse_pairs,
    parse_value,
    progress,
    show,
    store_root,
)
from fedlib.errors import Error


def run(
    task: Annotated[str, typer.Argument(help="Task; see 'fedlib list tasks'.")],
    algorithm: Annotated[str, typer.Argument(help="Algorithm; see 'fedlib list algorithms'.")],
    preset: Preset = "quick",
    rounds: Rounds = None,
    seed: Seed = 0,
    device: Device = "auto",
    backend: Backend = "auto",
    dtype: Dtype = "float32",
    eval_every: Annotated[int, typer.Option(help="Rounds between evaluations.")] = 1,
    clients_per_round: Cohort = None,
    set_: Set = None,
    option: TaskOptions = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Train again although it is stored.")
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Train one algorithm on one task and store the run; a stored run is answered from disk."""
    from fedlib.results import Store
    from fedlib.tasks import load_task

    overrides = parse_pairs(set_, "--set")
    loaded = load_task(task, preset, seed, data_root, **parse_pairs(option, "--option"))
    announce(loaded, as_json)
    store = Store(store_root(data_root))
    history = store.run(
        loaded,
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
    names = history.frame[["split", "metric"]].drop_duplicates().itertuples(index=False)
    values = {
        f"{split} {metric}": {
            "last": history.series(metric, split).iloc[-1],
            "final": history.final(metric, split),
        }
        for split, metric in names
    }
    config = history.config
    result = {
        "task": task,
        "algorithm": algorithm,
        "digest": config.digest,
        "stand_in": history.stand_in,
        "rounds": config.rounds,
        "diverged": history.diverged,
        "seconds": history.meta["seconds"],
        "last": {name: value["last"] for name, value in values.items()},
        "final": {name: value["final"] for name, value in values.items()},
    }
    rows: list[tuple[Any, ...]] = [("", "last", f"last {history.window()} rounds")]
    rows += [(name, f"{v['last']:.4f}", f"{v['final']:.4f}") for name, v in values.items()]
    state = f"diverged in round {history.diverged}" if history.diverged else "done"
    took = f"{config.rounds} rounds in {history.meta['seconds']:.1f} s"
    text = f"{algorithm} on {task}: {state}, {took}, run {config.digest}\n{columns(rows)}"
    show(result, as_json, text)


def grid(
    task: Annotated[str, typer.Argument(help="Task; see 'fedlib list tasks'.")],
    algorithm: Annotated[str, typer.Argument(help="Algorithm; see 'fedlib list algorithms'.")],
    axes: Annotated[
        list[str],
        typer.Argument(help="KEY=V1,V2,... for each axis, e.g. client_lr=0.01,0.1 server_lr=1,10."),
    ],
    preset: Preset = "quick",
    rounds: Rounds = None,
    seed: Seed = 0,
    device: Device = "auto",
    backend: Backend = "auto",
    dtype: Dtype = "float32",
    clients_per_round: Cohort = None,
    set_: Set = None,
    option: TaskOptions = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Train all combinations of hyperparameters as one batched program, and store every run."""
    from fedlib.results import Store
    from fedlib.tasks import load_task

    parsed: dict[str, Any] = {}
    for axis in axes:
        key, sign, values = axis.partition("=")
        if not sign or not values:
            raise Error(f"axis {axis!r} is not KEY=V1,V2,...; for instance client_lr=0.01,0.1")
        parsed[key] = [parse_value(value) for value in values.split(",")]
    loaded = load_task(task, preset, seed, data_root, **parse_pairs(option, "--option"))
    announce(loaded, as_json)
    frame = Store(store_root(data_root)).grid(
        loaded,
        algorithm,
        rounds=rounds,
        seed=seed,
        device=device,
        backend=backend,
        dtype=dtype,
        clients_per_round=clients_per_round,
        overrides=parse_pairs(set_, "--set"),
        progress=progress(as_json),
        **parsed,
    )
    last = frame[(frame["split"] == "test") & (frame["round"] == frame["round"].max())]
    metric = "accuracy" if "accuracy" in set(last["metric"]) else "loss"
    names = list(parsed)
    cells = last[last["metric"] == metric].set_index(names)["value"]
    table = cells.unstack(names[-1]) if len(names) > 1 else cells.to_frame(metric)
    show(
        frame.to_dict("records"),
        as_json,
        f"test {metric} after the last round (diverged: empty)\n{table.to_string(na_rep='')}",
    )
