"""``fedlib sweep``, ``publish`` and ``restore``: the runs that the notebooks' plans need."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedlib.cli.options import Backend, DataRoot, Device, Json, Parameters, Preset, Seed
from fedlib.cli.terminal import parse_pairs, show, store_root
from fedlib.errors import Error, require, unknown

if TYPE_CHECKING:
    import pandas as pd

    from fedlib.reproduction.answers import RunGroup
    from fedlib.results import Store

Notebooks = Annotated[
    list[str] | None, typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10; default all.")
]
Parts = Annotated[
    list[str] | None, typer.Option("--part", help="Only this part of the plans. Repeatable.")
]


def sweep(
    names: Notebooks = None,
    preset: Preset = "quick",
    seed: Seed = 0,
    parameter: Parameters = None,
    part: Parts = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Only the I-th of N shares of the programs.")
    ] = None,
    executor: Annotated[str, typer.Option(help="local or slurm.")] = "local",
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes, a shard each; local: default one per GPU."),
    ] = None,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            "--slurm", metavar="KEY=VALUE", help="slurm: e.g. partition=gpu, gres=gpu:1, time=600."
        ),
    ] = None,
    device: Device = "auto",
    backend: Backend = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count; with slurm, print the jobs' script.")
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Compute the missing runs of the notebooks' plans.

    Stopped at any moment, the same command goes on where it was. Runs that train together stay in
    one shard. Each GPU of this machine computes a shard, or each of --jobs parts of its cores; with
    --executor slurm each job of an array does.
    """
    from fedlib.reproduction import executors, sweep
    from fedlib.reproduction.answers import dealt, survey
    from fedlib.results import Store

    number, of = _shard(shard)
    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ("local", "slurm"))
    if slurm and executor == "local":
        raise Error("--slurm belongs to --executor slurm; add it, or leave --slurm out")
    if shard and (jobs or executor == "slurm"):
        raise Error("--shard is one process's; leave it out, or --jobs and --executor slurm")
    gpus = _gpus(device, jobs) if executor == "local" and not shard else 0
    plans = sweep.plans(
        names or (), preset, seed, parse_pairs(parameter, "--parameter"), part or ()
    )
    requests = [request for requests in plans.values() for request in requests]
    store = Store(store_root(data_root))
    groups = survey(store, requests, preset, data_root)
    words = ["sweep", *(names or ()), f"--preset={preset}", f"--seed={seed}", f"--device={device}"]
    words += [*(f"--parameter={pair}" for pair in parameter or ()), f"--backend={backend}"]
    words += [*(f"--part={each}" for each in part or ()), f"--data-root={_root(store)}"]
    shards = min(jobs or gpus or 1, len(groups))
    if executor == "slurm":
        text = executors.script(words, shards, store.root, parse_pairs(slurm, "--slurm", str))
        missing = sum(group.missing for group in groups)
        told = {"jobs": shards, "missing": missing, "script": text}
        if missing and not dry_run:
            told["job"] = executors.submit(text, store.root)
            text = f"job {told['job']}: an array of {shards} for {missing} runs; logs in "
            text += str(store.root / ".slurm")
        show(told, as_json, text if missing or dry_run else "nothing to submit: no run is missing")
        return
    failed: list[str] | bool = []
    if not dry_run and shards > 1:
        failed = not executors.local(words, dealt(groups, shards), gpus, store, as_json)
    elif not dry_run:
        mine = dealt(groups, of)[number - 1]
        execution = {"device": device, "backend": backend}
        failed = sweep.train(store, mine, preset, data_root, as_json, **execution)
    counts = _counts(dealt(survey(store, requests, preset, data_root), of)[number - 1])
    facts = {"shard": f"{number}/{of}", "failed": failed, **counts.loc["all"].to_dict()}
    show(facts, as_json, counts.to_string())
    if failed:
        if isinstance(failed, list):
            typer.echo(f"fedlib: {len(failed)} programs failed: {' | '.join(failed)}", err=True)
        raise typer.Exit(1)


def _root(store: Store) -> Path:
    return store.root.parent.resolve()


def _gpus(device: str, jobs: int | None) -> int:
    """How many GPUs compute a shard each; 0: this process does, or the cores do."""
    import torch

    from fedlib.engine.device import resolve_device

    resolve_device(device)
    if device not in ("auto", "cuda"):
        return 0
    there = torch.cuda.device_count()
    if jobs and there and jobs > there:
        raise Error(f"--jobs is {jobs}, but here are {there} GPUs; give less, or --device cpu")
    return (jobs or there) if there else 0


def _shard(text: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text or "1/1")
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    require(1 <= number <= of, "--shard", text, "I/N with 1 <= I <= N, for instance 1/8")
    return number, of


def _counts(groups: Sequence[RunGroup]) -> pd.DataFrame:
    """Programs and runs by task, and all of them in the last row."""
    import pandas as pd

    rows = [
        {
            "task": group.requests[0].task,
            "programs": 1,
            "programs_missing": int(group.missing > 0),
            "runs": len(group.digests),
            "stored": sum(group.stored),
            "missing": group.missing,
        }
        for group in groups
    ]
    columns = ["task", "programs", "programs_missing", "runs", "stored", "missing"]
    counts = pd.DataFrame(rows, columns=columns).groupby("task", sort=False).sum()
    counts.loc["all"] = counts.sum()
    return counts


def publish(
    names: Annotated[list[str], typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10.")],
    preset: Preset = "quick",
    seed: Seed = 0,
    parameter: Parameters = None,
    part: Parts = None,
    name: Annotated[
        str | None, typer.Option(help="Of the file; default the notebook's, with the preset.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Folder of published runs; default data/results.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Publish what there is, though runs are missing.")
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Pack the stored runs of notebooks' plans, and what figures were drawn from, for git.

    Of a notebook without a plan, what its figures were drawn from.
    """
    from fedlib.paths import project_root
    from fedlib.reproduction import experiments, sweep
    from fedlib.reproduction.answers import survey
    from fedlib.reproduction.reproduce import named, notebooks
    from fedlib.results import Store

    store, results = Store(store_root(data_root)), to or project_root() / "data" / "results"
    planned = experiments.planned()
    chosen = named(names, sorted({*planned, *(path.stem for path in notebooks())}))
    if name is not None and (len(chosen) > 1 or not re.fullmatch(r"[a-z0-9_]+", name)):
        raise Error(f"--name is {name!r}; allowed: a-z, 0-9 and _, and one notebook only")
    with_plan = [notebook for notebook in chosen if notebook in planned]
    given = parse_pairs(parameter, "--parameter")
    plans = sweep.plans(with_plan, preset, seed, given, part or ()) if with_plan else {}
    made = []
    for notebook in chosen:
        if notebook in plans or notebook not in planned:
            groups = survey(store, plans.get(notebook, []), preset, data_root)
            named_so = name or (notebook if preset == "quick" else f"{notebook}_{preset}")
            parts = {}
            if partial:
                parts = sweep.stored_parts(store, plans.get(notebook, []), preset, data_root)
            packed = sweep.publish(
                store, results, notebook, named_so, groups, preset, partial, parts
            )
            made.append(packed)
    text = "\n".join(
        f"{archive['notebook']}: {archive['runs']} runs, {archive['bytes'] / 1e3:.0f} kB, "
        f"{archive['path']}" + (f" ({archive['missing']} missing)" if archive["missing"] else "")
        for archive in made
    )
    show(made, as_json, text)


def restore(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Files, e.g. 24_mime_emnist_laptop, or 24 for all of it; default all."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="Folder of published runs; default data/results."),
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Put published runs into the store, for notebooks and sweeps to go on from.

    They are stored without parameters: what needs those is trained again.
    """
    from fedlib.paths import project_root
    from fedlib.reproduction.reproduce import named
    from fedlib.results import published, store

    folder = source or project_root() / "data" / "results"
    store.refuse_old(folder)
    paths = {path.stem: path for path in store.run_files(folder)}
    if not paths:
        raise Error(f"no published runs in {folder}")
    restored = []
    for name in named(names or (), paths, "archive"):
        new, runs = published.restore(paths[name], store_root(data_root))
        restored.append({"archive": name, "restored": new, "runs": runs})
    text = "\n".join(
        f"{x['archive']}: {x['restored']} of {x['runs']} runs restored" for x in restored
    )
    show(restored, as_json, text)
