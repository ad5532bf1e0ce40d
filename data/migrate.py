"""Convert runs as fedlib stored and published them before they were tables: once, then forget it.

usage: python migrate.py OLD NEW

OLD: a store (folders of runs, ``data/runs``), a folder of published runs (``data/results``) or one
archive (``.zip.xz``). NEW: a folder, where the same runs will lie as files; what lies there already
stays. OLD is only read. Damaged runs are named and left out, and the exit status is then 1.
"""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import re
import shutil
import sys
from io import BytesIO, StringIO
from pathlib import Path, PurePosixPath
from zipfile import Path as ZipPath
from zipfile import ZipFile

import numpy as np
import pandas as pd

from fedlib import files
from fedlib.engine.config import RunConfig
from fedlib.engine.history import History
from fedlib.results.files import file_path, pack, params_path

DIGEST = re.compile(r"-[0-9a-f]{16}$")


def read_csv(data: bytes, types: dict) -> pd.DataFrame:
    header, *rows = csv.reader(StringIO(data.decode(), newline=""))
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    kinds = {"value": "float64", **types}
    named = zip(header, columns, strict=True)
    return pd.DataFrame({name: np.array(cells, kinds.get(name, object)) for name, cells in named})


def read_run(folder: Path | ZipPath) -> tuple[History, bytes | None]:
    """A run, and its parameters' file if there is one; every file is checked against its hash."""
    meta = json.loads((folder / "meta.json").read_bytes())
    contents = {}
    for name, expected in meta.pop("files").items():
        if name == "params.safetensors" and not (folder / name).is_file():
            continue  # they may be deleted to save space
        contents[name] = (folder / name).read_bytes()
        if hashlib.sha256(contents[name]).hexdigest() != expected:
            raise ValueError(f"{name} is not what was written")
    fields = json.loads(contents["config.json"])
    if fields.pop("format") != 1:
        raise ValueError("made by another fedlib")
    for key in ("local_steps", "local_epochs"):
        if isinstance(fields[key], list):
            fields[key] = tuple(fields[key])
    config = RunConfig(**fields)
    if not folder.name.endswith(f"-{config.digest}"):
        raise ValueError("config.json does not belong to the digest")
    params = contents.get("params.safetensors")
    if params is None:
        meta.pop("parameters", None)
    else:
        meta["params_sha256"] = hashlib.sha256(params).hexdigest()
    frame = read_csv(contents["history.csv"], {"round": "int64"})
    clients = read_csv(contents["clients.csv"], {"examples": "int64"})
    return History(frame, clients, {}, config, meta), params


def convert(old: Path, new: Path) -> list[str]:
    """Convert everything in a folder, or an archive; returns what is damaged."""
    bad = []
    archives = [old] if old.is_file() else sorted(old.glob("*.zip.xz"))
    for path in archives:
        target = new / f"{path.name.partition('.')[0]}.parquet"
        if target.exists():
            print(f"{target} is there")
            continue
        archive = ZipFile(BytesIO(lzma.decompress(path.read_bytes())))
        histories = []
        for folder in dict.fromkeys(PurePosixPath(name).parent for name in archive.namelist()):
            try:
                histories.append(read_run(ZipPath(archive, f"{folder}/"))[0])
            except (OSError, ValueError, LookupError) as problem:
                bad.append(f"{path}/{folder}: {problem}")
        histories.sort(key=lambda history: file_path(Path(), [history.config]).as_posix())
        files.write(target, pack(histories, smallest=True))
        print(f"{target}: {len(histories)} runs, {path.stat().st_size} -> {target.stat().st_size}")
    count = 0
    for folder in sorted(old.glob("*/*")) if old.is_dir() else ():
        if not DIGEST.search(folder.name) or folder.name[0] == "." or not folder.is_dir():
            continue
        try:
            history, params = read_run(folder)
        except (OSError, ValueError, LookupError) as problem:
            bad.append(f"{folder}: {problem}")
            continue
        target = file_path(new, [history.config])
        if not target.exists():
            if params is not None:
                files.write(params_path(target.parent, history.config), params)
            files.write(target, pack([history]))
            count += 1
    if count:
        print(f"{new}: {count} runs of the store {old}")
    if old.is_dir() and (old / "figures").is_dir() and old.resolve() != new.resolve():
        shutil.copytree(old / "figures", new / "figures", dirs_exist_ok=True)
    return bad


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    damaged = convert(Path(sys.argv[1]), Path(sys.argv[2]))
    print(*damaged, sep="\n")
    sys.exit(bool(damaged))
