"""The ``fedlib`` command.

Exit status 0: done; 1: it failed; 2: a mistake in what was asked, told in one line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from fedlib.errors import Error, Failure

app = typer.Typer(
    help="Federated optimization in PyTorch, and four papers reproduced with it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
data_app = typer.Typer(
    help="Data sets: what is there, download or import a copy, check it.", no_args_is_help=True
)
app.add_typer(data_app, name="data")

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Data folder; default $FEDLIB_DATA, else data/.")
]
Preset = Annotated[str, typer.Option(help="quick (small numbers) or paper (the paper's settings).")]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds; default the preset's.")]
Seed = Annotated[int, typer.Option(help="Seed of partition, initialisation, sampling and batches.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Backend = Annotated[str, typer.Option(help="auto, vectorized or reference.")]
Dtype = Annotated[str, typer.Option(help="float32 or float64.")]
Cohort = Annotated[int | None, typer.Option(help="Clients per round; default the task's.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Hyperparameter, e.g. client_lr=0.03. Repeatable."
    ),
]
TaskOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="KEY=VALUE", help="Option of the task, e.g. width=0.5. Repeatable."
    ),
]


def parse_value(text: str) -> Any:
    """A number, true, false, none, a JSON list, or else the text itself."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    for convert in (int, float, json.loads):
        try:
            return convert(text)
        except ValueError:
            continue
    return text


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """``["client_lr=0.03"]`` -> ``{"client_lr": 0.03}``."""
    values: dict[str, Any] = {}
    for pair in pairs or []:
        key, sign, value = pair.partition("=")
        if not sign or not key:
            raise Error(f"{option} {pair!r} is not KEY=VALUE; for instance {option} client_lr=0.03")
        values[key.strip()] = parse_value(value.strip())
    return values


def show(value: Any, as_json: bool, text: str) -> None:
    """Print a value for programs or its text for people."""
    typer.echo(json.dumps(value, indent=2, default=str) if as_json else text)


def columns(rows: list[tuple[Any, ...]]) -> str:
    """Rows as aligned columns."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return "\n".join(
        "  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in cells
    )


@app.command("list")
def list_(
    what: Annotated[
        str, typer.Argument(help="tasks, algorithms, data or figures; default all.")
    ] = "all",
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """What there is: tasks, algorithms, data sets, figures."""
    from fedlib import datasets, figures
    from fedlib.algorithms import METHODS
    from fedlib.errors import unknown
    from fedlib.tasks import TASKS

    every = {
        "tasks": {
            name: {"papers": papers, "about": about} for name, (_, papers, about) in TASKS.items()
        },
        "algorithms": {name: {"about": _first_line(method)} for name, method in METHODS.items()},
        "data": {
            name: {"about": card["title"] + (" (prepared)" if card["prepared"] else "")}
            for name, card in ((n, datasets.info(n, data_root)) for n in datasets.names(data_root))
        },
        "figures": {entry.id: {"about": f"by {entry.notebook}"} for entry in figures.entries()},
    }
    if what != "all" and what not in every:
        raise unknown("list", what, [*every, "all"])
    chosen = {name: every[name] for name in ([what] if what != "all" else every)}
    text = "\n\n".join(
        f"{name}\n{columns([('  ' + key, value['about']) for key, value in entries.items()])}"
        for name, entries in chosen.items()
    )
    show(chosen if what == "all" else chosen[what], as_json, text)


def _first_line(method: Any) -> str:
    module = sys.modules[method.__module__].__doc__ or ""
    return module.splitlines()[0].split(": ", 1)[-1]


@data_app.command("list")
def data_list(as_json: Json = False, data_root: DataRoot = None) -> None:
    """Known data sets, which of them are prepared, their size on disk, and the tasks they serve."""
    from fedlib import datasets

    prepared = {card["name"]: card for card in datasets.prepared(data_root)}
    cards = [
        {
            **datasets.info(n, data_root),
            **prepared.get(n, {}),
            "downloads": [form or "only form" for form in datasets.SOURCES.get(n, ())],
        }
        for n in datasets.names(data_root)
    ]
    rows: list[tuple[Any, ...]] = [("name", "prepared", "size", "get it by", "title", "tasks")]
    for card in cards:
        size = f"{card['bytes'] / 1e6:.1f} MB" if "bytes" in card else "-"
        state = "yes" if card["name"] in prepared else "stand-in"
        if "error" in card:
            state = "broken"
        elif state != "yes" and not card.get("stand_in_is"):
            state = "no"
        way = "prepare" if card["downloads"] else "import"
        tasks = ", ".join(card.get("tasks", ())) or "-"
        rows.append((card["name"], state, size, way, card.get("title", ""), tasks))
    show(cards, as_json, columns(rows))


@data_app.command("prepare")
def data_prepare(
    name: Annotated[str, typer.Argument(help="Data set, e.g. mnist; see 'fedlib data list'.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a prepared copy.")
    ] = False,
    from_folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Official files, downloaded by hand."),
    ] = None,
    form: Annotated[
        str | None, typer.Option(help="hdf5 (default) or sqlite, for federated data sets.")
    ] = None,
    sha256: Annotated[
        str | None, typer.Option(help="SHA-256 of a file for which none has been published.")
    ] = None,
    keep_raw: Annotated[
        bool, typer.Option("--keep-raw/--discard-raw", help="Keep the downloaded files.")
    ] = True,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option", metavar="KEY=VALUE", help="sent140: min_tweets, train_fraction. Repeatable."
        ),
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Download a data set from its official source, check its SHA-256, and prepare it.

    A download that was interrupted goes on where it stopped when the command is given again.
    """
    from fedlib import datasets

    options = parse_pairs(option, "--option")
    for key in ("name", "data_root", "progress", *datasets.prepare.__kwdefaults__):
        if key in options:
            raise Error(f"--option {key} is not an option of a data set; see --help")
    card = datasets.prepare(
        name,
        data_root,
        overwrite=overwrite,
        keep_raw=keep_raw,
        from_folder=from_folder,
        form=form,
        sha256=sha256,
        progress=_progress(as_json),
        **options,
    )
    counts = ", ".join(f"{count:,} {what}" for what, count in card["counts"].items())
    counts = counts.replace("_", " ")
    show(card, as_json, f"prepared {name}: {counts}, sha256 {card['fingerprint'][:16]}...")


@data_app.command("import")
def data_import(
    name: Annotated[
        str, typer.Argument(help="Name to import it under, e.g. cifar10 or one of your own.")
    ],
    file: Annotated[
        Path, typer.Argument(help=".npz (images, arrays) or .jsonl (texts); see data/README.md.")
    ],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a prepared copy.")
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Import a copy of a data set; a bad file is refused whole."""
    from fedlib import datasets

    card = datasets.import_file(name, file, data_root, overwrite=overwrite)
    show(card, as_json, f"imported {name} from {file.name}: sha256 {card['fingerprint'][:16]}...")


@data_app.command("verify")
def data_verify(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which; default all prepared ones.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Hash prepared data again and compare with its card."""
    from fedlib import datasets

    names = names or [card["name"] for card in datasets.prepared(data_root)]
    for name in names:
        datasets.verify(name, data_root)
        if not as_json:
            typer.echo(f"{name}: unchanged")
    show({"verified": names}, as_json, f"{len(names)} data sets verified")


@app.command()
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
    _announce(loaded, as_json)
    store = Store(_store_root(data_root))
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
        progress=_progress(as_json),
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


@app.command()
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
    _announce(loaded, as_json)
    frame = Store(_store_root(data_root)).grid(
        loaded,
        algorithm,
        rounds=rounds,
        seed=seed,
        device=device,
        backend=backend,
        dtype=dtype,
        clients_per_round=clients_per_round,
        overrides=parse_pairs(set_, "--set"),
        progress=_progress(as_json),
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


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10; default all.")
    ] = None,
    preset: Preset = "quick",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "-p", "--parameter", metavar="KEY=VALUE", help="Notebook parameter. Repeatable."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Executed copies; default build/executed.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show what the notebooks print.")
    ] = False,
) -> None:
    """Execute the notebooks with papermill; figures land in figures/."""
    from fedlib import reproduce as runner
    from fedlib.errors import unknown
    from fedlib.tasks import PRESETS

    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    total = len(runner.notebooks(names or ()))
    failed, count = [], 0
    for done in runner.reproduce(
        names or (),
        preset=preset,
        given=parse_pairs(parameter, "--parameter"),
        output=output,
        log=verbose,
    ):
        count += 1
        state = f"FAILED: {done.error}" if done.error else "ok"
        typer.echo(f"[{count}/{total}] {done.name}  {done.seconds:.1f} s  {state}")
        if done.error:
            failed.append(done.name)
            typer.echo(f"        see {done.output}", err=True)
    if failed:
        typer.echo(f"{len(failed)} of {total} notebooks failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


@app.command()
def figures(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Figures, e.g. fedopt/figure_1; default all.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Redraw figures and tables from stored runs; never trains."""
    from fedlib import figures as drawing
    from fedlib.results import Store

    paths = drawing.redraw(ids or None, store=Store(_store_root(data_root)))
    show([str(path) for path in paths], as_json, "\n".join(str(path) for path in paths))


@app.command()
def compare(
    paper: Annotated[str | None, typer.Argument(help="fedopt or adafedadam; default both.")] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Every printed number beside ours, from stored runs."""
    from fedlib.errors import unknown
    from fedlib.results import Store
    from fedlib.results.compare import compare as compared
    from fedlib.results.compare import summary

    frame = compared(Store(_store_root(data_root)))
    if paper is not None:
        if paper not in set(frame["paper"]):
            raise unknown("paper", paper, frame["paper"].unique())
        frame = frame[frame["paper"] == paper]
    shown = frame.drop(columns=["runs"]).to_string(
        index=False, na_rep="-", float_format="{:.2f}".format
    )
    totals = summary(frame).to_string(index=False, na_rep="-")
    show(json.loads(frame.to_json(orient="records")), as_json, f"{shown}\n\n{totals}")


@app.command()
def doctor(as_json: Json = False, data_root: DataRoot = None) -> None:
    """What fedlib finds here: versions, device, threads, data, stored runs."""
    import platform
    from importlib.metadata import version

    import torch

    from fedlib import datasets, paths
    from fedlib.results import Store

    root = paths.data_root(data_root)
    facts: dict[str, Any] = {
        "fedlib": version("fedlib"),
        "python": platform.python_version(),
        **{
            name: version(name) for name in ("torch", "torchvision", "numpy", "pandas", "papermill")
        },
        "cuda": torch.cuda.get_device_name()
        if torch.cuda.is_available()
        else "no GPU that torch sees",
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
        "data root": str(root),
        "prepared data": [card["name"] for card in datasets.prepared(data_root)] or "none",
        "stored runs": len(Store(_store_root(data_root)).table()),
        "figures": str(paths.figures_root()),
    }
    show(facts, as_json, columns([(name, value) for name, value in facts.items()]))


def _announce(task: Any, as_json: bool) -> None:
    if not as_json:
        typer.echo(repr(task))


def _progress(as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def _store_root(data_root: Path | None) -> Path:
    from fedlib.paths import data_root as resolve

    return resolve(data_root) / "runs"


# Typer exports only the leaves of its error classes; every usage error derives from this one.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def main() -> NoReturn:
    """Entry point of the ``fedlib`` command."""
    import logging

    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.ERROR)
    try:
        status = app(standalone_mode=False)
    except Failure as error:
        status = _fail(str(error), 1)
    except Error as error:
        status = _fail(str(error), 2)
    except _UsageError as error:
        message = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message)
            status = 0
        else:
            status = _fail(f"{message} Try --help.", 2)
    except (KeyboardInterrupt, typer.Abort) as stop:
        # A run that could save its state says where; the same command continues it.
        status = _fail(str(stop) or "interrupted", 130)
    sys.exit(status or 0)


def _fail(message: str, status: int) -> int:
    typer.echo("fedlib: " + " ".join(message.split()), err=True)
    return status
