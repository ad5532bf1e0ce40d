"""Many published runs in one file: ``<results>/<name>.zip.xz``.

An archive holds run folders as a store has them (:mod:`fedlib.results.files`), thinned to what
figures, tables and comparisons read (:func:`thin`). The zip is compressed as a whole, since runs
are alike: an eighth of what compressing each file takes. Plain zips and unpacked runs in a folder
of published runs are read just the same.
"""

from __future__ import annotations

import dataclasses
import logging
import lzma
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path, PurePosixPath
from zipfile import ZIP_STORED, ZipFile, ZipInfo
from zipfile import Path as ZipPath

from fedlib import files
from fedlib.engine.history import WINDOW_ROUNDS, History
from fedlib.errors import Error
from fedlib.results.files import (
    BROKEN,
    DIGEST,
    Damaged,
    Stored,
    copy_run,
    open_run,
    pack,
    run_path,
)

log = logging.getLogger("fedlib")
# Significant digits of published numbers: what float32 has. More would double the archives.
DIGITS = 7


def thin(history: History, clients: bool = True) -> History:
    """A run without what no figure, table, comparison or rule of selection reads.

    Everything measured stays at the rounds of an evaluation, in the first round and in the last
    ``WINDOW_ROUNDS``, over which training losses are averaged; so all test metrics stay. Training
    losses and communication of the rounds between are left out, and the parameters.

    Args:
        clients: whether the values per client stay.

    Returns:
        a copy; its ``meta["thinned"]`` is true.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> history = fedlib.run(task, "fedavg", rounds=300, eval_every=100)
        >>> list(thin(history).series("loss", "train").index[:4])
        [1, 100, 200, 201]
    """
    frame, rounds = history.frame, history.frame["round"]
    evaluated = rounds[frame["split"] == "test"]
    last = rounds > history.config.rounds - WINDOW_ROUNDS
    return dataclasses.replace(
        history,
        frame=frame[rounds.isin(evaluated) | (rounds == 1) | last].reset_index(drop=True),
        clients=history.clients if clients else history.clients[:0],
        params={},
        meta={**history.meta, "thinned": True},
    )


def rounded(history: History) -> History:
    """A run whose measured numbers have :data:`DIGITS` significant digits; whole ones stay."""

    def short(value: float) -> float:
        return value if value.is_integer() else float(f"{value:.{DIGITS}g}")

    frame, clients = (
        part.assign(value=part["value"].map(short)) for part in (history.frame, history.clients)
    )
    return dataclasses.replace(history, frame=frame, clients=clients)


def write_archive(
    results: Path, name: str, histories: Sequence[History], clients_of: Collection[str] = ()
) -> Path:
    """Publish runs, thinned and rounded, in place of an earlier archive of that name.

    The same runs give the same bytes.

    Args:
        results: the folder of published runs, for instance ``data/results``.
        histories: from the store; equal runs once.
        clients_of: tasks whose values per client are kept.

    Returns:
        the archive.

    Raises:
        Error: no histories, or one that does not come from a store.
    """
    by_folder = {run_path(Path(), history.config).as_posix(): history for history in histories}
    if not by_folder:
        raise Error(f"archive {name}: no runs to publish")
    buffer = BytesIO()
    with ZipFile(buffer, "w", ZIP_STORED) as archive:
        for folder, history in sorted(by_folder.items()):
            if "created" not in history.meta:
                raise Error(f"archive {name}: {history!r} does not come from a store")
            thinned = rounded(thin(history, history.config.task["name"] in clients_of))
            # These two are of the run's own folder.
            meta = {k: v for k, v in thinned.meta.items() if k not in ("files", "parameters")}
            for file, data in pack(thinned, meta).items():
                member = ZipInfo(f"{folder}/{file}")  # of 1980, whenever it is written
                member.create_system, member.external_attr = 3, 0o644 << 16
                archive.writestr(member, data)
    target = results / f"{name}.zip.xz"
    files.write(target, lzma.compress(buffer.getvalue(), preset=9 | lzma.PRESET_EXTREME))
    return target


def archives(results: Path) -> list[Path]:
    """The archives of a folder of published runs, in order of their names."""
    return sorted((*results.glob("*.zip"), *results.glob("*.zip.xz")))


def restore(archive: Path, root: Path) -> tuple[int, int]:
    """Put an archive's runs into a store under ``root``, beside what it has.

    They have no parameters, so whoever asks the store for these trains the run again.

    Returns:
        how many were put there, and how many the archive has.

    Raises:
        Error: the archive or one of its runs is damaged, or the store cannot be written.
    """
    runs = open_archive(archive).values()
    return sum(copy_run(run, root) for run in runs), len(runs)


def open_archive(path: Path) -> Mapping[str, Stored]:
    """The runs of an archive by digest; their numbers are read when they are asked for.

    An archive is read once per process, and again when the file changes. Damaged runs in it are
    logged and left out.

    Raises:
        Error: the archive is damaged.
    """
    try:
        stat = path.stat()
        runs, problems = _open(path, stat.st_mtime_ns, stat.st_size)
    except (*BROKEN, lzma.LZMAError) as problem:
        why = " ".join(str(problem).split())
        raise Damaged(
            f"damaged archive {path}: it cannot be read ({why}); delete it and publish it again",
            path,
        ) from None
    for damage in problems:
        log.warning("%s", damage)
    return runs


@lru_cache(maxsize=256)
def _open(path: Path, *stamp: int) -> tuple[Mapping[str, Stored], Sequence[Error]]:
    # From memory: the file may be replaced at any time, and readers may fork.
    packed = path.read_bytes()
    archive = ZipFile(BytesIO(lzma.decompress(packed) if path.suffix == ".xz" else packed))
    archive.filename = str(path)  # for messages
    folders = dict.fromkeys(PurePosixPath(name).parent for name in archive.namelist())
    runs, problems = {}, []
    for folder in folders:
        if DIGEST.search(folder.name):
            try:
                run = open_run(ZipPath(archive, f"{folder}/"))
                runs[run.config.digest] = run
            except Error as problem:
                problems.append(problem)
    return runs, problems
