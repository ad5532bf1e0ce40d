"""Repeating published runs: they are trained again from scratch, and their numbers are compared.

Only the configuration is taken from a published run. The task is loaded and the method is built
from the values of its hyperparameters. The run trains only if both give exactly the published
configuration, by its hash. Each run trains alone, with its original number of threads. Nothing is
stored.

**When two runs agree.** A run that was trained alone gives the same bits on the same kind of
processor. Other processors have other kernels, and a row among others is summed in another order
than a row alone, so single operations differ in their last bits. Training amplifies these
differences like any other noise, until some test examples are classified differently. So a final
value counts as repeated within :func:`tolerance`: its variation between evaluations, or the
resolution of this many test examples.
"""

import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from fedlib import algorithms, datasets, engine, files, process
from fedlib.engine.config import TRAINING_KEYS, Configured
from fedlib.engine.device import resolve_device
from fedlib.engine.history import History
from fedlib.errors import Error, unknown
from fedlib.reproduction.matching import FOUND
from fedlib.results.files import Stored, open_runs, run_files
from fedlib.results.published import rounded, thin
from fedlib.results.reading import hyperparameters
from fedlib.task import Task
from fedlib.tasks import TASKS, load_task, scale

# The final value of a run is of the first of these metrics that it has. The first two are shares of
# the test examples.
SHARES = ("accuracy", "recall_at_5")
METRICS = (*SHARES, "mse_x1000", "loss")
# The allowed difference from a published error, relative to it: half a percent.
OF_AN_ERROR = 0.005
# The number of last evaluations that give a run's own variation.
EVALUATIONS = 11
# Seconds that are added to a run's own for loading its task.
LOADING = 1.0


def published(folder: Path, names: Sequence[str] = (), preset: str | None = None) -> list[Stored]:
    """The runs in a folder of published ones, each once, in the files' order.

    Args:
        names: names of notebooks or files, ``12``, ``12_emnist_cr`` or ``12_emnist_cr_laptop``.
            Default: all.
        preset: only runs of the tasks that this preset loads.

    Raises:
        Error: no runs, or a name that none of them has.
    """
    paths = list(run_files(folder))
    stems = [path.stem for path in paths]
    for name in names:
        if not any(_means(name, stem) for stem in stems):
            raise unknown("published notebook", name, stems)
    runs: dict[str, Stored] = {}
    for path in paths:
        if not names or any(_means(name, path.stem) for name in names):
            for digest, run in open_runs(path).items():
                runs[digest] = max(runs.get(digest, run), run, key=lambda run: run.meta["created"])
    if preset is not None:
        runs = {digest: run for digest, run in runs.items() if _at(run, preset)}
    if not runs:
        hint = "" if paths else ": they come with a checkout of fedlib: run this in one"
        raise Error(f"no published runs of this kind in {folder}{hint}")
    return list(runs.values())


def devices(device: str) -> tuple[set[str], str]:
    """The kinds of devices that runs are repeated on, and the GPU for runs that were made on one.

    Args:
        device: ``"cpu"`` or ``"cuda"`` takes only runs made on this kind. ``"auto"`` takes both, if
            both are available.

    Raises:
        Error: a device that is not available.
    """
    where = resolve_device(device)
    return {where.type} | ({"cpu"} if device == "auto" else set()), str(where)


def possible(
    runs: Sequence[Stored], kinds: Collection[str], data_root: Path | None
) -> tuple[list[Stored], Counter[str]]:
    """The runs that can be repeated here, and the number of the others by reason.

    Args:
        kinds: kinds of devices, from :func:`devices`.
    """
    prepared = datasets.store.prepared_names(data_root)
    reasons = [obstacle(run, kinds, prepared) for run in runs]
    good = [run for run, reason in zip(runs, reasons, strict=True) if not reason]
    return good, Counter(reason for reason in reasons if reason)


def _means(name: str, stem: str) -> bool:
    name = Path(name).stem
    return stem == name or stem.startswith(f"{name}_")


def _at(run: Stored, preset: str) -> bool:
    task = run.config.task
    return bool(task["preset"] == (scale(task["name"], preset) if _ours(run) else preset))


def _ours(run: Stored) -> bool:
    """Whether a run's task is from the catalogue."""
    return run.config.task["name"] in TASKS and "version" not in run.config.task


def obstacle(run: Stored, kinds: Collection[str], prepared: Collection[str]) -> str:
    """Why a run cannot be repeated here, and what to do about it. Empty if it can.

    Args:
        kinds: kinds of devices that runs are repeated on: ``"cpu"``, ``"cuda"``.
        prepared: the names of the data sets that are prepared here.
    """
    task = run.config.task
    if not _ours(run):
        number = run.path.stem.split("_")[0]
        return f"of tasks that a notebook makes itself: fedlib reproduce {number}"
    if kind(run) not in kinds:
        place = "on a GPU" if kind(run) == "cuda" else "on a CPU"
        return f"made {place}: --device {kind(run)} where there is one"
    name = task["options"].get("data")
    needed = name is not None and not task["stand_in"] and not datasets.CATALOGUE[name].built_in
    if needed and name not in prepared:
        return f"of data that are not prepared ({name}): fedlib data prepare --preset laptop"
    return ""


def kind(run: Stored) -> str:
    """The kind of a run's device: ``"cpu"`` or ``"cuda"``."""
    return "cpu" if run.meta["device"] == "cpu" else "cuda"


def seconds(run: Stored) -> float:
    """The estimated seconds of a run: its own, and :data:`LOADING`.

    The seconds of configurations that trained together are divided among them.
    """
    return float(run.meta["seconds"] / run.meta["configurations"]) + LOADING


def sample(
    runs: Sequence[Stored], seed: int, count: int | None = None, minutes: float | None = None
) -> list[Stored]:
    """Runs drawn at random, one after the other. Runs that no longer fit are left out.

    Args:
        count: at most this many runs.
        minutes: the limit of their total estimate. See :func:`seconds`.
    """
    order = list(runs)
    random.Random(seed).shuffle(order)
    left, chosen = 60 * (math.inf if minutes is None else minutes), list[Stored]()
    for run in order:
        if len(chosen) == count:
            break
        if seconds(run) <= left:
            left -= seconds(run)
            chosen.append(run)
    return chosen


@dataclass(frozen=True)
class Repeated:
    """A published run compared with the same run now.

    Attributes:
        digest, file, task, algorithm: the run, and the file that it is published in.
        metric: metric of the final values. See :meth:`fedlib.engine.history.History.final`.
        published, now: the final values. NaN if it diverged.
        difference: difference of the final values.
        tolerance: see :func:`tolerance`.
        bit_equal: whether all published numbers are equal, at their seven digits.
        agrees: whether the final values are equal within the tolerance.
        reason: why it could not be trained, else empty.
        seconds: its training time.
    """

    digest: str
    file: str
    task: str
    algorithm: str
    metric: str = ""
    published: float = math.nan
    now: float = math.nan
    difference: float = math.nan
    tolerance: float = math.nan
    bit_equal: bool = False
    agrees: bool = False
    reason: str = ""
    seconds: float = 0.0

    @property
    def verdict(self) -> str:
        """The result in a word."""
        if self.reason:
            return f"not trained: {self.reason}"
        return "bit-equal" if self.bit_equal else "agrees" if self.agrees else "differs"


def repeat(runs: Sequence[Stored], data_root: Path | None, device: str) -> Iterator[Repeated]:
    """Train published runs again, one after the other, grouped by task.

    Args:
        data_root: folder of prepared data. Runs on stand-ins get these, prepared or not.
        device: device for runs that were made on a GPU.
    """
    by_task: dict[str, list[Stored]] = {}
    for run in runs:
        by_task.setdefault(repr(run.config.task), []).append(run)
    with tempfile.TemporaryDirectory() as nothing:
        for group in by_task.values():
            stand_in = group[0].config.task["stand_in"]
            root = Path(nothing) if stand_in else data_root
            task: Task | None = None
            for run in group:
                which = run.config.digest, run.path.stem, run.config.task["name"]
                before, named = time.perf_counter(), (*which, run.config.algorithm)
                try:
                    task = task_of(run, root) if task is None else task
                    asked = configured(run, task)
                except Error as problem:
                    yield Repeated(*named, reason=str(problem))
                    continue
                where = "cpu" if kind(run) == "cpu" else device
                with process.threads(run.meta["threads"], others=False):
                    how = {"device": where, "backend": run.meta["backend"]}
                    (history,) = engine.execute([asked], **how)
                took = time.perf_counter() - before
                yield Repeated(*named, **_compared(run, history, task), seconds=took)


def task_of(run: Stored, data_root: Path | None) -> Task:
    """The task of a published run."""
    task = run.config.task
    found = (*FOUND, "centralized")  # options that loading adds
    options = {key: value for key, value in task["options"].items() if key not in found}
    return load_task(task["name"], task["preset"], task["seed"], data_root, **options)


def configured(run: Stored, task: Task) -> Configured:
    """A published run's configuration, made again on its task from its hyperparameters' values.

    Raises:
        Error: it differs, or this fedlib refuses it.
    """
    config, values = run.config, hyperparameters(run)
    optimizer = values["client_optimizer"]
    known = algorithms.hyperparameters(config.algorithm, None if optimizer == "sgd" else optimizer)
    # A description lacks fields that were added later: they have their defaults, not the task's.
    named = {**known, **{key: values[key] for key in (*known, *TRAINING_KEYS) if key in values}}
    named = {key: value for key, value in named.items() if value is not None}
    asked = engine.configure(
        task,
        config.algorithm,
        rounds=config.rounds,
        seed=config.seeds,
        dtype=config.dtype,
        eval_every=config.eval_every,
        eval_last=config.eval_last,
        clients_per_round=config.clients_per_round,
        overrides=named,
    )
    if asked.config.task["data"] != config.task["data"]:
        raise Error("the data here are of another edition")
    if asked.config.digest != config.digest:
        raise Error(f"its configuration has changed to {asked.config.digest}")
    return asked


def _compared(run: Stored, trained: History, task: Task) -> dict[str, Any]:
    """The fields of :class:`Repeated` about the numbers."""
    old, new = run.history(params=False), rounded(thin(trained))
    metric = next(name for name in METRICS if name in old.metrics())
    published, now = old.final(metric), new.final(metric)
    allowed = tolerance(old, metric, int(task.test.sizes.sum()))
    agrees = abs(now - published) <= allowed or (math.isnan(published) and math.isnan(now))
    values = {"metric": metric, "published": published, "now": now, "tolerance": allowed}
    values |= {"difference": now - published, "bit_equal": equal(old, new), "agrees": agrees}
    return values


def equal(old: History, new: History) -> bool:
    """Whether all numbers of a published run equal those of another, rounded equally."""
    pairs = [(old.frame, new.frame)] + ([(old.clients, new.clients)] if len(old.clients) else [])
    return old.diverged == new.diverged and all(
        first.astype(object).reset_index(drop=True).equals(second.astype(object))
        for first, second in pairs
    )


def tolerance(history: History, metric: str, examples: int) -> float:
    """The largest difference of a final value from a published one that still counts as the same.

    It is the larger of two. The first is twice the standard error of a difference of two final
    values, from the variation of the last evaluations: their second differences in the second half
    of the run, at most :data:`EVALUATIONS`, which a steady rise does not affect. The second is the
    standard error of a share of this many test examples, sqrt(p (1 - p) / n), or for an error
    :data:`OF_AN_ERROR` of it. NaN for a run that diverged.
    """
    if history.diverged is not None:
        return math.nan
    rounds, values = history.points(metric)
    late = np.diff(values[len(values) // 2 :][-EVALUATIONS:], 2)
    variance = float(np.square(late).mean() / 6) if len(late) > 2 else 0.0
    averaged = max(1, int((rounds > rounds[-1] - history.window()).sum()))
    value = history.final(metric)
    share = math.sqrt(max(value * (1 - value), 1 / examples) / examples)  # at least one example
    known = share if metric in SHARES else OF_AN_ERROR * abs(value)
    return max(2 * math.sqrt(2 * variance / averaged), known)


# ------------------------------------------------------------------------------------ what is said


@dataclass
class Report:
    """The results of repeating some published runs.

    Attributes:
        asked: number of requested runs.
        left_out: number of runs that cannot be repeated here, by reason.
        chosen: the runs that are repeated.
        rows: the results so far.
    """

    asked: int
    left_out: Counter[str]
    chosen: Sequence[Stored]
    rows: list[Repeated] = field(default_factory=list)

    def follow(self, rows: Iterable[Repeated], quiet: bool) -> None:
        """Collect rows as they come, with a line each and, on a terminal, a bar of their seconds.

        Args:
            quiet: print neither.
        """
        expected = {run.config.digest: seconds(run) for run in self.chosen}
        form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left"
        hidden = quiet or None  # None: also hidden without a terminal
        how: dict[str, Any] = {"disable": hidden, "bar_format": form, "dynamic_ncols": True}
        with tqdm(total=sum(expected.values()), desc=f"0/{len(expected)} runs", **how) as bar:
            for row in rows:
                self.rows.append(row)
                if not quiet:
                    tqdm.write(self.line(row), file=sys.stdout)
                    sys.stdout.flush()
                bar.set_description_str(f"{len(self.rows)}/{len(expected)} runs")
                bar.update(expected[row.digest])

    def frame(self) -> pd.DataFrame:
        """One row per run: the fields of :class:`Repeated`."""
        names = [one.name for one in fields(Repeated)]
        return pd.DataFrame(map(asdict, self.rows), columns=names)

    def differing(self) -> list[Repeated]:
        """The rows whose numbers do not agree, or that could not be trained."""
        return [row for row in self.rows if not row.agrees]

    def heading(self) -> str:
        """The names of a line's columns."""
        words = ("run", "published in", "task", "algorithm", "metric", "published", "now")
        return _columns(*words, "difference", "")

    def line(self, row: Repeated) -> str:
        """A row for people."""
        numbers = f"{row.published:.6f}", f"{row.now:.6f}", f"{row.difference:+.1e}"
        if math.isnan(row.published) and math.isnan(row.now):
            numbers = ("", "", "") if row.reason else ("diverged", "diverged", "")
        allowed = "" if row.bit_equal or not numbers[2] else f" (tolerance {row.tolerance:.1e})"
        which = row.digest, row.file, row.task, row.algorithm, row.metric
        return _columns(*which, *numbers, row.verdict + allowed)

    def left_out_lines(self) -> list[str]:
        """The number of runs that were left out, and what to do about it."""
        return [
            f"{count} {'run' if count == 1 else 'runs'} left out, {why}"
            for why, count in self.left_out.most_common()
        ]

    def summary(self) -> list[str]:
        """The number of runs that agree, in lines."""
        total, bits = len(self.rows), sum(row.bit_equal for row in self.rows)
        agree = total - len(self.differing())
        lines = self.left_out_lines()
        if total < len(self.chosen):
            lines.append(f"stopped after {total} of {len(self.chosen)} runs")
        lines.append(f"{agree} of {total} runs agree within the tolerance, {bits} are bit-equal")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        frame = self.frame()
        counts = {"published": self.asked, "chosen": len(self.chosen), "repeated": len(frame)}
        counts |= {"agree": int(frame["agrees"].sum()), "bit_equal": int(frame["bit_equal"].sum())}
        return {**counts, "left_out": dict(self.left_out), "runs": frame.to_dict("records")}

    def write(self, path: Path) -> None:
        """Write the table as CSV, or in Markdown with the summary below."""
        text = self.frame().to_csv(index=False)
        if path.suffix == ".md":
            names = ["digest", "file", "task", "algorithm", "metric"]
            numbers = ["published", "now", "difference"]
            rows = [[*names, *numbers, "verdict"], ["---"] * 9]
            for row in self.rows:
                values = [f"{getattr(row, name):.6g}".replace("nan", "–") for name in numbers]
                rows.append([*(getattr(row, name) for name in names), *values, row.verdict])
            lines = ["| " + " | ".join(row) + " |" for row in rows]
            text = "\n".join([*lines, "", *self.summary(), ""])
        files.write(path, text.encode())


def _columns(*cells: str) -> str:
    widths = (16, 30, 17, 11, 11, 9, 9, 10)
    start = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False))
    return f"{start}  {cells[-1]}".rstrip()
