"""``fedlib doctor``: what fedlib finds here, what is damaged, and what killed processes left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedlib.cli.options import DataRoot, Device, Json
from fedlib.cli.terminal import Damage, columns, show, store_root

if TYPE_CHECKING:
    import torch


def doctor(
    clean: Annotated[
        bool, typer.Option("--clean", help="Remove what killed runs and imports left behind.")
    ] = False,
    device: Device = "auto",
    as_json: Json = False,
    data_root: DataRoot = None,
) -> None:
    """What fedlib finds here: versions, device, threads, execution, data, stored runs.

    Reads every stored and published run; the exit status is 1 if one is damaged.
    """
    import platform
    from importlib.metadata import version

    import torch

    from fedlib import datasets, paths
    from fedlib.engine.device import resolve_device
    from fedlib.processor import bfloat16_arithmetic
    from fedlib.results import Store

    where = resolve_device(device)
    left = _remains(data_root, clean)
    store = Store(store_root(data_root))
    with Damage() as damage:
        store.check()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU that torch sees"
    packages = ("torch", "torchvision", "numpy", "pandas", "papermill")
    root = paths.data_root(data_root)
    facts: dict[str, Any] = {
        "fedlib": version("fedlib"),
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "cuda": gpu,
        "threads": torch.get_num_threads(),
        "processors": os.cpu_count(),
        "bfloat16": _bfloat16(bfloat16_arithmetic()),
        "execution": _execution(where),
        "data root": str(root),
        "prepared data": [card["name"] for card in datasets.prepared(data_root)] or "none",
        "stored runs": len(store.stored()),
        "damaged runs": len(damage.places),
        "figures": str(paths.figures_root()),
        "left behind by killed processes": f"{len(left)}: --clean removes them" if left else 0,
    }
    if clean:
        facts["left behind by killed processes"] = 0
        facts["removed"] = [str(path) for path in left]
    shown = {**facts, "removed": ""} if clean else facts
    lines = [columns([(name, value) for name, value in shown.items()])]
    lines += [f"  {path}" for path in left] if clean else []
    show(facts, as_json, "\n".join(lines))
    damage.tell()


def _bfloat16(instructions: str) -> str:
    """What the processor's instructions for products in bfloat16 mean for a user, in a line."""
    if instructions == "none":
        return "not in this processor: --dtype bfloat16 saves no time"
    if instructions == "unknown":
        return "the system does not say whether this processor has it"
    return f"{instructions}: large networks train faster with --dtype bfloat16"


def _execution(device: torch.device) -> str:
    """How models are executed on a device, in a line."""
    from fedlib.engine.strategy import LIMITS, STACKED_SIZE

    limits = LIMITS[device.type]
    rows = f"up to {limits.chunk_numbers:,} numbers (rows x parameters) at once"
    if device.type == "cuda":
        return rows
    rows += f"; one thread up to {limits.one_thread_numbers:,}"
    parallel = f"if there are convolutions or more than {STACKED_SIZE:,} parameters"
    return f"{rows}; else clients in parallel {parallel}"


def _remains(data_root: Path | None, clean: bool) -> list[Path]:
    """What killed processes left in the folders that fedlib writes to; removed if asked."""
    from fedlib import files, locks, paths
    from fedlib.datasets import preparing
    from fedlib.results import Store

    store, project = Store(store_root(data_root)), paths.project_root()
    roots = (
        *(paths.data_root(data_root), paths.figures_root()),
        *(project / "data" / "results", project / "build" / "executed"),
    )
    left: dict[Path, None] = {}
    for root in roots:
        for folder, inside, names in os.walk(root):
            place = Path(folder)
            asides = files.clean(place) if clean else files.remains(place)
            inside[:] = [name for name in inside if not files.ASIDE.fullmatch(name)]
            held = [place / name for name in names if name[0] == "." and name.endswith(locks.LOCK)]
            free = [path for path in held if locks.free_lock(path, remove_it=clean)]
            left |= dict.fromkeys(path.resolve() for path in (*asides, *free))
    finished = store.finished_checkpoints()
    for path in finished if clean else ():
        files.remove(path)
    return [*left, *finished, *preparing.remains(data_root, clean)]
