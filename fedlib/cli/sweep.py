"""``fedlib sweep`` and ``fedlib publish``: the runs that the notebooks' plans need."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlib.cli.options import (
    Backend,
    DataRoot,
    Device,
    Json,
    Preset,
    Seed,
    columns,
    parse_pairs,
    show,
    store_root,
)
from fedlib.errors import Error, unknown

if TYPE_CHECKING:
    from fedlib.reproduction.answers import Program
    from fedlib.reproduction.request import Request

Notebooks = Annotated[
    list[str] | None, typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10; default all.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="KEY=VALUE", help="Notebook parameter. Repeatable."),
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
    from fedlib.reproduction import answers
    from fedlib.results import Store

    number, of = _shard(shard)
    given = parse_pairs(parameter, "--parameter")
    if executor not in ("local", "slurm"):
        raise unknown("executor", executor, ("local", "slurm"))
    requests = [one for _, one in _requests(names, preset, seed, given, part)]
    if executor == "slurm" and not dry_run:
        if of > 1:
            raise Error("--shard and --executor slurm do not go together; give --jobs N")
        _submit(jobs, parse_pairs(slurm, "--slurm"), as_json, data_root)
        return
    store = Store(store_root(data_root))
    programs = answers.shard(answers.survey(store, requests, preset, data_root), number, of)
    if dry_run:
        show(_count(programs, shard), as_json, _table(programs))
        return
    failed = _train(store, programs, preset, device, backend, as_json, data_root)
    done = answers.shard(answers.survey(store, requests, preset, data_root), number, of)
    show({**_count(done, shard), "failed": failed}, as_json, _table(done))
    if failed:
        typer.echo(f"fedlib: {len(failed)} programs failed: {' | '.join(failed)}", err=True)
        raise typer.Exit(1)


def _requests(
    names: Sequence[str] | None,
    preset: str,
    seed: int,
    given: dict[str, Any],
    parts: Sequence[str] | None,
) -> list[tuple[str, Request]]:
    """The requests of the notebooks' plans, each with its notebook."""
    from fedlib.reproduction import experiments, reproduce
    from fedlib.tasks import PRESETS

    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if seed < 0:
        raise Error(f"seed is {seed}; allowed: a whole number >= 0")
    planned = experiments.planned()
    chosen: list[str] = []
    for name in names or planned:
        stem = Path(name).stem
        found = [one for one in planned if one == stem or one.split("_")[0] == stem]
        if not found:
            raise unknown("notebook with a plan", name, planned)
        chosen += [one for one in found if one not in chosen]
    if given:
        for path in reproduce.notebooks(chosen):
            reproduce.check_parameters(path, given)
    every = [
        (name, one) for name in chosen for one in experiments.plan(name, preset, seed, **given)
    ]
    known = dict.fromkeys(one.part for _, one in every)
    for part in parts or ():
        if part not in known:
            raise unknown("part of these plans", part, known)
    return [(name, one) for name, one in every if not parts or one.part in parts]


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of:
        raise Error(f"--shard is {text!r}; allowed: I/N with 1 <= I <= N, for instance 1/8")
    return number, of


def _count(programs: Sequence[Program], shard: str) -> dict[str, Any]:
    runs = sum(len(program.digests) for program in programs)
    missing = sum(program.missing for program in programs)
    return {
        "shard": shard,
        "programs": len(programs),
        "programs_missing": sum(program.missing > 0 for program in programs),
        "runs": runs,
        "stored": runs - missing,
        "missing": missing,
    }


def _table(programs: Sequence[Program]) -> str:
    """Programs and runs, by task."""
    tasks: dict[str, list[Program]] = {}
    for program in programs:
        tasks.setdefault(program.requests[0].task, []).append(program)
    rows: list[tuple[Any, ...]] = [("task", "programs", "missing", "runs", "stored", "missing")]
    for task, own in [*tasks.items(), ("all", list(programs))]:
        count = _count(own, "")
        keys = ("programs", "programs_missing", "runs", "stored", "missing")
        rows.append((task, *(count[key] for key in keys)))
    return columns(rows)


def _train(
    store: Any,
    programs: Sequence[Program],
    preset: str,
    device: str,
    backend: str,
    as_json: bool,
    data_root: Path | None,
) -> list[str]:
    """Train what is missing, program after program; returns what failed, a line each."""
    from tqdm import tqdm

    from fedlib.reproduction.answers import answer
    from fedlib.reproduction.request import task_key
    from fedlib.tasks import load_task

    last: dict[str, Any] = {}

    def load(name: str, **options: Any) -> Any:
        key = task_key(name, options)
        if key not in last:  # programs of a task follow each other
            last.clear()
            last[key] = load_task(name, data_root=data_root, **options)
        return last[key]

    failed = []
    missing = [program for program in programs if program.missing]
    quiet = as_json or None  # None: shown on a terminal only
    for program in tqdm(missing, unit="program", disable=quiet, dynamic_ncols=True):
        first = program.requests[0]
        try:
            answer(store, program.requests, preset, load, device=device, backend=backend)
        except Exception as problem:  # the other programs do not depend on this one
            line = " ".join(str(problem).split()) or type(problem).__name__
            failed.append(f"{first.algorithm} on {first.task}: {line}")
    return failed


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

    if jobs < 1:
        raise Error(f"--jobs is {jobs}; allowed: a whole number >= 1")
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
    from fedlib.results import Store

    store, results = Store(store_root(data_root)), to or project_root() / "data" / "results"
    unplanned = _without_plan(names)
    planned = [name for name in names if name not in unplanned]
    given = parse_pairs(parameter, "--parameter")
    notebooks: dict[str, list[Request]] = {}
    for notebook, request in _requests(planned, preset, seed, given, part) if planned else ():
        notebooks.setdefault(notebook, []).append(request)
    notebooks |= {notebook: [] for notebook in unplanned.values()}
    if name is not None and (len(notebooks) > 1 or not re.fullmatch(r"[a-z0-9_]+", name)):
        raise Error(f"--name is {name!r}; allowed: a-z, 0-9 and _, and one notebook only")
    made = []
    for notebook, requests in notebooks.items():
        made.append(
            _publish(
                store, results, notebook, name or notebook, requests, preset, partial, data_root
            )
        )
    text = "\n".join(
        f"{one['notebook']}: {one['runs']} runs, {one['bytes'] / 1e3:.0f} kB, {one['path']}"
        + (f" ({one['missing']} missing)" if one["missing"] else "")
        for one in made
    )
    show(made, as_json, text)


def _without_plan(names: Sequence[str]) -> dict[str, str]:
    """Those of the names that are of notebooks without a plan, and these notebooks."""
    from fedlib.reproduction import experiments, reproduce

    planned = experiments.planned()
    every = [path.stem for path in reproduce.notebooks() if path.stem not in planned]
    return {
        name: stem
        for name in names
        for stem in every
        if Path(name).stem in (stem, stem.split("_")[0])
    }


def _publish(
    store: Any,
    results: Path,
    notebook: str,
    name: str,
    requests: Sequence[Request],
    preset: str,
    partial: bool,
    data_root: Path | None,
) -> dict[str, Any]:
    from fedlib.reproduction import answers, draw, memory
    from fedlib.results.archives import write_archive

    programs = answers.survey(store, requests, preset, data_root)
    missing = sum(program.missing for program in programs)
    if missing and not partial:
        raise Error(
            f"{missing} runs of {notebook} are not stored; run: fedlib sweep {notebook} "
            "(or publish what there is with --partial)"
        )
    digests = [
        digest
        for program in programs
        for digest, there in zip(program.digests, program.stored, strict=True)
        if there
    ]
    clients_of: set[str] = set()
    drawn = []
    for entry in draw.entries():
        tasks = [task for task, maker in entry.notebooks.items() if maker == notebook]
        drawn.append((entry, memory.known(store, entry, tasks)))
        digests += [digest for runs in drawn[-1][1].runs.values() for digest in runs]
        clients_of |= set(tasks if entry.clients else ())
    histories = [store.load(digest, params=False) for digest in dict.fromkeys(digests)]
    archive = write_archive(results, name, histories, clients_of)
    for entry, remembered in drawn:
        memory.publish(results, entry, remembered)
    return {
        "notebook": notebook,
        "path": str(archive),
        "runs": len(histories),
        "missing": missing,
        "bytes": archive.stat().st_size,
    }
