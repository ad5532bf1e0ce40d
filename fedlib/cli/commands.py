"""The commands: their arguments, calls and output."""

from __future__ import annotations

import ast
import inspect
import json
import logging
import math
import os
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from fedlib import files, paths
from fedlib.errors import Error, Failure, require, require_known

if TYPE_CHECKING:
    import pandas as pd

    from fedlib.results import Store
    from fedlib.task import Task

UsageError, Interrupted = typer.TyperException, typer.Abort

# ------------------------------------------------------- arguments and options of several commands

Several = list[str] | None
HERE = "or MODULE:NAME of yours in this folder"
TaskName = Annotated[str, typer.Argument(help=f"Task, see 'fedlib list tasks', {HERE}.")]
AlgorithmName = Annotated[str, typer.Argument(help=f"See 'fedlib list algorithms', {HERE}.")]
Names = Annotated[Several, typer.Argument(help="Notebooks, e.g. 10. Default: all.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print comma-separated values, all columns.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataRoot = Annotated[Path | None, typer.Option(help="Data. Default: $FEDLIB_DATA, else data/.")]
Preset = Annotated[str, typer.Option(help="quick (small problems), laptop (real data) or paper.")]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds. Default: the preset's.")]
Seed = Annotated[int, typer.Option(help="Seed of partition, initialisation, sampling and batches.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Backend = Annotated[str, typer.Option(help="auto, vectorized, parallel or plain.")]
Dtype = Annotated[str, typer.Option(help="float32, float64 or, on CUDA, tf32.")]
Minutes = Annotated[float | None, typer.Option(min=0, help="Stop in time, with status 75.")]
Cohort = Annotated[int | None, typer.Option(help="Clients per round. Default: the task's.")]
_pairs = partial(typer.Option, metavar="KEY=VALUE")  # these may be repeated
Set = Annotated[Several, _pairs("--set", help="E.g. client_lr=0.03. Repeatable.")]
TaskOptions = Annotated[Several, _pairs("--option", help="E.g. width=0.5. Repeatable.")]
Parameters = Annotated[Several, _pairs("-p", "--parameter", help="E.g. rounds=9. Repeatable.")]
Parts = Annotated[Several, typer.Option("--part", help="Only this part of the plans. Repeatable.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a prepared copy.")]


class _Command(typer.core.TyperCommand):
    """A command whose words are valid. Only then are slow modules imported."""

    imports_torch = True

    def invoke(self, ctx: Any) -> Any:
        try:
            if self.imports_torch:
                import fedlib.engine  # noqa: F401
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # Typer would end without a message
            raise Interrupted from stop


class _Light(_Command):
    imports_torch = False


app = typer.Typer(
    help="Federated optimization in PyTorch, and four papers reproduced with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
data = typer.Typer(help="Data sets: what is there, prepare, import.", no_args_is_help=True)
app.add_typer(data, name="data")

# -------------------------------------------------------------------------------- words and values


def parse_value(text: str) -> Any:
    """A number, true, false, none, a JSON list, or else the text itself.

    >>> [parse_value(text) for text in ("1", "1e-3", "true", "None", "[1, 2]", "sgdm")]
    [1, 0.001, True, None, [1, 2], 'sgdm']
    """
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for convert in (int, float, json.loads):
        try:
            return convert(text)
        except (ValueError, RecursionError):  # json fails on brackets nested by the thousand
            continue
    return text


PAIR = "KEY=VALUE, for instance client_lr=0.03"
AXIS = "KEY=V1,V2,..., for instance client_lr=0.01,0.1"


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """``["client_lr=0.03"]`` -> ``{"client_lr": 0.03}``. For an axis, a list of several values.

    Raises:
        Error: a word has another form, or a key is given twice.
    """
    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        key, value = key.strip(), value.strip()
        if not key or not (value if option == "axis" else sign):
            raise Error(f"{option} {pair!r} is not {AXIS if option == 'axis' else PAIR}")
        if key in values:
            raise Error(f"{option} {key} is given twice: give it once")
        listed = [parse_value(part) for part in re.split(r",(?![^[]*\])", value)]
        values[key] = listed if option == "axis" else parse_value(value)
        if (option, key) == ("--option", "version"):  # always a text
            values[key] = value
    return values


def show(value: Any, as_json: bool, text: str) -> None:
    """Print a value for programs or its text for people."""
    typer.echo(json.dumps(_plain(value), indent=2, default=str) if as_json else text)


def _plain(value: Any) -> Any:
    """A value in a form that JSON can represent, with numbers that are not finite as null."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


WIDTH = 100  # length of a line for a reader


def columns(rows: Sequence[Sequence[Any]]) -> str:
    """Rows as aligned columns. The last column is wrapped if it is too wide."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    margin = sum(widths[:-1]) + 2 * len(widths[:-1])
    lines = []
    for *before, last in cells:
        pairs = zip(before, widths, strict=False)
        start = "".join(f"{cell.ljust(width)}  " for cell, width in pairs)
        wrapped = textwrap.wrap(last, WIDTH - margin, break_long_words=False) or [""]
        lines += [f"{start}{wrapped[0]}".rstrip(), *(" " * margin + more for more in wrapped[1:])]
    return "\n".join(lines)


def progress(as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def open_store(data_root: Path | None) -> Store:
    """The store of runs under a data folder."""
    from fedlib.results import Store
    from fedlib.results.files import Unreadable

    Unreadable.places.clear()  # forget the findings of another command of this process
    return Store(paths.folder(paths.data_root(data_root) / "runs"))


def tell_damage() -> None:
    """Print how many files of runs were damaged or could not be read, and where, in one line. If
    there are any, the exit status is 1.
    """
    from fedlib.results.files import Unreadable

    if Unreadable.places:
        many = f"{len(Unreadable.places)} damaged or unreadable files of runs were left out: "
        typer.echo("fedlib: " + many + "; ".join(Unreadable.places), err=True)
        raise typer.Exit(1)


# ------------------------------------------------------------------------------------ what there is


@app.command("list", cls=_Light)
def list_(
    what: Annotated[str, typer.Argument(help="tasks, algorithms, data or figures.")] = "all",
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """List tasks, algorithms, data sets or figures.

    The list is read from the declarations, as importing them takes PyTorch, and seconds.
    """
    tasks = paths.read_toml("tasks/tasks.toml")
    for task in tasks.values():
        del task["module"]
    kinds: dict[str, dict[str, dict[str, str]]] = {
        "tasks": tasks,
        "algorithms": {name: {"about": _first_line(name)} for name in _methods()},
        "data": _data_sets(paths.data_root(data_root) / "prepared"),
        "figures": _figures(),
    }
    require_known("list", what, [*kinds, "all"])
    chosen = kinds if what == "all" else {what: kinds[what]}
    blocks = []
    for kind, entries in chosen.items():
        rows = [(f"  {name}", entry["about"]) for name, entry in entries.items()]
        rows = rows or [("  none here: they belong to a checkout", "")]
        blocks.append(f"{kind}\n{columns(rows)}")
    show(kinds if what == "all" else kinds[what], as_json, "\n\n".join(blocks))


def _methods() -> list[str]:
    """The names in ``fedlib.algorithms.METHODS``."""
    text = resources("fedlib").joinpath("algorithms", "__init__.py").read_text("utf-8")
    return re.findall(r'"(\w+)":', text.partition("\nMETHODS")[2].partition("}")[0])


def _first_line(method: str) -> str:
    """The description in the module of a method, which has the method's name."""
    text = resources("fedlib").joinpath("algorithms", f"{method}.py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].split(": ", 1)[-1]


def _data_sets(prepared: Path) -> dict[str, dict[str, str]]:
    """The catalogue's data sets and those that are prepared here, by name."""
    catalogue = paths.read_toml("datasets/catalogue.toml")
    known = {name: entry["title"] for name, entry in catalogue.items()}
    named = {}
    for folder in prepared.glob("[!.]*/") if prepared.is_dir() else ():
        try:
            title = json.loads((folder / "card.json").read_text("utf-8"))["title"]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            title = known.get(folder.name, "(its card is broken)")
        named[folder.name] = f"{title} (prepared)"
    return {name: {"about": about} for name, about in sorted((known | named).items())}


def _figures() -> dict[str, dict[str, str]]:
    """The papers' figures and tables, with the notebooks of this checkout that draw them."""
    drawn: dict[str, list[str]] = {}
    for path in sorted((paths.project_root() / "notebooks").glob("[!9]*.ipynb")):
        ids = re.findall(r'\\"([a-z_]+/(?:figure|table)_\w+)\\"', path.read_text("utf-8"))
        for id in dict.fromkeys(ids):
            drawn.setdefault(id, []).append(path.stem)
    return {id: {"about": f"by {', '.join(names)}"} for id, names in drawn.items()}


# -------------------------------------------------------------------------------- fedlib data ...


@data.command("list", cls=_Command)
def data_list(
    verify: Annotated[bool, typer.Option("--verify", help="Hash prepared data again.")] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """List known data sets: which are prepared, their size, how to get them, and whose laptop runs
    they serve. With --verify all prepared data are read and compared with their cards.
    """
    from fedlib import datasets
    from fedlib.datasets.catalogue import editions

    notebooks = _needed((), "laptop") if (paths.project_root() / "notebooks").is_dir() else {}
    cards: list[dict[str, Any]] = []
    usual = "unchanged" if verify else "yes"
    rows = [("name", "prepared", "size", "fedlib data ...", "laptop runs of notebooks; or tasks")]
    for name in datasets.names(data_root):
        known = list(editions(name).values())
        opens = {item.name: notebooks.get(item.name, []) for item in known}
        card = datasets.info(name, data_root)
        card |= {"editions": {item.name: item.size for item in known}, "notebooks": opens}
        if verify and card["prepared"]:
            datasets.verify(name, data_root)
            card["verified"] = True
        cards.append(card)
        state = "stand-in" if card.get("stand_in_is") else "no"
        state = "broken" if "error" in card else usual if card["prepared"] else state
        size = f"{card['bytes'] / 1e6:.1f} MB" if "bytes" in card else "-"
        tasks = ", ".join(card.get("tasks", ())) or "-"
        ways = [(f"prepare {item.name} ({item.size / 1e6:,.0f} MB)", item.name) for item in known]
        other = "-" if card.get("built_in") else f"import {name} FILE"
        # A prepared copy is listed beside its edition.
        own = card.get("edition") if card.get("edition") in opens else next(iter(opens), "")
        for way, edition in ways or [(other, "")]:
            numbers = " ".join(notebook[:2] for notebook in opens.get(edition, ()))
            shown = (state, size) if edition == own else ("", "")
            rows.append((name, *shown, way, numbers or tasks))
            name = tasks = ""
    show(cards, as_json, columns(rows))


def _needed(names: Sequence[str], preset: str) -> dict[str, list[str]]:
    """The editions of data sets that notebooks' runs need, each with these notebooks."""
    from fedlib import plans
    from fedlib.reproduction import forecast

    return forecast.editions(plans.by_notebook(names, preset, 0, {}), preset)


@data.command("prepare", cls=_Command)
def data_prepare(
    name: Annotated[str | None, typer.Argument(help="E.g. mnist, see 'fedlib data list'.")] = None,
    preset: Annotated[str | None, typer.Option(help="All that its runs need.")] = None,
    notebook: Annotated[Several, typer.Option(help="All its laptop runs need. Repeatable.")] = None,
    overwrite: Overwrite = False,
    from_folder: Annotated[Path | None, typer.Option("--from", help="Folder of the files.")] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Download a data set, check its SHA-256, and prepare it, or all data sets that some runs need.

    With --from, files that were downloaded by hand are used: see data/README.md.
    """
    from fedlib import datasets

    if (name is None) == (preset is None and not notebook):
        raise Error("give a data set, or --preset laptop, or --notebook 12")
    if name is None:
        if overwrite:
            raise Error("--overwrite is for one data set: give its name")
        needed = _needed(notebook or (), preset or "laptop")
        _prepare_all(needed, from_folder, as_json, data_root)
        return
    how = {"overwrite": overwrite, "progress": progress(as_json)}
    card = datasets.prepare(name, data_root, from_folder=from_folder, **how)
    show(card, as_json, f"prepared {name}: {_content(card)}")


def _prepare_all(
    needed: dict[str, list[str]], folder: Path | None, as_json: bool, data_root: Path | None
) -> None:
    """Prepare missing data sets, after listing their cost."""
    from fedlib import datasets
    from fedlib.datasets.catalogue import editions
    from fedlib.datasets.fetching import Absent
    from fedlib.datasets.preparing import prepare_all

    known, there = editions(), {}
    for card in datasets.prepared(data_root):
        there[card["name"]] = card.get("edition", "a copy of yours")
    missing = [known[name] for name in needed if known[name].data not in there]
    rows = [("data", "MB", "", "for notebooks")]
    for name, notebooks in needed.items():
        held = there.get(known[name].data)
        state = "to prepare" if held is None else "prepared"
        state += f" ({held})" if held not in (None, name) else ""
        size, numbers = f"{known[name].size / 1e6:,.0f}", " ".join(n[:2] for n in notebooks)
        rows.append((name, size, state, numbers))
    total = sum(item.size for item in missing) / 1e6
    typer.echo(f"{columns(rows)}\n{total:,.0f} MB of files to read", err=as_json)
    how: dict[str, Any] = {"from_folder": folder, "progress": progress(as_json)}
    cards: list[dict[str, Any]] = []
    problems: list[str] = []
    for item, made in prepare_all(missing, data_root, **how):
        if isinstance(made, dict):
            cards.append(made)
            typer.echo(f"prepared {item.name}: {_content(made)}", err=as_json)
        elif folder and not item.recipe and isinstance(made, Absent):
            what = f"left out {item.name}, which has no recipe: {made}. Put it there and give the"
            ways = f"same command again, or 'fedlib data prepare {item.name}' with a network"
            typer.echo(f"{what} {ways}", err=True)
        else:
            problems.append(f"{item.name}: {made}")
    show(
        cards,
        as_json,
        f"{len(cards)} data sets prepared, {len(needed) - len(missing)} were already",
    )
    if problems:
        raise Failure(" | ".join(problems))


def _content(card: dict[str, Any]) -> str:
    """A data set's counts and fingerprint."""
    counts = ", ".join(f"{count:,} {what}" for what, count in card["counts"].items())
    return f"{counts.replace('_', ' ')}, sha256 {card['fingerprint'][:16]}..."


@data.command("import", cls=_Command)
def data_import(
    name: Annotated[str, typer.Argument(help="Name for it, e.g. cifar10 or one of your own.")],
    file: Annotated[Path, typer.Argument(help="A .npz or .jsonl file, or LEAF's folder.")],
    overwrite: Overwrite = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Import a copy of a data set. A bad file is refused as a whole.

    A file is .npz (arrays) or .jsonl (texts), a folder has LEAF's JSON. See data/README.md.
    """
    from fedlib import datasets

    card = datasets.import_file(name, file, data_root, overwrite)
    show(card, as_json, f"imported {name} from {card['file']}: {_content(card)}")


# ------------------------------------------------------------------------------------ run and grid


@app.command(cls=_Command)
def run(
    task: TaskName,
    algorithm: AlgorithmName,
    preset: Preset = "quick",
    rounds: Rounds = None,
    seed: Seed = 0,
    device: Device = "auto",
    backend: Backend = "auto",
    dtype: Dtype = "float32",
    eval_every: Annotated[int, typer.Option(help="Rounds between evaluations.")] = 1,
    eval_last: Annotated[int, typer.Option(help="Last rounds that are evaluated each.")] = 1,
    clients_per_round: Cohort = None,
    set_: Set = None,
    option: TaskOptions = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Train again, stored or not.")] = False,
    minutes: Minutes = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Train one algorithm on one task. A stored run is read from disk.

    On several devices: torchrun --nproc-per-node N -m fedlib run ...
    """
    from fedlib import engine
    from fedlib.engine import ranks
    from fedlib.engine.checkpoint import Deadline

    ranks.join(device)
    quiet = as_json or ranks.number() > 0
    settings: dict[str, Any] = {"rounds": rounds, "seed": seed, "dtype": dtype}
    settings |= {"eval_every": eval_every, "eval_last": eval_last}
    settings["clients_per_round"] = clients_per_round
    execution: dict[str, Any] = {"device": device, "backend": backend, "refresh": refresh}
    execution["deadline"] = None if minutes is None else Deadline(60 * minutes)
    _look_here(task, algorithm)
    _require_device(device, backend)
    settings["overrides"] = parse_pairs(set_, "--set")
    loaded = _load(task, preset, seed, data_root, option, quiet)
    asked = engine.configure(loaded, algorithm, **settings)
    digest = asked.config.digest  # so that a run without a valid name is refused before training
    store = open_store(data_root)
    (history,) = store.answer([asked], progress=progress(quiet), **execution)
    if ranks.number() > 0:
        return
    last, final = {}, {}
    for split, metric in history.frame[["split", "metric"]].drop_duplicates().to_numpy():
        last[f"{split} {metric}"] = history.series(metric, split).iloc[-1]
        final[f"{split} {metric}"] = history.final(metric, split)
    config, seconds = history.config, history.meta["seconds"]
    result: dict[str, Any] = {"task": task, "algorithm": algorithm, "digest": digest}
    result |= {"stand_in": history.stand_in, "rounds": config.rounds, "diverged": history.diverged}
    result |= {"seconds": seconds, "last": last, "final": final}
    rows: list[tuple[str, ...]] = [("", "last", f"last {history.window()} rounds")]
    rows += [(name, f"{value:.4f}", f"{final[name]:.4f}") for name, value in last.items()]
    if history.window() == 1:  # the last value again
        rows = [row[:2] for row in rows]
    state = f"diverged in round {history.diverged}" if history.diverged else "done"
    took = f"{config.rounds} rounds in {seconds:.1f} s"
    text = f"{algorithm} on {task}: {state}, {took}, run {digest}\n{columns(rows)}"
    show(result, as_json, text)


@app.command(cls=_Command)
def grid(
    task: TaskName,
    algorithm: AlgorithmName,
    axes: Annotated[list[str], typer.Argument(help="KEY=V1,V2,..., e.g. client_lr=0.1,1.")],
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
    """Train a grid of hyperparameters together. Every run is stored."""
    from fedlib import engine
    from fedlib.results.store import Keywords

    settings: dict[str, Any] = {"rounds": rounds, "seed": seed, "device": device}
    settings |= {"backend": backend, "dtype": dtype, "progress": progress(as_json)}
    _look_here(task, algorithm)
    _require_device(device, backend)
    overrides = parse_pairs(set_, "--set")
    settings |= {"clients_per_round": clients_per_round, "overrides": overrides}
    parsed = parse_pairs(axes, "axis")
    for key in parsed:
        if key in overrides:
            raise Error(f"axis {key} is given twice, also as --set: give it once")
        if key in (*inspect.signature(engine.grid).parameters, *Keywords.__annotations__, "self"):
            raise Error(f"axis {key} is no hyperparameter: a grid has one {key} for all its runs")
    loaded = _load(task, preset, seed, data_root, option, as_json)
    frame = open_store(data_root).grid(loaded, algorithm, **settings, **parsed)
    ends, names = frame[frame["split"] == "test"], list(parsed)
    metric = "accuracy" if "accuracy" in set(ends["metric"]) else "loss"
    ends = ends[ends["metric"] == metric]
    whole = ends["value"].where(ends["diverged"].isna())
    keys = [ends[name].astype(object).where(ends[name].notna(), "none") for name in names]
    cells = whole.groupby(keys, sort=False).last()
    table = cells.unstack(names[-1]) if len(names) > 1 else cells.to_frame(metric)
    text = f"test {metric} after the last round (diverged: empty)\n{table.to_string(na_rep='')}"
    show(frame.to_dict("records"), as_json, text)


def _require_device(device: str, backend: str = "auto") -> None:
    """Require an available device, and a backend, even if nothing trains."""
    from fedlib.engine.device import resolve_device
    from fedlib.engine.program import require_backend

    resolve_device(device)
    require_backend(backend)


def _look_here(*names: str) -> None:
    """Find ``MODULE:NAME`` from the current folder, as ``python -m`` does."""
    if any(":" in name for name in names) and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def _load(
    name: str, preset: str, seed: int, data_root: Path | None, option: list[str] | None, quiet: bool
) -> Task:
    """The task, with a line about it for people."""
    from fedlib.tasks import load_task

    given = parse_pairs(option, "--option")
    others = {"preset": "use --preset", "seed": "use --seed", "data_root": "use --data-root"}
    for key, instead in {**others, "name": "rename your function's"}.items():
        if key in given:
            raise Error(f"--option {key} is no option of a task: {instead}")
    task = load_task(name, preset, seed, data_root, **given)
    if not quiet:
        typer.echo(repr(task))
    return task


# -------------------------------------------------------- the notebooks' runs, computed and packed


@app.command(cls=_Command)
def sweep(
    names: Names = None,
    preset: Preset = "quick",
    seed: Seed = 0,
    parameter: Parameters = None,
    part: Parts = None,
    shard: Annotated[str | None, typer.Option(help="I/N: the I-th of N shares only.")] = None,
    executor: Annotated[str, typer.Option(help="local or slurm.")] = "local",
    jobs: Annotated[int | None, typer.Option(min=1, help="Shards. Default: one per GPU.")] = None,
    device: Device = "auto",
    backend: Backend = "auto",
    minutes: Minutes = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, without data.")] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Compute the missing runs of the notebooks' plans.

    If it is stopped at any moment, the same command continues. With --minutes it stops by itself,
    before a round that would take longer. The exit status is then 75. Runs that train together stay
    in one shard. Each GPU of this machine computes a shard, or several with --jobs. Without GPUs
    the cores are shared among --jobs. With --executor slurm the script of an array is printed, with
    one job per shard, on a GPU unless --device says otherwise: pipe it to sbatch.
    """
    from fedlib import plans
    from fedlib.engine.checkpoint import PAUSED, Deadline
    from fedlib.engine.device import described
    from fedlib.engine.program import require_backend
    from fedlib.reproduction import forecast, sweep
    from fedlib.reproduction.answers import counted, dealt, survey

    deadline = None if minutes is None else Deadline(60 * minutes)
    number, of = _shard(shard)
    require_known("executor", executor, ("local", "slurm"))
    if shard and executor == "slurm":
        raise Error("--shard is for one process: leave it out, or --executor slurm")
    require_backend(backend)
    here = executor == "local" and not dry_run
    seen = _gpus(device) if here else 0  # refuses an unavailable device
    gpus = 0 if shard else seen
    given = parse_pairs(parameter, "--parameter")
    asked = plans.by_notebook(names or (), preset, seed, given, part or ())
    requests = [request for requests in asked.values() for request in requests]
    store = open_store(data_root)
    if dry_run:
        groups = forecast.survey(requests, preset)
        share = dealt(groups, of)[number - 1]
        frame = forecast.table(share, forecast.stored(share, store, preset), preset, data_root)
        tasks = json.loads(frame.to_json(orient="index"))
        facts = {"shard": f"{number}/{of}", "failed": [], **tasks.pop("all"), "tasks": tasks}
        return show(facts, as_json, forecast.words(frame, preset).to_string())
    groups = survey(requests, preset, data_root)
    shards = 1 if shard else min(jobs or gpus or 1, len(groups))
    asked_for = "cuda" if (executor, device) == ("slurm", "auto") else device
    # A shard is this command again: of an option that is given twice the last counts.
    words = [*sys.argv[1:], "--executor=local", f"--device={asked_for}"]
    words += [f"--data-root={store.root.parent.resolve()}"]
    if executor == "slurm":
        text = sweep.script(words, shards, store.root)
        stored = store.paths()
        missing = sum(group.missing(stored) for group in groups)
        return show({"jobs": shards, "missing": missing, "script": text}, as_json, text)
    share = dealt(groups, of)[number - 1]
    stored = store.paths()
    if any(group.missing(stored) for group in share):  # before anything is said
        files.require_writable(store.root)
    if not as_json:
        together = f", {shards} programs at once" if shards > 1 else ""
        typer.echo(f"fedlib: training on {described(device)}{together}", err=True)
        if not sys.stderr.isatty():
            logging.getLogger("fedlib.progress").setLevel(logging.INFO)
    if shards > 1:
        failed, paused = sweep.local(words, dealt(groups, shards), gpus, store, as_json)
    else:
        execution = {"device": device, "backend": backend, "deadline": deadline}
        failed, paused = sweep.train(store, share, preset, data_root, as_json, **execution)
    counts = counted(share, store.paths()).groupby("task", sort=False).sum()
    counts.loc["all"] = counts.sum()
    facts = {"shard": f"{number}/{of}", "failed": failed, "paused": paused}
    show(facts | counts.loc["all"].to_dict(), as_json, counts.to_string())
    if failed:
        what = "shards" if shards > 1 else "programs"
        typer.echo(f"fedlib: {len(failed)} {what} failed: {' | '.join(failed)}", err=True)
        raise typer.Exit(1)
    if paused:
        left = f"{counts.loc['all', 'missing']} runs are left"
        typer.echo(f"fedlib: {paused}. {left}. The same command continues", err=True)
        raise typer.Exit(PAUSED)


def _shard(text: str | None) -> tuple[int, int]:
    match = re.fullmatch(r"([0-9]+)/([0-9]+)", text or "1/1")
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    require(1 <= number <= of, "--shard", text, "I/N with 1 <= I <= N, for instance 1/8")
    return number, of


def _gpus(device: str) -> int:
    """The number of GPUs that compute shards. 0: this process or the cores do."""
    import torch

    from fedlib.engine.device import resolve_device

    resolve_device(device)
    return torch.cuda.device_count() if device in ("auto", "cuda") else 0


@app.command(cls=_Command)
def publish(
    names: Annotated[list[str], typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10.")],
    preset: Preset = "quick",
    seed: Seed = 0,
    parameter: Parameters = None,
    part: Parts = None,
    name: Annotated[str | None, typer.Option(help="The file. Default: the notebook's.")] = None,
    to: Annotated[Path | None, typer.Option(help="Folder. Default: data/results.")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="Though runs are missing.")] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Pack the stored runs of notebooks' plans, for git."""
    from fedlib import plans
    from fedlib.reproduction import sweep
    from fedlib.reproduction.answers import survey

    store, results = open_store(data_root), to or paths.project_root() / "data" / "results"
    given, made = parse_pairs(parameter, "--parameter"), []
    asked = plans.by_notebook(names, preset, seed, given, part or ())
    if name is not None and (len(asked) > 1 or not re.fullmatch(r"[a-z0-9_]+", name)):
        raise Error(f"--name is {name!r} (allowed: a-z, 0-9 and _, and one notebook only)")
    plan = {notebook: survey(requests, preset, data_root) for notebook, requests in asked.items()}
    if not partial:
        sweep.require_stored(plan, store, preset)
    for notebook, groups in plan.items():
        file = name or (notebook if preset == "quick" else f"{notebook}_{preset}")
        made.append(sweep.publish(store, results, notebook, file, groups))
    lines = []
    for packed in made:
        left = f" ({packed['missing']} missing)" if packed["missing"] else ""
        size = f"{packed['runs']} runs, {packed['bytes'] / 1e3:.0f} kB"
        lines.append(f"{packed['notebook']}: {size}, {packed['path']}{left}")
    show(made, as_json, "\n".join(lines))


@app.command(cls=_Command)
def repeat(
    names: Annotated[Several, typer.Argument(help="Notebooks or files of data/results.")] = None,
    preset: Annotated[str | None, typer.Option(help="quick, laptop, paper. Default: all.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="A sample that fits.")] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="Size of a sample.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the sample.")] = 0,
    device: Device = "auto",
    source: Annotated[Path | None, typer.Option("--from", help="Default: data/results.")] = None,
    to: Annotated[Path | None, typer.Option(help="Also write the table, .md or .csv.")] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Train published runs again from scratch and compare their numbers.

    It repeats all runs of some notebooks, or a random sample. The default is a sample of ten
    minutes, by the runs' own seconds. Each trains alone, on the kind of device that it was made on.
    Nothing is stored. The exit status is 1 if one differs. If interrupted, it prints its results so
    far.
    """
    from fedlib.reproduction import repeat as runner

    if to is not None and to.suffix not in (".md", ".csv"):
        raise Error(f"--to is {to}: give a file named .md or .csv")
    asked = runner.published(
        source or paths.project_root() / "data" / "results", names or (), preset
    )
    kinds, on = runner.devices(device)
    possible, left_out = runner.possible(asked, kinds, data_root)
    if not names and minutes is None and runs is None:
        minutes = 10
    chosen = possible
    if minutes is not None or runs is not None:
        chosen = runner.sample(possible, seed, runs, minutes)
    report = runner.Report(len(asked), left_out, chosen)
    if not chosen:
        raise Error(f"nothing to repeat: {' | '.join(report.left_out_lines()) or 'no run fits'}")
    if not as_json:
        typer.echo(report.heading())
    stopped = None
    try:
        report.follow(runner.repeat(chosen, data_root, on), quiet=as_json)
    except KeyboardInterrupt as stop:
        stopped = stop
    if to is not None:
        report.write(to)
    show(report.as_dict(), as_json, "\n".join(report.summary()))
    if stopped is not None:
        raise stopped
    if report.differing():
        raise typer.Exit(1)


# ------------------------------------------------- notebooks, figures, and the papers beside ours


@app.command(cls=_Command)
def reproduce(
    names: Names = None,
    preset: Preset = "quick",
    parameter: Parameters = None,
    output: Annotated[Path | None, typer.Option(help="Default build/executed.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Notebooks at once, of a thread each.")] = 1,
) -> None:
    """Execute the notebooks headlessly. Their figures are saved in figures/PRESET/."""
    from fedlib.reproduction import reproduce as runner

    given = parse_pairs(parameter, "--parameter")
    total = len(runner.notebooks(names or ()))
    failed = []
    series = runner.reproduce(names or (), preset, given, output, jobs=jobs)
    for count, done in enumerate(series, 1):
        state = f"FAILED: {done.error}" if done.error else "ok"
        typer.echo(f"[{count}/{total}] {done.name}  {done.seconds:.1f} s  {state}")
        if done.error:
            failed.append(done.name)
            typer.echo(f"        see {done.output}", err=True)
    if failed:
        typer.echo(f"{len(failed)} of {total} notebooks failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


@app.command(cls=_Command)
def figures(
    ids: Annotated[Several, typer.Argument(help="E.g. fedopt/figure_1. Default: all.")] = None,
    preset: Annotated[str | None, typer.Option(help="Preset of the runs. Default: above.")] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Redraw figures and tables from stored runs, without training.

    By default each is drawn from laptop or paper, whichever has more of its tasks and runs, and
    from quick if neither has any. They are saved in figures/PRESET/ (or in the folder of
    FEDLIB_FIGURES). The plan cells of this checkout's notebooks, whose code is run, name the runs.
    """
    from fedlib.reproduction import draw

    try:
        drawn = list(map(str, draw.redraw(ids or None, open_store(data_root), preset=preset)))
    except Error:
        tell_damage()  # the figure may have been drawn from damaged files
        raise
    show(drawn, as_json, "\n".join(drawn))
    tell_damage()


@app.command(cls=_Command)
def compare(
    paper: Annotated[str | None, typer.Argument(help="E.g. fedopt. Default: all.")] = None,
    as_json: Json = False,
    as_csv: Csv = False,
    data_root: DataRoot = None,
) -> None:
    """Every number of the papers beside ours, from stored runs.

    The plan cells of this checkout's notebooks, whose code is run, name the runs.
    """
    from fedlib.reproduction.compare import cells
    from fedlib.reproduction.tables import find
    from fedlib.results.files import Unreadable

    printed = find(paper)
    store = open_store(data_root)
    runs = store.stored(published=True)
    frame = cells(runs, printed)
    if not runs and not Unreadable.places:
        raise Error(
            f"no runs are stored in {store.root}, and the published ones are not here: they come "
            "with a checkout of fedlib, so run this in one"
        )
    if as_csv and not as_json:
        typer.echo(frame.assign(runs=frame["runs"].map(" ".join)).to_csv(index=False).rstrip())
    elif as_json:
        show(json.loads(frame.to_json(orient="records")), as_json, "")
    else:
        typer.echo(_beside_print(frame))
    tell_damage()


def _beside_print(frame: pd.DataFrame) -> str:
    """A comparison's tables, in the papers' layout."""
    from fedlib.figures import tables

    blocks = [tables.LEGEND]
    for (source, item), part in frame.groupby(["paper", "item"], sort=False):
        shown = tables.in_text(part.rename(columns={"row": "method"}))
        over = tables.averaged(part)
        over = f" (ours: {over})" if over else ""
        heads = textwrap.wrap(f"{source}, {item}{over}: {_agreement(part)}", 100)
        blocks.append("\n".join([*heads, shown]))
    return "\n\n".join([*blocks, "\n".join(textwrap.wrap(f"All: {_agreement(frame)}", 100))])


def _agreement(frame: pd.DataFrame) -> str:
    """The number of papers' numbers, of compared ones, and of each outcome."""
    counts = frame["outcome"].value_counts()
    agree, differ, open_ = (counts.get(name, 0) for name in ("agrees", "differs", "cannot be told"))
    known = f"{len(frame)} printed numbers, {(frame['seeds'] > 0).sum()} with runs"
    if not agree + differ + open_:
        return f"{known}, none compared"
    return (
        f"{known}, {agree + differ + open_} compared, {agree + differ} decisive: {agree} agree, "
        f"{differ} differ; {open_} cannot be told"
    )


@app.command(cls=_Command)
def claims(
    ids: Annotated[Several, typer.Argument(help="E.g. fedopt-cifar10. Default: all.")] = None,
    preset: Preset = "quick",
    stored: Annotated[bool, typer.Option("--stored", help="Train nothing.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="First seed. The notebooks use 0.")] = 0,
    device: Device = "auto",
    on_print: Annotated[bool, typer.Option("--printed", help="Judge the papers' numbers.")] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """The papers' claims, with a verdict on each.

    A claim holds, does not hold, is not resolved, or was not run. The quick preset trains missing
    runs. The runs of other presets are long, and all runs of a method must be stored already. The
    plan cells of this checkout's notebooks, whose code is run, name the runs.
    """
    from fedlib.reproduction.claims import chosen, judge, printed
    from fedlib.tasks.presets import require_preset

    require_preset(preset)
    _require_device(device)
    store = open_store(data_root)
    if on_print:
        verdicts = [printed(claim["id"]) for claim in chosen(ids or ())]
    else:
        how: dict[str, Any] = {"device": device, "progress": not as_json}
        train = preset == "quick" and not stored
        verdicts = judge(ids or (), preset, store, seed=seed, train=train, **how)
    counts = Counter(verdict.verdict for verdict in verdicts)
    total = ", ".join(f"{count} {word}" for word, count in counts.items())
    lines = [line for verdict in verdicts for line in (*verdict.words(), "")]
    text = "\n".join([*lines, f"{len(verdicts)} claims: {total}"])
    show([verdict.as_dict() for verdict in verdicts], as_json, text)
    tell_damage()


@app.command(cls=_Command)
def score(
    method: Annotated[str, typer.Argument(help="Your MODULE:METHOD, or a known name.")],
    tune: Annotated[
        list[str] | None, typer.Option(help="client_lr, server_lr. Default: both.")
    ] = None,
    set_: Set = None,
    device: Device = "auto",
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """A method beside others on five small problems, all tuned by one rule, with paired seeds.

    The others are trained the first time, and then read from the store. Your method tries every
    pair of rates that any of them tries, for three seeds. The score is its mean lead over FedAvg in
    percentage points. A class without a version is trained again each time.
    """
    from fedlib.reproduction import score as scoring

    _look_here(method)
    _require_device(device)
    logging.getLogger("fedlib.unstored").setLevel(logging.ERROR)  # the help already says it
    how: dict[str, Any] = {"device": device, "progress": progress(as_json)}
    store, overrides = open_store(data_root), parse_pairs(set_, "--set")
    frame = scoring.score(method, store, overrides, tune or (), **how)
    means = scoring.table(frame)
    yours, text = means.loc[scoring.YOURS], means.round(1).to_string(index_names=False)
    lines = [text, "", f"Test accuracy or recall in percent, {frame['seed'].nunique()} seeds."]
    chosen = frame[frame["method"] == scoring.YOURS].drop_duplicates("task")
    for row in chosen.to_dict("records"):
        rates = ", ".join(f"{rate} {row[rate]:.3g}" for rate in scoring.RATES if row[rate])
        edge = f" (the end of what was tried: {row['edge']})" if row["edge"] else ""
        lines.append(f"{row['task']}: {rates}, of {row['settings']:.0f} settings{edge}")
    lines.append(
        f"{method} leads FedAvg by {yours['lead']:.1f} points (95 % interval over the seeds: "
        f"{yours['low']:.1f} to {yours['high']:.1f})."
    )
    records = {"score": yours[["lead", "low", "high"]].to_dict(), "rows": frame.to_dict("records")}
    show(records, as_json, "\n".join(lines))
    tell_damage()


# ------------------------------------------------------------------------------------------ doctor


@app.command(cls=_Command)
def doctor(
    device: Device = "auto",
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """What fedlib finds here: versions, device, data, stored runs.

    It reads every stored and published run. The exit status is 1 if one is damaged.
    """
    import platform

    import torch

    from fedlib import datasets
    from fedlib.results.files import Unreadable, installed

    _require_device(device)
    store = open_store(data_root)
    store.check()
    packages = ("fedlib", "torch", "torchvision", "numpy", "pandas", "papermill")
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU that torch sees"
    facts: dict[str, Any] = {
        **{package: installed(package) or "not installed" for package in packages},
        "python": platform.python_version(),
        "cuda": gpu,
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
        "data root": str(paths.data_root(data_root)),
        "prepared data": [card["name"] for card in datasets.prepared(data_root)] or "none",
        "stored runs": len(store.stored()),
        "damaged runs": len(Unreadable.places),
        "figures": str(paths.figures_root()),
    }
    show(facts, as_json, columns([*facts.items()]))
    tell_damage()
