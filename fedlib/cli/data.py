"""``fedlib data``: what is there, download or import a copy, check it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer

from fedlib.cli.options import DataRoot, Json, Overwrite
from fedlib.cli.terminal import columns, parse_pairs, progress, show
from fedlib.errors import Error

app = typer.Typer(
    help="Data sets: what is there, download or import a copy, check it.", no_args_is_help=True
)


@app.command("list")
def data_list(as_json: Json = False, data_root: DataRoot = None) -> None:
    """Known data sets, which of them are prepared, their size on disk, and the tasks they serve."""
    from fedlib import datasets

    prepared = {card["name"]: card for card in datasets.prepared(data_root)}
    cards = [
        {
            **datasets.info(n, data_root),
            **prepared.get(n, {}),
            "downloads": [file.name for file in getattr(datasets.SOURCES.get(n), "files", ())],
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


@app.command("prepare")
def data_prepare(
    name: Annotated[str, typer.Argument(help="Data set, e.g. mnist; see 'fedlib data list'.")],
    overwrite: Overwrite = False,
    from_folder: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="Official files, downloaded by hand."),
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
    for key, parameter in inspect.signature(datasets.prepare).parameters.items():
        if key in options and parameter.kind is not parameter.VAR_KEYWORD:
            raise Error(f"--option {key} is not an option of a data set; see --help")
    card = datasets.prepare(
        name,
        data_root,
        overwrite=overwrite,
        keep_raw=keep_raw,
        from_folder=from_folder,
        progress=progress(as_json),
        **options,
    )
    counts = ", ".join(f"{count:,} {what}" for what, count in card["counts"].items())
    counts = counts.replace("_", " ")
    show(card, as_json, f"prepared {name}: {counts}, sha256 {card['fingerprint'][:16]}...")


@app.command("import")
def data_import(
    name: Annotated[
        str, typer.Argument(help="Name to import it under, e.g. cifar10 or one of your own.")
    ],
    file: Annotated[
        Path, typer.Argument(help=".npz (images, arrays) or .jsonl (texts); see data/README.md.")
    ],
    overwrite: Overwrite = False,
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """Import a copy of a data set; a bad file is refused whole."""
    from fedlib import datasets

    card = datasets.import_file(name, file, data_root, overwrite=overwrite)
    show(card, as_json, f"imported {name} from {file.name}: sha256 {card['fingerprint'][:16]}...")


@app.command("verify")
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
