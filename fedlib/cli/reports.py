"""``fedlib list``, ``reproduce``, ``figures``, ``compare`` and ``claims``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from fedlib.cli.options import DataRoot, Device, Json, Parameters, Preset
from fedlib.cli.terminal import Damage, columns, parse_pairs, show, store_root


def list_(
    what: Annotated[
        str, typer.Argument(help="tasks, algorithms, data or figures; default all.")
    ] = "all",
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """What there is: tasks, algorithms, data sets, figures."""
    from fedlib import algorithms, datasets, tasks
    from fedlib.errors import unknown
    from fedlib.reproduction import draw

    every = {
        "tasks": {
            name: {"papers": papers, "about": about}
            for name, (_, papers, about) in tasks.TASKS.items()
        },
        "algorithms": {n: {"about": _first_line(m)} for n, m in algorithms.METHODS.items()},
        "data": {
            name: {
                "about": card.get("title", "(its card is broken)")
                + (" (prepared)" if card["prepared"] else "")
            }
            for name, card in ((n, datasets.info(n, data_root)) for n in datasets.names(data_root))
        },
        "figures": {entry.id: {"about": f"by {entry.notebook}"} for entry in draw.entries()},
    }
    if what != "all" and what not in every:
        raise unknown("list", what, [*every, "all"])
    chosen = {name: every[name] for name in ([what] if what != "all" else every)}
    text = "\n\n".join(
        f"{name}\n{columns([('  ' + key, value['about']) for key, value in entries.items()])}"
        for name, entries in chosen.items()
    )
    show(chosen if what == "all" else chosen[what], as_json, text)


def _state(card: dict[str, Any]) -> str:
    return " (broken)" if "error" in card else " (prepared)" if card["prepared"] else ""


def _first_line(method: Any) -> str:
    module = sys.modules[method.__module__].__doc__ or ""
    return module.splitlines()[0].split(": ", 1)[-1]


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Notebooks, e.g. 10_cifar10 or 10; default all.")
    ] = None,
    preset: Preset = "quick",
    parameter: Parameters = None,
    output: Annotated[
        Path | None, typer.Option(help="Executed copies; default build/executed.")
    ] = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Show what the notebooks print.")
    ] = False,
    jobs: Annotated[
        int, typer.Option(help="Notebooks at once; with several, each has one thread.")
    ] = 1,
) -> None:
    """Execute the notebooks with papermill; figures land in figures/."""
    from fedlib.reproduction import reproduce as runner

    given = parse_pairs(parameter, "--parameter")
    total = len(runner.notebooks(names or ()))
    failed = []
    series = runner.reproduce(names or (), preset, given, output, log=verbose, jobs=jobs)
    for count, done in enumerate(series, 1):
        state = f"FAILED: {done.error}" if done.error else "ok"
        typer.echo(f"[{count}/{total}] {done.name}  {done.seconds:.1f} s  {state}")
        if done.error:
            failed.append(done.name)
            typer.echo(f"        see {done.output}", err=True)
    if failed:
        typer.echo(f"{len(failed)} of {total} notebooks failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def figures(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Figures, e.g. fedopt/figure_1; default all.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="quick, laptop or paper; default for each figure laptop or paper, whichever has "
            "runs of more of its tasks, and quick where neither has any."
        ),
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Redraw figures and tables from stored runs; never trains."""
    from fedlib.reproduction import draw
    from fedlib.results import Store

    with Damage() as damage:
        paths = draw.redraw(ids or None, Store(store_root(data_root)), preset=preset)
    show([str(path) for path in paths], as_json, "\n".join(str(path) for path in paths))
    damage.tell()


def compare(
    paper: Annotated[
        str | None, typer.Argument(help="fedopt, mime, adafedadam, delta_sgd; default all.")
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Every printed number beside ours, from stored runs."""
    from fedlib.errors import unknown
    from fedlib.reproduction.compare import compare as compared
    from fedlib.reproduction.compare import summary
    from fedlib.results import Store

    with Damage() as damage:
        frame = compared(Store(store_root(data_root)))
    if paper is not None:
        if paper not in set(frame["paper"]):
            raise unknown("paper", paper, frame["paper"].unique())
        frame = frame[frame["paper"] == paper]
    shown = frame.drop(columns=["runs"]).to_string(
        index=False, na_rep="-", float_format="{:.2f}".format
    )
    totals = summary(frame).to_string(index=False, na_rep="-")
    show(json.loads(frame.to_json(orient="records")), as_json, f"{shown}\n\n{totals}")
    damage.tell()


def claims(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Claims, e.g. fedopt-cifar10; default all.")
    ] = None,
    preset: Preset = "quick",
    stored: Annotated[
        bool, typer.Option("--stored", help="Train nothing: only from stored runs.")
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="First seed; 0 is the notebooks', with which they were made.")
    ] = 0,
    device: Device = "auto",
    on_print: Annotated[
        bool, typer.Option("--printed", help="Judge the papers' printed numbers, not runs.")
    ] = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """What the papers claim, with verdicts: holds, does not hold, not resolved, not run.

    The quick preset trains what is missing; the others' runs are long, and must be stored already.
    """
    from fedlib.reproduction.claims import chosen, judge, printed
    from fedlib.results import Store

    store = Store(store_root(data_root))
    train = preset == "quick" and not stored
    with Damage() as damage:
        if on_print:
            verdicts = [printed(claim["id"]) for claim in chosen(ids or ())]
        else:
            execution = {"device": device, "progress": not as_json}
            verdicts = judge(ids or (), preset, store, seed=seed, train=train, **execution)
    counts = Counter(each.verdict for each in verdicts)
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    lines = [line for each in verdicts for line in (*each.words(), "")]
    text = "\n".join([*lines, f"{len(verdicts)} claims: {total}"])
    show([each.as_dict() for each in verdicts], as_json, text)
    damage.tell()
