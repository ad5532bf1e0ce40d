"""How a run lies on disk: one folder, named by the hash of the run's configuration.

``<root>/<task>/<algorithm>-<digest>/`` holds

``config.json``         the run's configuration; its hash is the digest in the folder's name
``history.csv``         ``round, split, metric, value``
``clients.csv``         ``client, split, metric, value, examples``
``params.safetensors``  the final parameters; optional, may be deleted to save space
``meta.json``           device, seconds, divergence, versions, commit, data source; written last,
                        with the SHA-256 of the other files

A folder appears under its name only when it is complete. Published runs are the same folders in a
zip archive, see :mod:`fedlib.results.archives`.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from pathlib import Path
from typing import Any
from zipfile import BadZipFile
from zipfile import Path as ZipPath

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

from fedlib import files
from fedlib.engine.config import FORMAT, RunConfig
from fedlib.engine.history import History
from fedlib.errors import Error, Failure
from fedlib.results import promises
from fedlib.task import Task

CONFIG, META = "config.json", "meta.json"
HISTORY, CLIENTS, PARAMS = "history.csv", "clients.csv", "params.safetensors"
DIGEST = re.compile(r"-[0-9a-f]{16}$")
# What reading from a damaged archive raises: a bit may fall on anything.
BROKEN = (BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError)

Folder = Path | ZipPath


class Damaged(Failure):
    """A run's folder, or an archive of runs, does not hold what was written into it.

    Attributes:
        place: of the run or archive.
    """

    def __init__(self, message: str, place: Folder) -> None:
        super().__init__(message)
        self.place = str(place)


class Meta(BaseModel):
    """The part of ``meta.json`` that is read later, whatever else is in it."""

    model_config = ConfigDict(strict=True, extra="allow")
    files: dict[str, str]
    created: str
    diverged: int | None
    parameters: list[str] = []
    settings: dict[str, Any] = {}
    hyperparameters: dict[str, Any] = {}
    client_hyperparameters: dict[str, dict[str, Any]] = {}
    seconds: float = 0.0
    thinned: bool = False


@dataclass(frozen=True)
class Stored:
    """A run on disk whose numbers have not been read yet.

    Attributes:
        path: the run's folder, on disk or in an archive.
        config: its configuration.
        meta: ``History.meta`` and what the store adds (see :func:`describe`).
    """

    path: Folder
    config: RunConfig
    meta: dict[str, Any]

    def history(self, params: bool = True) -> History:
        """Read the run.

        Args:
            params: whether to read the parameters; without them ``History.params`` is empty.

        Raises:
            Error: a file is missing or not what was written.
        """
        frame = read_csv(self._bytes(HISTORY), {"round": "int64"})
        clients = read_csv(self._bytes(CLIENTS), {"examples": "int64"})
        tensors: dict[str, Tensor] = {}
        if params and (self.path / PARAMS).is_file():
            stored = parse_tensors(self._bytes(PARAMS))
            # The file sorts its tensors; the model's order matters to whoever flattens them.
            tensors = {name: stored[name] for name in self.meta["parameters"]}
        return History(frame, clients, tensors, self.config, dict(self.meta))

    def check(self) -> None:
        """Read all files and compare them with their hashes.

        Raises:
            Error: one is missing or not what was written.
        """
        for name in self.meta["files"]:
            # Parameters may be deleted to save space.
            if name != PARAMS or (self.path / PARAMS).is_file():
                self._bytes(name)

    def _bytes(self, name: str) -> bytes:
        """A file's contents, checked against the hash written with the run."""
        data = _read(self.path, name)
        if hashlib.sha256(data).hexdigest() != self.meta["files"].get(name):
            raise damaged(self.path, f"{name} is not what was written (cut off or changed)")
        return data


def _read(path: Folder, name: str) -> bytes:
    try:
        return (path / name).read_bytes()
    except FileNotFoundError:
        raise damaged(path, f"{name} is missing") from None
    except BROKEN as problem:
        raise damaged(path, f"{name} cannot be read ({problem})") from None


def write_runs(
    root: Path, made: Sequence[tuple[Task, History]], keep_params: bool, replace: bool
) -> list[History]:
    """Store the runs of a program under ``root``; returns them as they will be read.

    All are stored or none, also where the process is killed: alone, the others would train in a
    program of their own, whose sums may round otherwise. Another process may finish the same run
    meanwhile; both results are equal, and the one that is there stays unless it is damaged or is to
    be replaced.
    """
    stored, moves = [], {}
    with ExitStack() as installed:
        for task, history in made:
            meta = {**history.meta, **describe(task, history), "parameters": list(history.params)}
            contents = pack(history, meta, keep_params)
            target = run_path(root, history.config)
            outdated = _inode(target) if replace else None
            stays = partial(_stays, target, outdated)
            aside = installed.enter_context(files.replacing(target, stays))
            _write_folder(aside, contents)
            moves[aside] = target
            stored.append(dataclasses.replace(history, meta=json.loads(contents[META])))
        if len(moves) > 1:
            with promises.promised(root, moves):
                installed.close()  # now each gets its name
    return stored


def copy_run(run: Stored, root: Path) -> bool:
    """Put a run that lies elsewhere, or in an archive, under ``root``; False if it is there."""
    target = run_path(root, run.config)
    if _complete(target):
        return False
    run.check()
    with files.replacing(target, partial(_complete, target)) as aside:
        _write_folder(aside, {part.name: part.read_bytes() for part in run.path.iterdir()})
    return True


def _stays(target: Path, outdated: int | None) -> bool:
    """Whether a run that is there already stays."""
    return _inode(target) != outdated and _complete(target)


def _write_folder(folder: Path, contents: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, data in contents.items():
        with open(folder / name, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def pack(history: History, meta: Mapping[str, Any], keep_params: bool = False) -> dict[str, bytes]:
    """The files of a run's folder by name; the last one has the hashes of the others."""
    contents = {
        CONFIG: _json(history.config.as_dict()),
        HISTORY: to_csv(history.frame),
        CLIENTS: to_csv(history.clients),
    }
    if keep_params:
        tensors = {name: tensor.detach().contiguous() for name, tensor in history.params.items()}
        contents[PARAMS] = pack_tensors(tensors)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()}
    return {**contents, META: _json({**meta, "files": hashes})}


def run_path(root: Path, config: RunConfig) -> Path:
    """Where a run of this configuration belongs under ``root``."""
    return root / safe(config.task["name"]) / f"{safe(config.algorithm)}-{config.digest}"


def open_run(path: Folder) -> Stored:
    """A run's folder, with its configuration and meta data checked.

    Raises:
        Error: a file is missing or not readable, made by a fedlib whose runs have other numbers, or
            the configuration is not the one of the digest.
    """
    try:
        config = _config(json.loads(_read(path, CONFIG)), path)
        if not path.name.endswith(f"-{config.digest}"):
            raise damaged(path, f"{CONFIG} does not belong to digest {path.name[-16:]}")
        meta = json.loads(_read(path, META))
        Meta.model_validate(meta)
    except Damaged:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as problem:
        why = " ".join(str(problem).split())
        raise damaged(path, f"{CONFIG} or {META} cannot be read ({why})") from None
    return Stored(path, config, meta)


def _config(fields: dict[str, Any], path: Folder) -> RunConfig:
    """What :meth:`RunConfig.as_dict` made, back again; ``path`` is for the message."""
    made = fields.pop("format")
    if made != FORMAT:
        raise damaged(path, f"made by another fedlib (format {made}, this one reads {FORMAT})")
    for key in ("local_steps", "local_epochs"):
        if isinstance(fields[key], list):
            fields[key] = tuple(fields[key])
    return RunConfig(**fields)


def damaged(path: Folder, what: str) -> Damaged:
    """The error for a run's folder that cannot be used."""
    archive = path.root.filename if isinstance(path, ZipPath) else None
    remedy = f"{archive} and publish" if archive else "this folder and run"
    return Damaged(f"damaged run {path}: {what}; delete {remedy} it again", path)


def describe(task: Task, history: History) -> dict[str, Any]:
    """What the store notes beside the engine's own meta data.

    ``versions``, ``git`` (commit, dirty; None outside a checkout), ``created`` (UTC), ``preset``,
    ``stand_in``, ``source`` and ``label`` of the task, ``hyperparameters`` (for this algorithm),
    ``client_hyperparameters`` (by client optimizer) and ``settings``: the task's own values, so
    that a run made with others can be told.
    """
    settings = ("rounds", "clients_per_round", "batch_size", "local_epochs")
    where = provenance()
    return {
        **where,
        "versions": {**where["versions"], **history.meta.get("versions", {})},
        "preset": task.preset,
        "stand_in": bool(task.stand_in),
        "source": task.source,
        "label": task.label or task.name,
        "hyperparameters": dict(task.hyperparameters.get(history.config.algorithm, {})),
        "client_hyperparameters": {
            name: dict(values) for name, values in task.client_hyperparameters.items()
        },
        "settings": {name: getattr(task, name) for name in settings},
    }


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _complete(path: Path) -> bool:
    try:
        open_run(path).history()
    except Error:
        return False
    return True


def folders(root: Path, task: str | None = None) -> Iterator[Path]:
    """The run folders under a root; names that begin with a dot are unfinished."""
    for path in sorted(root.glob(f"{safe(task) if task else '*'}/*")):
        if DIGEST.search(path.name) and not path.name.startswith(".") and path.is_dir():
            yield path


class Places:
    """Where the runs under a root lie; a task's folder is listed again only when it has changed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._listed: dict[str, tuple[int, dict[str, str]]] = {}

    def find(self, digest: str) -> Path | None:
        """A run's folder, or None."""
        if not re.fullmatch("[0-9a-f]{16}", digest):
            raise Error(f"run digest is {digest!r}; it has 16 hex digits, see Store.table()")
        with suppress(OSError):  # no such folder, or one that others are removing
            for folder in [entry.path for entry in os.scandir(self.root) if entry.is_dir()]:
                name = self._names(folder).get(digest)
                if name is not None:
                    return Path(name)
        return None

    def _names(self, folder: str) -> dict[str, str]:
        """From a task's digests to its folders."""
        changed = os.stat(folder).st_mtime_ns
        listed, names = self._listed.get(folder, (0, {}))
        if changed != listed:
            entries = [entry for entry in os.scandir(folder) if DIGEST.search(entry.name)]
            names = {entry.name[-16:]: entry.path for entry in entries if entry.name[0] != "."}
            # A change within the same tick of the clock would not show in the folder's time.
            if time.time_ns() - changed > 1e9:
                self._listed[folder] = changed, names
        return names


def safe(name: str) -> str:
    """A file name from a task's or algorithm's name; users' tasks may be called anything."""
    return re.sub(r"[^\w-]", "_", name) or "_"


def to_csv(frame: pd.DataFrame) -> bytes:
    """Floats are written as the shortest text that reads back as the same number."""
    return frame.to_csv(index=False, lineterminator="\n", na_rep="nan").encode()


def read_csv(data: bytes, types: dict[str, Any]) -> pd.DataFrame:
    """What :func:`to_csv` wrote: small files by the thousand, for which pandas' reader is slow."""
    header, *rows = csv.reader(StringIO(data.decode(), newline=""))
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    kinds = {"value": "float64", **types}
    named = zip(header, columns, strict=True)
    return pd.DataFrame({name: np.array(cells, kinds.get(name, object)) for name, cells in named})


def provenance() -> dict[str, Any]:
    """``versions``, ``git`` (commit, dirty; None outside a checkout) and ``created`` (UTC)."""
    packages = ("fedlib", "torch", "torchvision", "numpy", "pandas")
    return {
        "versions": {package: _version(package) for package in packages},
        "git": _commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _json(plain: Mapping[str, Any]) -> bytes:
    return (json.dumps(plain, indent=2) + "\n").encode()


@cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _commit() -> dict[str, Any] | None:
    """The commit of the checkout that this fedlib is in, and whether files differ from it."""
    package = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, timeout=20)
        return output.strip()

    try:
        # An installed copy may lie inside a checkout of something else.
        if Path(git("rev-parse", "--show-toplevel")).resolve() != package.parent:
            return None
        dirty = bool(git("status", "--porcelain", "."))
        return {"commit": git("rev-parse", "HEAD"), "dirty": dirty}
    except (OSError, subprocess.SubprocessError):
        return None
