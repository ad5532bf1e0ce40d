"""Published runs: many in one file, ``<results>/<name>.parquet``, kept in git.

A published file has the form of a store's (:mod:`fedlib.results.files`). Its runs keep only the
values that figures, tables and comparisons read (:func:`thin`), compressed as much as possible.
"""

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path

from fedlib import files
from fedlib.engine.history import WINDOW_ROUNDS, History
from fedlib.errors import Error
from fedlib.results.files import file_path, open_runs, pack

# Significant digits of published numbers, those of float32.
DIGITS = 7


def thin(history: History, clients: bool = True) -> History:
    """A run without the numbers that no figure, table, comparison or rule of selection reads.

    All values stay at the rounds of an evaluation, in the first round and in the last
    ``WINDOW_ROUNDS``, over which training losses are averaged. So all test metrics stay. Training
    losses and communication of other rounds are left out, and so are the parameters.

    Args:
        clients: whether the values per client stay.

    Returns:
        A copy with ``meta["thinned"]`` true.

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
    """A run with its measured numbers rounded to :data:`DIGITS` significant digits."""

    def short(value: float) -> float:
        return value if value.is_integer() else float(f"{value:.{DIGITS}g}")

    frame, clients = (
        part.assign(value=part["value"].map(short)) for part in (history.frame, history.clients)
    )
    return dataclasses.replace(history, frame=frame, clients=clients)


def publish(
    results: Path, name: str, histories: Sequence[History], clients_of: Collection[str] = ()
) -> Path:
    """Publish runs, thinned and rounded, replacing an earlier file with some of them.

    The same runs give the same bytes.

    Args:
        results: the folder of published runs, for instance ``data/results``.
        histories: histories from the store. Equal runs are published once.
        clients_of: tasks whose values per client are kept.

    Returns:
        The file.

    Raises:
        Error: there are no histories, one does not come from a store, or a file of that name has
            other runs.
    """
    by_path = {file_path(Path(), [history.config]).as_posix(): history for history in histories}
    if not by_path:
        raise Error(f"{name}: no runs to publish")
    short = []
    for _, history in sorted(by_path.items()):
        if "created" not in history.meta:
            raise Error(f"{name}: {history!r} does not come from a store")
        thinned = rounded(thin(history, history.config.task["name"] in clients_of))
        meta = {k: v for k, v in thinned.meta.items() if k not in ("parameters", "params_sha256")}
        short.append(dataclasses.replace(thinned, meta=meta))
    target = results / f"{name}.parquet"
    before = open_runs(target) if target.is_file() else ()
    if lost := set(before) - {history.config.digest for history in short}:
        what = f"{len(lost)} runs of {target} are not among these {len(short)}"
        raise Error(f"{what}, and would be lost: give another --name, or remove the file first")
    files.write(target, pack(short, smallest=True))
    return target
