"""``fedlib sweep`` and ``fedlib publish``: the runs that the notebooks' plans need."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlib.cli.options import Backend, DataRoot, Device, Json, Parameters, Preset, Seed
from fedlib.cli.terminal import parse_pairs, show, store_root
from fedlib.errors import Error, require, unknown

if TYPE_CHECKING:
    import pandas as pd

    from fedlib.reproduction.answers import RunGroup

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
        str, typer.Option(metavar="I/N", help="Only the I-th of N shares of the programs.")
    ] = "1/1",
    executor: Annotated[str, typer.Option(help="local or slurm.")] = "local",
    jobs: Annotated[int, typer.Option(help="slurm: how many jobs, a shard each.")] = 1,
    slurm: Annotated[
        list[str] | None,
        typer.Option(
            "--slurm", metavar="KEY=VALUE", help="slurm: e.g. partition=gpu, gres=gpu:1, time=600."
        ),
    ] = None,
    device: Device = "auto",
    backend: Backend = "auto",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count.")] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Compute the missing runs of the notebooks' plans.

    Stopped at any moment, the same command goes on where it was. Runs that train together stay in
    one shard.
    """
    from fedlib.reproduction import sweep
    from fedlib.reproduction.answers import survey
    from fedlib.results import Store

    number, of = _shard(shard)
    given = parse_pairs(parameter, "--parameter")
    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ("local", "slurm"))
    plans = sweep.plans(names or (), preset, seed, given, part or ())
    if executor == "slurm" and not dry_run:
        if of > 1:
            raise Error("--shard and --executor slurm do not go together; give --jobs N")
        _submit(jobs, parse_pairs(slurm, "--slurm"), as_json, data_root)
        return
    store = Store(store_root(data_root))
    requests = [request for requests in plans.values() for request in requests]
    groups = survey(store, requests, preset, data_root)[number - 1 :: of]
    facts: dict[str, Any] = {"shard": shard}
    failed: list[str] = []
    if not dry_run:
        failed = sweep.train(
            store, groups, preset, data_root, as_json, device=device, backend=backend
        )
        facts["failed"] = failed
        groups = survey(store, requests, preset, data_root)[number - 1 :: of]
    counts = _counts(groups)
    show({**facts, **counts.loc["all"].to_dict()}, as_json, counts.to_string())
    if failed:
        typer.echo(f"fedlib: {len(failed)} programs failed: {' | '.join(failed)}", err=True)
        raise typer.Exit(1)


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
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


def _submit(jobs: int, options: dict[str, Any], as_json: bool, data_root: Path | None) -> None:
    """One Slurm job per shard, each the same command with ``--shard`` instead."""
    try:
        import submitit
    except ImportError:
        raise Error(
            "--executor slurm needs submitit: pip install 'fedlib[slurm]'; or start the shards "
            "yourself with --shard I/N"
        ) from None
    from fedlib.paths import project_root

    require(jobs >= 1, "--jobs", jobs, "a whole number >= 1")
    words = _without(sys.argv[1:], ("--executor", "--jobs", "--slurm"))
    folder = store_root(data_root) / ".slurm"
    try:
        executor = submitit.AutoExecutor(folder=folder, cluster="slurm")
        if options:
            executor.update_parameters(**{f"slurm_{key}": value for key, value in options.items()})
        ids = []
        for number in range(1, jobs + 1):
            command = [sys.executable, "-m", "fedlib", *words, "--shard", f"{number}/{jobs}"]
            run = submitit.helpers.CommandFunction(command, cwd=project_root())
            ids.append(str(executor.submit(run).job_id))
    except (RuntimeError, ValueError, TypeError, OSError) as problem:
        raise Error(f"Slurm did not take the jobs: {problem}") from None
    text = f"{jobs} jobs submitted: {', '.join(ids)}; their output lies in {folder}"
    show({"jobs": ids, "folder": str(folder)}, as_json, text)


def _without(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """A command line without some options and their values."""
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in names:
            skip = True
        elif word.split("=")[0] not in names:
            kept.append(word)
    return kept


def publish(
    names: Annotated[list[str], typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10.")],
    preset: Preset = "quick",
    seed: Seed = 0,
    parameter: Parameters = None,
    part: Parts = None,
    name: Annotated[
        str | None, typer.Option(help="Of the archive; default the notebook's.")
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
            made.append(sweep.publish(store, results, notebook, name or notebook, groups, partial))
    text = "\n".join(
        f"{archive['notebook']}: {archive['runs']} runs, {archive['bytes'] / 1e3:.0f} kB, "
        f"{archive['path']}" + (f" ({archive['missing']} missing)" if archive["missing"] else "")
        for archive in made
    )
    show(made, as_json, text)
