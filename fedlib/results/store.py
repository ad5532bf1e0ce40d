"""The run store: runs on disk, read from there or computed once and kept."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from fedlib import engine, files, paths
from fedlib.algorithms.base import Algorithm
from fedlib.arguments import checked
from fedlib.engine import ranks
from fedlib.engine.checkpoint import file_stem
from fedlib.engine.config import TRAINING_KEYS, Settings, unnamed
from fedlib.engine.history import History, frame_of
from fedlib.engine.run import Execution, combinations, ends, joined, repeated
from fedlib.errors import Error, require_known, unknown
from fedlib.results import reading
from fedlib.results.files import (
    SINGLE,
    Damaged,
    Stored,
    open_run,
    open_runs,
    provenance,
    run_files,
    safe,
    write_runs,
)
from fedlib.task import Task

log = logging.getLogger("fedlib")

# Fields of a configuration in :meth:`Store.frame`.
FIELDS = ("rounds", "clients_per_round", *TRAINING_KEYS, "eval_every", "eval_last", "dtype")


class Keywords(Settings, Execution, total=False):
    """The keywords of :func:`fedlib.run` that the store accepts, and its own."""

    keep_params: bool
    refresh: bool


def published_folders(root: Path) -> list[Path]:
    """The folders of published runs: ``results`` beside a store, ``data/results`` of a checkout."""
    return [root.parent / "results", paths.project_root() / "data" / "results"]


@checked
def merged_overrides(
    overrides: Mapping[str, Any] | None, more: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Common overrides, updated by a request's."""
    return {**(overrides or {}), **(more or {})}


class Store:
    """Runs on disk: read from there, or computed once and kept.

    An interrupted run leaves a checkpoint in ``<root>/.checkpoints``, and the next request for it
    continues there.

    Args:
        root: the store's directory. Default: ``runs`` under the data root (``FEDLIB_DATA``, else
            ``data/``).
        published: folders with files of runs that are only read, by :meth:`load`, ``compare`` and
            ``redraw``. Default: ``results`` beside ``root`` and ``data/results`` of the checkout.

    Example:
        >>> import fedlib, tempfile
        >>> from fedlib.results import Store
        >>> store = Store(tempfile.mkdtemp())
        >>> task = fedlib.load_task("quadratic")
        >>> history = store.run(task, "fedavg", rounds=2, overrides={"local_steps": 1})
        >>> history.config.digest in store.paths()
        True
    """

    @checked
    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        published: Sequence[str | os.PathLike[str]] | None = None,
    ) -> None:
        self.root = Path(root) if root is not None else paths.data_root() / "runs"
        chosen = published_folders(self.root) if published is None else published
        folders = [Path(folder) for folder in chosen]
        self.published = list({folder.resolve(): folder for folder in folders}.values())

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    # ---------------------------------------------------------------- asking for runs

    @checked
    def run(
        self, task: Task, algorithm: str | Algorithm | type[Algorithm], **keywords: Any
    ) -> History:
        """One run, from disk if it is stored, otherwise trained and stored.

        Args:
            task, algorithm: see :func:`fedlib.run`.
            keywords: ``rounds``, ``seed``, ``device``, ``backend``, ``dtype``, ``eval_every``,
                ``eval_last``, ``clients_per_round``, ``overrides``, ``progress``,
                ``chunk_clients``, ``callback`` of :func:`fedlib.run` (a run from disk does not call
                it, and a run that it ends is not stored). ``keep_params`` (default True) also
                stores the final parameters. Without them a stored run has empty
                ``History.params``. ``refresh`` (default False) trains again although the run is
                stored. All other keywords are hyperparameters, as in ``overrides``.

        Raises:
            Error: an unknown keyword, or anything :func:`fedlib.run` refuses.
        """
        own = {key: keywords.pop(key) for key in Keywords.__annotations__ if key in keywords}
        own["overrides"] = joined(own.get("overrides"), keywords)
        return self.runs(task, [{"algorithm": algorithm}], **own)[0]

    @checked
    def runs(
        self, task: Task, requests: Sequence[Mapping[str, Any]], **common: Any
    ) -> list[History]:
        """Several runs of one task. Missing runs are trained together.

        Args:
            requests: for each run its keywords, which replace the common ones: ``algorithm``,
                ``rounds``, ``seed``, ``dtype``, ``eval_every``, ``eval_last``,
                ``clients_per_round``, ``overrides`` (merged with the common overrides).
            common: the same keywords, and ``device``, ``backend``, ``progress``, ``chunk_clients``,
                ``callback``, ``keep_params``, ``refresh``.

        Returns:
            One history per request, in order.

        Raises:
            Error: an unknown keyword, or anything :func:`fedlib.run` refuses.
        """
        known, settings = Keywords.__annotations__, ("algorithm", *Settings.__annotations__)
        execution = {key: common.pop(key) for key in known if key in common and key not in settings}
        for key in common:
            if key not in settings:
                raise unknown("keyword", key, ("algorithm", *known))
        configured = []
        for request in requests:
            for key in request:
                require_known("keyword of a request", key, settings)
            merged = {**common, **request}
            if "algorithm" not in merged:
                what = f"request {dict(request)!r} names no algorithm"
                raise Error(f"{what}: add one, for instance algorithm='fedavg'")
            given = common.get("overrides"), request.get("overrides")
            merged["overrides"] = merged_overrides(*given)
            configured.append(engine.configure(task, merged.pop("algorithm"), **merged))
        return self.answer(configured, **execution)

    @checked
    def answer(
        self,
        configured: Sequence[engine.Configured],
        *,
        keep_params: bool = True,
        refresh: bool = False,
        **execution: Unpack[Execution],
    ) -> list[History]:
        """Runs with given configurations, possibly of several tasks. See :meth:`run`.

        Missing runs are trained, together if possible, see :func:`fedlib.engine.programs`. Your own
        task or class without a version is trained every time and not stored, which is logged.

        Args:
            configured: results of :func:`fedlib.engine.configure`.
            keep_params, refresh, execution: see :meth:`run`.

        Returns:
            One history per configuration, in order.
        """
        alone = {place: run for place, run in enumerate(configured) if unnamed(run)}
        unique = {run.config.digest: run for run in configured if not unnamed(run)}
        paths = {} if refresh else self.paths()
        found = {digest: sound(paths[digest], digest) for digest in unique if digest in paths}
        histories = {digest: run for digest, run in found.items() if run is not None}
        histories = ranks.first(histories)
        missing = [run for digest, run in unique.items() if digest not in histories]

        def keep(trained: Sequence[History]) -> None:
            pairs = [(unique[history.config.digest].task, history) for history in trained]
            own = ranks.number() == 0 and "stopped" not in trained[0].meta
            for stored in write_runs(self.root, pairs, keep_params) if own else trained:
                histories[stored.config.digest] = stored

        for name in {run.config.task["name"] for run in missing}:
            files.require_writable(self.root / safe(name))
        if missing:
            provenance()  # now, as the checkout may have changed when the runs are stored
            engine.execute(missing, checkpoint=self.checkpoints, keep=keep, **execution)
        if any(self.checkpoints.glob("*.pt")):
            asked = list(unique.values())
            for positions in engine.programs(asked, execution.get("device", "auto")):
                self.drop_checkpoint([asked[position].config.digest for position in positions])
        for run in alone.values():
            _tell(run.task.number, unnamed(run))
        trained = engine.execute(list(alone.values()), **execution) if alone else []
        fresh = dict(zip(alone, trained, strict=True))
        return [
            fresh[place] if place in fresh else histories[run.config.digest]
            for place, run in enumerate(configured)
        ]

    @checked
    def grid(
        self, task: Task, algorithm: str | Algorithm | type[Algorithm], **keywords: Any
    ) -> pd.DataFrame:
        """As :func:`fedlib.grid`, read from disk if possible. Every cell is stored as a run.

        Args:
            task, algorithm: see :func:`fedlib.grid`.
            keywords: those of :meth:`run`, with ``keep_params`` False and ``eval_every`` at the
                ends by default. Every other keyword is an axis.

        Raises:
            Error: an axis without values, or anything :func:`fedlib.run` refuses.
        """
        known = Keywords.__annotations__
        common = {key: keywords.pop(key) for key in known if key in keywords}
        seed = common.pop("seed", 0)
        cells = repeated(combinations(keywords), seed)
        if common.get("eval_every") is None:
            common["eval_every"] = ends(task, common.get("rounds"))
        requests = [{"overrides": cell.overrides, "seed": cell.seed} for cell in cells]
        common = {"keep_params": False, "algorithm": algorithm, **common}
        return frame_of(self.runs(task, requests, **common), [cell.columns for cell in cells])

    def drop_checkpoint(self, digests: Sequence[str]) -> None:
        """Remove the checkpoint of runs that are stored.

        A process may have been killed between storing them and removing their state.
        """
        files.remove(self.checkpoints / f"{file_stem(digests)}.pt")

    # ---------------------------------------------------------------- looking

    @property
    def checkpoints(self) -> Path:
        """The folder of the states of interrupted runs."""
        return self.root / ".checkpoints"

    @checked
    def load(self, digest: str, params: bool = True) -> History:
        """A run by its digest, from the store or else from the published runs.

        Args:
            digest: 16 hex digits.
            params: whether to read the parameters.

        Raises:
            Error: the run does not exist, or is damaged.
        """
        if not re.fullmatch("[0-9a-f]{16}", digest):
            raise Error(f"run digest is {digest!r}, but needs 16 hex digits: see Store.frame()")
        path = self.paths().get(digest)
        if path is not None:
            return open_run(path, digest).history(params)
        for run in self.stored(published=True):
            if run.config.digest == digest:
                return run.history(params)
        raise Error(f"no run {digest} in {self.root}: see Store.frame() or run its notebook")

    @checked
    def stored(self, published: bool = False) -> list[Stored]:
        """All intact runs without their numbers, oldest first. Damaged ones are logged, not listed.

        If a run was published twice, the newer one counts, as it may have more evaluations.

        Args:
            published: the published runs as well.
        """
        runs: dict[str, Stored] = {}
        for folder in self.published if published else ():
            for path in run_files(folder):
                for digest, run in _sound_runs(path).items():
                    runs[digest] = max(runs.get(digest, run), run, key=_created)
        for path in sorted(run_files(self.root), key=_written):  # the newer file counts
            runs |= _sound_runs(path)
        return sorted(runs.values(), key=lambda run: (run.meta["created"], run.config.digest))

    def paths(self) -> dict[str, Path]:
        """The store's own files by the digests of the runs in them.

        If a file has one run, its name identifies the run, so the file is not read.
        """
        known: dict[str, Path] = {}
        for path in sorted(run_files(self.root), key=_written):
            single = SINGLE.search(path.name)
            known |= dict.fromkeys([single[1]] if single else _sound_runs(path), path)
        return known

    def check(self) -> None:
        """Read every file of stored and published runs. Damaged runs are logged."""
        for run in self.stored(published=True):
            try:
                run.params()
            except Error as problem:
                log.warning("%s", problem)

    def frame(self, published: bool = True) -> pd.DataFrame:
        """All stored runs, one per row, oldest first. Damaged runs are left out.

        Args:
            published: the published runs as well.

        Columns: ``digest``, ``task``, ``preset``, ``data`` (its fingerprint), ``stand_in``,
        ``task_seed``, ``algorithm``, ``client_optimizer``, ``rounds``, ``clients_per_round``,
        ``batch_size``, ``local_epochs``, ``local_steps``, ``eval_every``, ``eval_last``, ``dtype``,
        ``seed`` (of the run, missing if its three differ) and ``seed.init``, ``seed.sampling``,
        ``seed.batches``, ``diverged`` (the round, or missing), ``seconds``, ``created``, ``path``
        (of its file). Each hyperparameter (see :func:`fedlib.results.reading.hyperparameters`) and
        each task option (``option.alpha``) also has a column, missing for runs without it, with
        lists as tuples. Test metrics and the training loss have the mean at the end from
        :meth:`History.final` (``final.accuracy``, ``final.train_loss``) and the last value
        (``last.accuracy``).
        """
        runs = self.stored(published=published)
        frame = pd.DataFrame([row for run in runs for row in _rows(run)])
        return frame.astype({"diverged": "Int64", "seed": "Int64"}) if len(frame) else frame


def sound(path: Path, digest: str) -> History | None:
    """A run in a file of a store, or None with a warning if it is damaged.

    Raises:
        Unreadable: it may be intact, and training it again would overwrite it.
    """
    try:
        return open_run(path, digest).history()
    except Damaged as problem:
        log.warning("%s. It is trained again", problem)
        return None


def _created(run: Stored) -> str:
    return str(run.meta["created"])


def _written(path: Path) -> int:
    """The time when a file was written, or 0 if it is gone or a link to nowhere."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _sound_runs(path: Path) -> Mapping[str, Stored]:
    """The runs in a file. A damaged file has none, and is logged."""
    try:
        return open_runs(path)
    except Error as problem:
        log.warning("%s", problem)
        return {}


def _rows(run: Stored) -> Iterator[dict[str, Any]]:
    """A run's row of :meth:`Store.frame`, or nothing if it is damaged."""
    config, task, seeds = run.config, run.config.task, run.config.seeds
    row = {
        "digest": config.digest,
        "task": task["name"],
        "preset": task["preset"],
        "data": task["data"],
        "stand_in": bool(task["stand_in"]),
        "task_seed": task["seed"],
        "algorithm": config.algorithm,
        "client_optimizer": reading.client_optimizer(run),
        **{name: getattr(config, name) for name in FIELDS},
        "seed": seeds["init"] if len(set(seeds.values())) == 1 else None,
        **{f"seed.{name}": value for name, value in seeds.items()},
        "diverged": run.meta["diverged"],
        "seconds": run.meta.get("seconds"),
        "created": run.meta["created"],
        "path": str(run.path),
    }
    options = {f"option.{name}": value for name, value in task["options"].items()}
    row |= {**reading.hyperparameters(run), **options, **row}
    for history in reading.read([run]):
        for name in history.metrics():
            row[f"last.{name}"] = history.points(name)[1][-1]
            row[f"final.{name}"] = history.final(name)
        if "loss" in history.metrics("train"):
            row["last.train_loss"] = history.points("loss", "train")[1][-1]
            row["final.train_loss"] = history.final("loss", "train")
        yield {key: tuple(v) if isinstance(v, list) else v for key, v in row.items()}


@cache
def _tell(task: str, why: str) -> None:
    """Log why a run is not stored, once per task and reason."""
    # A separate logger, so that the command line shows it, and no other warning.
    logging.getLogger("fedlib.unstored").warning("not stored: %s", why)
