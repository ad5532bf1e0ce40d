"""``fedlib sweep``, ``publish`` and ``restore``: the runs that the notebooks' plans need."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlib.cli.options import Backend, DataRoot, Device, Json, Parameters, Preset, Seed
from fedlib.cli.terminal import columns, parse_pairs, show, store_root
from fedlib.errors import Error, require, unknown

if TYPE_CHECKING:
    import pandas as pd

    from fedlib.reproduction.answers import RunGroup
    from fedlib.reproduction.request import Request
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count; with slurm, print the jobs' script.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="What is done, running, failed; computes nothing.")
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option("--estimate", help="Time some rounds, and say how many hours are missing."),
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Compute the missing runs of the notebooks' plans.

    Stopped at any moment, the same command goes on where it was. Runs that train together stay in
    one shard. With --executor slurm, one job array computes the shards, a job each.
    """
    from fedlib.reproduction import sweep
    from fedlib.reproduction.answers import survey
    from fedlib.results import Store

    number, of = _shard(shard)
    given = parse_pairs(parameter, "--parameter")
    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ("local", "slurm"))
    options = parse_pairs(slurm, "--slurm", str)
    require(jobs >= 1, "--jobs", jobs, "a whole number >= 1")
    if executor == "local" and (options or jobs > 1):
        raise Error("--jobs and --slurm belong to --executor slurm; add it, or leave them out")
    if executor == "slurm" and of > 1:
        raise Error("--shard and --executor slurm do not go together; give --jobs N")
    if status + dry_run + estimate > 1:
        raise Error("--status, --dry-run and --estimate do not go together; give one of them")
    if estimate and (executor == "slurm" or of > 1):
        raise Error("--estimate is for all programs on this machine, without --shard and slurm")
    plans = sweep.plans(names or (), preset, seed, given, part or ())
    store = Store(store_root(data_root))
    if estimate:
        _estimate(store, plans, preset, data_root, as_json, device=device, backend=backend)
        return
    requests = [request for requests in plans.values() for request in requests]
    groups = survey(store, requests, preset, data_root)[number - 1 :: of]
    if status:
        _status(store.root, groups, as_json)
        return
    if executor == "slurm":
        words = ["sweep", *(names or ()), "--preset", preset, "--seed", str(seed)]
        for option, values in (("--parameter", parameter), ("--part", part)):
            words += [f"{option}={value}" for value in values or ()]
        words += ["--device", device, "--backend", backend]
        words += ["--data-root", str(store.root.parent.resolve())]
        _submit(words, jobs, options, groups, store.root, dry_run, as_json)
        return
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


def _estimate(
    store: Store,
    plans: Mapping[str, Sequence[Request]],
    preset: str,
    data_root: Path | None,
    as_json: bool,
    **execution: str,
) -> None:
    """Hours of the missing runs by notebook; a run that two notebooks share counts for both."""
    from fedlib.reproduction import sweep
    from fedlib.reproduction.answers import survey

    hours = {}
    for notebook, requests in plans.items():
        groups = survey(store, requests, preset, data_root)
        hours[notebook] = sweep.estimated_hours(groups, preset, data_root, as_json, **execution)
        if not as_json:
            typer.echo(f"{notebook:30} {hours[notebook]:8.2f} hours")
    show({**hours, "all": sum(hours.values())}, as_json, f"{'all':30} {sum(hours.values()):8.2f}")


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


def _submit(
    words: Sequence[str],
    jobs: int,
    options: dict[str, str],
    groups: Sequence[RunGroup],
    store: Path,
    dry_run: bool,
    as_json: bool,
) -> None:
    """One job array, a job per shard, but no more jobs than programs."""
    from fedlib.reproduction import slurm

    jobs = min(jobs, len(groups))
    missing = sum(group.missing for group in groups)
    text = slurm.script(words, jobs, store, options)
    if dry_run:
        show({"jobs": jobs, "missing": missing, "script": text}, as_json, text.rstrip())
        return
    if not missing:
        show(
            {"job": None, "jobs": 0, "missing": 0}, as_json, "nothing to submit: no run is missing"
        )
        return
    job = slurm.submit(text, jobs, groups, store)
    logs = slurm.folder(store)
    show(
        {"job": job, "jobs": jobs, "missing": missing, "logs": str(logs)},
        as_json,
        f"job {job} submitted: an array of {jobs} for {missing} runs; logs in {logs}; "
        "the same command with --status says how it stands",
    )


def _status(store: Path, groups: Sequence[RunGroup], as_json: bool) -> None:
    """Counts, and the Slurm jobs that were submitted for these runs."""
    from fedlib.reproduction import slurm

    wanted = {digest for group in groups for digest in group.digests}
    submitted = [job for job in slurm.submitted(store) if wanted & set(job.digests)]
    answers = slurm.states(submitted) if submitted else {}
    if answers is None:
        typer.echo("fedlib: Slurm does not answer; what its jobs do is not known", err=True)
    stored = {
        digest
        for group in groups
        for digest, there in zip(group.digests, group.stored, strict=True)
        if there
    }
    job_of = slurm.latest(submitted, answers)
    now = {digest: "missing" for digest in wanted - stored}
    jobs = []
    for job in submitted:
        runs = [digest for digest in job.digests if digest in wanted and job_of[digest] == job]
        lacking = [digest for digest in runs if digest not in stored]
        if runs:
            state = slurm.state(job, len(lacking), answers)
            now |= dict.fromkeys(lacking, state)
            word = (answers or {}).get(job.id)
            jobs.append(
                {
                    **{"job": job.id, "shard": job.shard, "state": state, "slurm": word},
                    **{"runs": len(runs), "stored": len(runs) - len(lacking), "log": str(job.log)},
                }
            )
    totals = _counts(groups).loc["all"].to_dict()
    for state in ("running", "waiting", "failed", "unknown"):
        totals[state] = list(now.values()).count(state)
    rows = [tuple(jobs[0]), *(tuple(job.values()) for job in jobs)] if jobs else []
    parts = [columns([tuple(totals), tuple(totals.values())]), columns(rows)]
    show({**totals, "jobs": jobs}, as_json, "\n\n".join(part for part in parts if part))


def publish(
    names: Annotated[list[str], typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10.")],
    preset: Preset = "quick",
    seed: Seed = 0,
    parameter: Parameters = None,
    part: Parts = None,
    name: Annotated[
        str | None, typer.Option(help="Of the archive; default the notebook's, with the preset.")
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
        typer.Argument(
            help="Archives, e.g. 24_mime_emnist_laptop, or 24 for all of it; default all."
        ),
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
    from fedlib.results import archives

    folder = source or project_root() / "data" / "results"
    paths: dict[str, list[Path]] = {}  # of one name: plain and compressed
    for path in archives.archives(folder):
        paths.setdefault(path.name.partition(".")[0], []).append(path)
    if not paths:
        raise Error(f"no published runs in {folder}")
    restored = []
    for name in named(names or (), paths, "archive"):
        for path in paths[name]:
            new, runs = archives.restore(path, store_root(data_root))
            restored.append({"archive": name, "restored": new, "runs": runs})
    text = "\n".join(
        f"{x['archive']}: {x['restored']} of {x['runs']} runs restored" for x in restored
    )
    show(restored, as_json, text)
