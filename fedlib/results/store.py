"""The run store: runs on disk, answered from there or computed once and kept."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack

import pandas as pd

from fedlib import engine, files, paths
from fedlib.algorithms.base import Algorithm
from fedlib.arguments import checked
from fedlib.engine.checkpoint import file_stem, read_digests
from fedlib.engine.config import RunConfig, Settings
from fedlib.engine.history import History
from fedlib.engine.run import Execution, combinations, ends, grid_frame, labels, repeated
from fedlib.errors import Error, require, unknown
from fedlib.results import promises
from fedlib.results.archives import archives, open_archive
from fedlib.results.files import (
    Places,
    Stored,
    folders,
    open_run,
    provenance,
    run_path,
    write_runs,
)
from fedlib.task import Task

log = logging.getLogger("fedlib")

# What makes a run (decides its digest) and what only says how to compute it.
SETTINGS = tuple(Settings.__annotations__)
EXECUTION = tuple(Execution.__annotations__)


class Keywords(Settings, Execution, total=False):
    """The keywords of :func:`fedlib.run` that the store takes, and its own."""

    keep_params: bool
    refresh: bool


def published_folders(root: Path) -> list[Path]:
    """Where published runs lie: ``results`` beside a store and ``data/results`` of a checkout."""
    return [root.parent / "results", paths.project_root() / "data" / "results"]


@checked
def merged_overrides(
    overrides: Mapping[str, Any] | None, more: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Common overrides, and a request's over them."""
    return {**(overrides or {}), **(more or {})}


class Store:
    """Runs on disk: answered from there, or computed once and kept.

    A run that is interrupted leaves a checkpoint in ``<root>/.checkpoints``; asked for again, it
    continues there.

    Args:
        root: the store's directory; default ``runs`` under the data root (``FEDLIB_DATA``, else
            ``data/``).
        published: folders with runs of the same layout, unpacked or in zip archives, that are only
            read, by :meth:`load`, ``compare`` and ``redraw``; default ``results`` beside ``root``
            and ``data/results`` of the checkout.

    Example:
        >>> import fedlib, tempfile
        >>> from fedlib.results import Store
        >>> store = Store(tempfile.mkdtemp())
        >>> task = fedlib.load_task("quadratic")
        >>> history = store.run(task, "fedavg", rounds=2, overrides={"local_steps": 1})
        >>> store.has(history.config.digest)
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
        self._places = [Places(folder) for folder in (self.root, *self.published)]
        with suppress(OSError):
            promises.keep(self.root)
            for folder in self.root.glob("*/"):
                files.recover(folder)

    def __repr__(self) -> str:
        return f"Store({str(self.root)!r})"

    # ---------------------------------------------------------------- asking for runs

    @checked
    def run(
        self,
        task: Task,
        algorithm: str | Algorithm | type[Algorithm],
        **keywords: Unpack[Keywords],
    ) -> History:
        """One run, from disk if it is there, else trained and stored.

        Args:
            task, algorithm: see :func:`fedlib.run`.
            keywords: ``rounds``, ``seed``, ``device``, ``backend``, ``dtype``, ``eval_every``,
                ``clients_per_round``, ``overrides``, ``progress``, ``chunk_clients`` of
                :func:`fedlib.run`; ``keep_params`` (default True): store the final parameters too,
                a run stored without them is answered with empty ``History.params``; ``refresh``
                (default False): train again although it is stored.

        Raises:
            Error: an unknown keyword, or anything :func:`fedlib.run` refuses.
        """
        return self.runs(task, [{"algorithm": algorithm}], **keywords)[0]

    @checked
    def runs(
        self, task: Task, requests: Sequence[Mapping[str, Any]], **common: Any
    ) -> list[History]:
        """Several runs of one task; what is missing is trained together.

        Args:
            requests: for each run its keywords over the common ones: ``algorithm``, ``rounds``,
                ``seed``, ``dtype``, ``eval_every``, ``clients_per_round``, ``overrides`` (merged
                with the common overrides, the request's win).
            common: the same keywords, and ``device``, ``backend``, ``progress``, ``chunk_clients``,
                ``keep_params``, ``refresh``.

        Returns:
            one history per request, in order.

        Raises:
            Error: an unknown keyword, or anything :func:`fedlib.run` refuses.
        """
        settings = {key: common.pop(key) for key in ("algorithm", *SETTINGS) if key in common}
        execution = {key: common.pop(key) for key in EXECUTION if key in common}
        keep_params, refresh = common.pop("keep_params", True), common.pop("refresh", False)
        for name, value in (("keep_params", keep_params), ("refresh", refresh)):
            require(isinstance(value, bool), name, value, "true or false")
        for key in common:
            raise unknown("keyword", key, ("algorithm", *Keywords.__annotations__))
        configured = []
        for request in requests:
            for key in request:
                if key not in ("algorithm", *SETTINGS):
                    raise unknown("keyword of a request", key, ("algorithm", *SETTINGS))
            merged = {**settings, **request}
            if "algorithm" not in merged:
                raise Error(
                    f"request {dict(request)!r} names no algorithm; add algorithm='fedavg' or so"
                )
            merged["overrides"] = merged_overrides(
                settings.get("overrides"), request.get("overrides")
            )
            configured.append(engine.configure(task, merged.pop("algorithm"), **merged))
        return self.answer(configured, keep_params=keep_params, refresh=refresh, **execution)

    @checked
    def answer(
        self,
        configured: Sequence[engine.Configured],
        *,
        keep_params: bool = True,
        refresh: bool = False,
        **execution: Unpack[Execution],
    ) -> list[History]:
        """Runs that are configured already, maybe of several tasks; see :meth:`run`.

        What is missing is trained, together where it can be: the repetitions of a run with other
        seeds too, see :func:`fedlib.engine.programs`.

        Args:
            configured: from :func:`fedlib.engine.configure`.
            keep_params, refresh, execution: see :meth:`run`.

        Returns:
            one history per configuration, in order.
        """
        return self._answer(configured, keep_params, refresh, dict(execution))

    @checked
    def grid(
        self, task: Task, algorithm: str | Algorithm | type[Algorithm], **keywords: Any
    ) -> pd.DataFrame:
        """As :func:`fedlib.grid`, answered from disk where possible; every cell is stored as a run.

        Args:
            task, algorithm: see :func:`fedlib.grid`.
            keywords: those of :meth:`run`, with ``keep_params`` False and ``eval_every`` at the
                ends by default; every other one is an axis.

        Raises:
            Error: an axis without values, or anything :func:`fedlib.run` refuses.
        """
        known = Keywords.__annotations__
        common = {key: keywords.pop(key) for key in known if key in keywords}
        seed = common.pop("seed", 0)
        cells = repeated(combinations(keywords), seed)
        if common.get("eval_every") is None:
            common["eval_every"] = ends(task, common.get("rounds"))
        requests = [{"overrides": cell, "seed": each} for each, cell in cells]
        common = {"keep_params": False, "algorithm": algorithm, **common}
        return grid_frame(labels(cells, seed), self.runs(task, requests, **common))

    def _answer(
        self,
        configured: Sequence[engine.Configured],
        keep_params: bool,
        refresh: bool,
        execution: dict[str, Any],
    ) -> list[History]:
        histories: dict[str, History] = {}
        missing: dict[str, engine.Configured] = {}
        unique = {run.config.digest: run for run in configured}
        for digest, run in unique.items():
            stored = None if refresh else self._sound(run.config)
            if stored is None:
                missing[digest] = run
            else:
                histories[digest] = stored

        def keep(made: Sequence[History]) -> None:
            pairs = [(unique[history.config.digest].task, history) for history in made]
            for stored in write_runs(self.root, pairs, keep_params, refresh):
                histories[stored.config.digest] = stored

        execution = {**execution, "checkpoint": self.checkpoints, "together": True, "keep": keep}
        device = execution.get("device", "auto")
        # One call per program: nothing is shared across programs, and what is finished is safe.
        wanted = list(missing.values())
        if wanted:
            provenance()  # now: a checkout may be another one when the runs are stored
        for folder in dict.fromkeys(self.path(run.config).parent for run in wanted):
            files.require_writable(folder)
        for positions in engine.programs(wanted, device):
            engine.execute([wanted[position] for position in positions], **execution)
        if self.checkpoints.is_dir():
            asked = list(unique.values())
            for positions in engine.programs(asked, device):
                self.drop_checkpoint([asked[position].config.digest for position in positions])
        return [histories[run.config.digest] for run in configured]

    def drop_checkpoint(self, digests: Sequence[str]) -> None:
        """Remove what is left of a program's training, whose runs are stored.

        A process may have been killed between storing them and removing their state.
        """
        if self.checkpoints.is_dir():
            files.remove(self.checkpoints / f"{file_stem(digests)}.pt")
            files.clean(self.checkpoints)
            files.remove_if_empty(self.checkpoints)

    def _sound(self, config: RunConfig) -> History | None:
        """The stored run, or None if there is none or it is damaged (then with a warning)."""
        path = self.path(config)
        if not os.path.isdir(path):  # also of a name that nothing can have
            return None
        try:
            return open_run(path).history()
        except Error as problem:
            log.warning("%s; it is trained again", problem)
            return None

    def finished_checkpoints(self) -> list[Path]:
        """Checkpoints that nobody needs: their runs are stored."""
        return [
            path
            for path in sorted(self.checkpoints.glob("*.pt"))
            if (digests := read_digests(path)) and all(self.has(digest) for digest in digests)
        ]

    # ---------------------------------------------------------------- looking

    @property
    def checkpoints(self) -> Path:
        """Where interrupted runs leave their state."""
        return self.root / ".checkpoints"

    @checked
    def path(self, config: RunConfig) -> Path:
        """Where a run of this configuration belongs."""
        return run_path(self.root, config)

    @checked
    def has(self, digest: str) -> bool:
        """Whether the store itself holds the run."""
        return self._places[0].find(digest) is not None

    @checked
    def load(self, digest: str, params: bool = True) -> History:
        """A run by its digest, from the store or else from the published runs.

        Args:
            digest: 16 hex digits.
            params: whether to read the parameters.

        Raises:
            Error: no such run, or it is damaged.
        """
        for places in self._places:
            path = places.find(digest)
            if path is not None:
                return open_run(path).history(params)
        for archive in self._archives():
            if digest in archive:
                return archive[digest].history(params)
        raise Error(f"no run {digest} in {self.root}; see Store.table() or run its notebook")

    @checked
    def stored(self, task: str | None = None, published: bool = False) -> list[Stored]:
        """All sound runs without their numbers, oldest first; damaged ones are logged and left out.

        Args:
            task: only runs of this task.
            published: the published runs as well.
        """
        runs: dict[str, Stored] = {}
        for folder in (self.root, *(self.published if published else ())):
            for path in folders(folder, task):
                try:
                    run = open_run(path)
                except Error as problem:
                    log.warning("%s", problem)
                    continue
                runs.setdefault(run.config.digest, run)
        for archive in self._archives() if published else ():
            for digest, packed in archive.items():
                if task in (None, packed.config.task["name"]):
                    runs.setdefault(digest, packed)
        return sorted(runs.values(), key=lambda run: (run.meta["created"], run.config.digest))

    def _archives(self) -> Iterator[Mapping[str, Stored]]:
        """The published archives; a damaged one is logged and left out."""
        for folder in self.published:
            for path in archives(folder):
                try:
                    yield open_archive(path)
                except Error as problem:
                    log.warning("%s", problem)

    def check(self) -> None:
        """Read every file of every stored and published run; damaged runs are logged."""
        for run in self.stored(published=True):
            try:
                run.check()
            except Error as problem:
                log.warning("%s", problem)

    def table(self) -> pd.DataFrame:
        """All stored runs, oldest first.

        Columns: digest, task, preset, algorithm, rounds, seed, stand_in, diverged, created, path.
        ``seed`` is one number, or text such as ``"init=0 sampling=1 batches=0"`` where they differ;
        ``diverged`` is the round or missing; ``created`` is UTC.
        """

        def seed(seeds: Mapping[str, int]) -> int | str:
            alike = len(set(seeds.values())) == 1
            return seeds["init"] if alike else " ".join(f"{k}={v}" for k, v in seeds.items())

        runs = self.stored()
        columns = {
            "digest": [run.config.digest for run in runs],
            "task": [run.config.task["name"] for run in runs],
            "preset": [run.config.task["preset"] for run in runs],
            "algorithm": [run.config.algorithm for run in runs],
            "rounds": [run.config.rounds for run in runs],
            "seed": [seed(run.config.seeds) for run in runs],
            "stand_in": [bool(run.config.task["stand_in"]) for run in runs],
            "diverged": pd.array([run.meta["diverged"] for run in runs], dtype="Int64"),
            "created": [run.meta["created"] for run in runs],
            "path": [str(run.path) for run in runs],
        }
        return pd.DataFrame(columns)
