"""Runs on disk: one or several in a Parquet file.

A file is one tidy table with the columns

``run``               the position of the row's run in the metadata, from 0
``round``, ``split``, ``metric``, ``value``
                      a row of ``History.frame``, or of ``History.clients`` with the round of the
                      last evaluation
``client, examples``  columns of ``History.clients``, missing in other rows

and the file's metadata, with ``format`` (:data:`FORMAT`), ``runs`` (by LZMA: a JSON list of
``digest``, ``config`` and ``meta`` of each run) and ``sha256``, the hash of the whole file with
:data:`UNSEALED` in its place, so that no changed bit is ever read as a number.

A store has one file for runs that trained together: ``<task>/<algorithm>-<digest>.parquet``. The
final parameters of a run are beside it in ``<task>/<algorithm>-<digest>.safetensors``, and may be
deleted to save space. Published files are the same, with many runs in one. See
:mod:`fedlib.results.published`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import lzma
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, cached_property, lru_cache
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as pack_tensors
from torch import Tensor

from fedlib import files
from fedlib.engine.config import FORMAT as NUMBERS
from fedlib.engine.config import RunConfig
from fedlib.engine.history import History, Points
from fedlib.errors import Error, Failure, first_line
from fedlib.task import Task

# Increased whenever files are written that this version's readers could not read.
FORMAT = b"2"
# The most bytes of a file's unpacked metadata. The largest published ones are a thirtieth of it.
MOST = 2**26
UNSEALED = b"the SHA-256 of the file".center(64, b"-")
SCHEMA = pa.schema(
    [
        pa.field("run", pa.int32(), nullable=False),
        ("round", pa.int64()),
        pa.field("split", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        ("client", pa.string()),
        ("examples", pa.int64()),
    ]
)
TEXTS = ["split", "metric", "client"]
# Exceptions that a damaged file may raise in its readers.
BROKEN: tuple[type[Exception], ...] = (OSError, EOFError, lzma.LZMAError, pa.ArrowException)
BROKEN += (ValueError, LookupError, TypeError, OverflowError, RecursionError, MemoryError)


class Unreadable(Failure):
    """A file of runs that may be intact cannot be read here, so nothing may overwrite it.

    Attributes:
        places: the files that this process found unreadable or damaged, each once.
    """

    places: ClassVar[dict[str, None]] = {}

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(what)
        self.places[str(path)] = None


class Damaged(Unreadable):
    """A file of runs no longer holds the bytes that were written."""

    def __init__(self, path: Path, what: str) -> None:
        advice = "Delete it, then run or publish them again"
        super().__init__(path, f"damaged runs {path}: {what}. {advice}")


@dataclass(frozen=True)
class Stored:
    """A run on disk whose numbers have not been read yet.

    Attributes:
        path: its file, which may also have other runs.
        config: its configuration.
        meta: ``History.meta`` and the store's additions (see :func:`describe`).
    """

    path: Path
    config: RunConfig
    meta: dict[str, Any]

    def history(self, params: bool = True) -> History:
        """Read the run.

        Args:
            params: whether to read the parameters. Without them, or if their file has been deleted,
                ``History.params`` is empty.

        Raises:
            Error: a file is missing or has changed.
        """
        numbers: Columns = cached(_columns, self.path)  # of all runs in the file
        tensors = self.params() if params else {}
        return _Read.of(numbers, tensors, self.config, dict(self.meta))

    def params(self) -> dict[str, Tensor]:
        """The final parameters. Empty if they were not stored or have been deleted."""
        path, expected = params_path(self.path.parent, self.config), self.meta.get("params_sha256")
        if expected is None or not path.is_file():
            return {}
        data = _bytes(path)
        if hashlib.sha256(data).hexdigest() != expected:
            raise Damaged(path, "it has changed since it was written, or is truncated")
        stored = parse_tensors(data)
        # The file sorts its tensors, but the model's order matters to code that flattens them.
        return {name: stored[name] for name in self.meta["parameters"]}


class _Read(History):
    """A stored run's results, with frames that are made on demand.

    Tables and claims read single numbers of thousands of runs. A copy with other fields
    (``dataclasses.replace``) has its frames.
    """

    _numbers: Columns

    @classmethod
    def of(
        cls, numbers: Columns, params: dict[str, Tensor], config: RunConfig, meta: dict[str, Any]
    ) -> History:
        history = cls.__new__(cls)
        vars(history).update(_numbers=numbers, params=params, config=config, meta=meta)
        return history

    def __getattr__(self, name: str) -> Any:
        if name not in ("frame", "clients"):
            raise AttributeError(name)
        value = getattr(self._numbers, name)(self.config.digest)
        setattr(self, name, value)
        return value

    @property
    def _series(self) -> dict[str, dict[str, Points]]:
        changed = "frame" in vars(self)  # its owner may have changed it
        return {} if changed else self._numbers.series[self.config.digest]

    def points(self, metric: str = "accuracy", split: str = "test") -> Points:
        known = self._series.get(split, {})
        return known[metric] if metric in known else super().points(metric, split)

    def metrics(self, split: str = "test") -> list[str]:
        known = self._series
        return list(known.get(split, ())) if known else super().metrics(split)


# ---------------------------------------------------------------------------------------- reading


def open_runs(path: Path) -> Mapping[str, Stored]:
    """The runs in a file by digest. Their numbers are read on demand.

    A file is read once per process, and again when it changes.

    Raises:
        Error: it is damaged, or made by a version of fedlib with other numbers.
    """
    return cached(_open, path)


def open_run(path: Path, digest: str) -> Stored:
    """A run in a file.

    Raises:
        Error: see :func:`open_runs`, or the run is not in the file.
    """
    runs = open_runs(path)
    if digest not in runs:
        raise Damaged(path, f"run {digest} of its name is not in it")
    return runs[digest]


def cached(read: Any, path: Path) -> Any:
    """``read(path, *stamp)`` for a file. The stamp changes with the file.

    Raises:
        Damaged: its content is broken, or the file is gone.
        Unreadable: it cannot be read here and now.
    """
    try:
        stat = path.stat()
        return read(path, stat.st_mtime_ns, stat.st_size)
    except Error:
        raise
    except BROKEN as problem:
        raise Damaged(path, f"it cannot be read ({first_line(problem)})") from None


def _bytes(path: Path) -> bytes:
    """A file's content. Raises :class:`Unreadable` if it exists but cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as problem:
        advice = "Check its permissions and its disk, or move it away"
        raise Unreadable(path, f"cannot read {path}: {files.reason(problem)}. {advice}") from None


def _read(path: Path) -> tuple[pq.ParquetFile, bytes]:
    """A file's table, and its runs in packed form."""
    data = _bytes(path)
    table = pq.ParquetFile(BytesIO(data), read_dictionary=TEXTS)
    known = table.metadata.metadata or {}
    sealed = known.get(b"sha256", b"")
    before, _, after = data.rpartition(sealed or UNSEALED)
    if hashlib.sha256(before + UNSEALED + after).hexdigest().encode() != sealed:
        raise Damaged(path, "it has changed since it was written, or is truncated")
    if known[b"format"] != FORMAT:
        why = f"it has format {known[b'format'].decode()} of another fedlib"
        what = f"{path}: {why}, this one reads {FORMAT.decode()}: move it away, or use that fedlib"
        raise Unreadable(path, what)
    return table, known[b"runs"]


@lru_cache(maxsize=2**14)
def _open(path: Path, *stamp: int) -> Mapping[str, Stored]:
    _, packed = _read(path)
    unpacked = lzma.LZMADecompressor().decompress(packed, MOST + 1)
    if len(unpacked) > MOST:
        raise Damaged(path, f"its metadata are larger than {MOST >> 20} MiB")
    runs = json.loads(unpacked)
    return {run["digest"]: Stored(path, _config(run, path), run["meta"]) for run in runs}


def _config(run: dict[str, Any], path: Path) -> RunConfig:
    """The inverse of :meth:`RunConfig.as_dict`. ``path`` is for the message."""
    fields = dict(run["config"])
    numbers = fields.pop("format")
    if numbers != NUMBERS:
        raise Damaged(path, f"made by another fedlib (numbers {numbers}, here {NUMBERS})")
    for key in ("local_steps", "local_epochs"):
        if isinstance(fields[key], list):
            fields[key] = tuple(fields[key])
    config = RunConfig(**fields)
    vars(config)["digest"] = run["digest"]  # protected by the file's hash
    return config


class Columns:
    """The numbers of the runs in a file.

    Attributes:
        series: digest -> split -> metric -> rounds and values in order.
    """

    def __init__(self, table: pa.Table, digests: Sequence[str]) -> None:
        self._table = table.to_pandas()  # texts as categories
        starts = np.searchsorted(self._table["run"], np.arange(len(digests) + 1))
        self._rows = dict(zip(digests, map(slice, starts, starts[1:]), strict=True))
        self.series: dict[str, dict[str, dict[str, Points]]] = {digest: {} for digest in digests}
        self._places = {digest: place for place, digest in enumerate(digests)}
        measured = self._table[self._table["client"].isna()]
        rounds, values = (measured[name].to_numpy() for name in ("round", "value"))
        groups = measured.groupby(["run", "split", "metric"], observed=True).indices
        for (run, split, metric), rows in groups.items():
            points = rounds[rows], values[rows]
            self.series[digests[run]].setdefault(split, {})[metric] = points

    def frame(self, digest: str) -> pd.DataFrame:
        """``History.frame`` of a run."""
        rows = self._table[self._rows[digest]]
        return _plain(rows.loc[rows["client"].isna(), ["round", "split", "metric", "value"]])

    def clients(self, digest: str) -> pd.DataFrame:
        """``History.clients`` of a run."""
        rows, starts = self._of_clients
        place = self._places[digest]
        return rows.iloc[starts[place] : starts[place + 1]].reset_index(drop=True)

    @cached_property
    def _of_clients(self) -> tuple[pd.DataFrame, np.ndarray]:
        """The rows of all runs' clients, and the start of each run. Texts are made once."""
        rows = self._table[self._table["client"].notna()]
        starts = np.searchsorted(rows["run"], np.arange(len(self._places) + 1))
        return _plain(rows[["client", "split", "metric", "value", "examples"]]), starts


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Some rows with texts, and whole numbers of examples."""
    types = {**dict.fromkeys(TEXTS, "str"), "examples": "int64"}
    known = {name: kind for name, kind in types.items() if name in rows}
    return rows.astype(known).reset_index(drop=True)


@lru_cache(maxsize=32)  # the last files read: enough for one table, and some 50 MB
def _columns(path: Path, *stamp: int) -> Columns:
    table, _ = _read(path)
    return Columns(table.read(), list(_open(path, *stamp)))


# ---------------------------------------------------------------------------------------- writing


def pack(histories: Sequence[History], smallest: bool = False) -> bytes:
    """A file of runs. The same runs give the same bytes.

    Args:
        smallest: take more time to compress, for published runs.
    """
    parts = []
    for number, history in enumerate(histories):
        last = history.frame["round"][history.frame["split"] == "test"].max()
        parts.append(history.frame.assign(run=number, client=None, examples=None))
        clients = history.clients.astype({"client": object, "examples": object})
        parts.append(clients.assign(run=number, round=0 if np.isnan(last) else last))
    rows = pd.concat(parts)
    arrays = [pa.array(rows[field.name].to_numpy(), field.type) for field in SCHEMA]
    configs = [(history.config, history.meta) for history in histories]
    runs = [{"digest": c.digest, "config": c.as_dict(), "meta": meta} for c, meta in configs]
    plain = json.dumps(runs, separators=(",", ":")).encode()
    known = {b"format": FORMAT, b"runs": lzma.compress(plain), b"sha256": UNSEALED}
    buffer = BytesIO()
    with pq.ParquetWriter(
        buffer,
        SCHEMA,
        compression="zstd",
        compression_level=22 if smallest else None,
        store_schema=False,  # Parquet's own schema suffices
        write_statistics=False,
        data_page_size=2**26,
        dictionary_pagesize_limit=2**26,
    ) as writer:
        writer.write_table(pa.Table.from_arrays(arrays, schema=SCHEMA), row_group_size=2**27)
        writer.add_key_value_metadata(known)
    data = buffer.getvalue()
    before, _, after = data.rpartition(UNSEALED)
    return before + hashlib.sha256(data).hexdigest().encode() + after


def write_runs(
    root: Path, made: Sequence[tuple[Task, History]], keep_params: bool
) -> list[History]:
    """Store runs that trained together under ``root``. Returns them as they will be read.

    They go into one file, so all are stored or none, even if the process is killed. If only some
    were stored, the others would train in another group, whose sums may round differently. Their
    parameters are written before it. Another process may have stored the same runs meanwhile. Both
    results are equal.
    """
    stored, new = [], []
    try:
        for task, history in made:
            meta = {**history.meta, **describe(task, history), "parameters": list(history.params)}
            if keep_params:
                params = {key: value.detach().contiguous() for key, value in history.params.items()}
                data = pack_tensors(params)
                meta["params_sha256"] = hashlib.sha256(data).hexdigest()
                path = params_path(root / safe(history.config.task["name"]), history.config)
                if not path.exists():
                    new.append(path)
                files.write(path, data)
            stored.append(dataclasses.replace(history, meta=json.loads(json.dumps(meta))))
        files.write(file_path(root, [history.config for history in stored]), pack(stored))
    except BaseException:
        for path in new:  # on a full disk they may take the space of the checkpoint
            files.remove(path)
        raise
    return stored


def file_path(root: Path, configs: Sequence[RunConfig]) -> Path:
    """The file for some runs of one task that are stored together."""
    digests = " ".join(config.digest for config in configs)
    name = f"{safe(configs[0].algorithm)}-"
    if len(configs) > 1:
        name += f"{hashlib.sha256(digests.encode()).hexdigest()[:16]}x{len(configs)}"
    else:
        name += digests
    return root / safe(configs[0].task["name"]) / f"{name}.parquet"


def params_path(folder: Path, config: RunConfig) -> Path:
    """The file of a run's final parameters, beside the file with its numbers."""
    return folder / f"{safe(config.algorithm)}-{config.digest}.safetensors"


def safe(name: str) -> str:
    """A file name from a task's or algorithm's name. Users' tasks may be called anything.

    It has at most 150 bytes, which leaves space for a digest.
    """
    return re.sub(r"[^\w-]", "_", name).encode()[:150].decode(errors="ignore") or "_"


def describe(task: Task, history: History) -> dict[str, Any]:
    """The store's additions to the engine's own meta data.

    ``versions``, ``git`` (commit, dirty, None outside a checkout), ``created`` (UTC), ``source`` of
    the task's data, and the task's own values: ``hyperparameters`` (for this algorithm),
    ``client_hyperparameters`` (by client optimizer) and ``settings``. With these, runs with other
    values can be recognised.
    """
    settings = ("rounds", "clients_per_round", "batch_size", "local_epochs")
    return {
        **provenance(),
        "source": task.source,
        "hyperparameters": dict(task.hyperparameters.get(history.config.algorithm, {})),
        "client_hyperparameters": {k: dict(v) for k, v in task.client_hyperparameters.items()},
        "settings": {name: getattr(task, name) for name in settings},
    }


def provenance() -> dict[str, Any]:
    """``versions``, ``git`` (commit, dirty, None outside a checkout) and ``created`` (UTC)."""
    packages = ("fedlib", "torchvision", "numpy", "pandas")
    return {
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,  # includes the devices it was built for
            **{package: installed(package) for package in packages},
        },
        "git": _commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def installed(package: str) -> str | None:
    """The version of a package. None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


@cache
def _commit() -> dict[str, Any] | None:
    """The commit of this fedlib's checkout, and whether files differ from it."""
    package = Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(package), *arguments]
        output = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True, timeout=20)
        return output.strip()

    try:
        # An installed copy may be inside a checkout of something else.
        if Path(git("rev-parse", "--show-toplevel")).resolve() != package.parent:
            return None
        dirty = bool(git("status", "--porcelain", "."))
        return {"commit": git("rev-parse", "HEAD"), "dirty": dirty}
    except (OSError, subprocess.SubprocessError):
        return None


# ---------------------------------------------------------------------------------------- finding

SINGLE = re.compile(r"-([0-9a-f]{16})\.parquet")


def run_files(root: Path) -> Iterator[Path]:
    """The files of runs in a folder and in its subfolders, one per task."""
    if not os.path.isdir(root):  # also for an invalid name
        return
    for pattern in ("*.parquet", "*/*.parquet"):
        for path in sorted(root.glob(pattern)):
            if path.name[0] != ".":  # otherwise it is being written
                yield path
