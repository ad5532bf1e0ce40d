"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TaskName = Annotated[
    str,
    typer.Argument(
        help="Task, see 'fedlib list tasks'; or MODULE:FUNCTION of yours in this folder."
    ),
]
AlgorithmName = Annotated[
    str,
    typer.Argument(
        help="Algorithm, see 'fedlib list algorithms'; or MODULE:NAME of yours in this folder."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DataRoot = Annotated[
    Path | None, typer.Option("--data-root", help="Data folder; default $FEDLIB_DATA, else data/.")
]
Preset = Annotated[
    str, typer.Option(help="quick (small problems), laptop (real data, cut) or paper.")
]
Rounds = Annotated[int | None, typer.Option(help="Communication rounds; default the preset's.")]
Seed = Annotated[int, typer.Option(help="Seed of partition, initialisation, sampling and batches.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Backend = Annotated[
    str,
    typer.Option(help="auto, vectorized or parallel."),
]
Dtype = Annotated[str, typer.Option(help="float32, float64, tf32 (CUDA) or bfloat16.")]
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
Parameters = Annotated[
    list[str] | None,
    typer.Option("-p", "--parameter", metavar="KEY=VALUE", help="Notebook parameter. Repeatable."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a prepared copy.")]
