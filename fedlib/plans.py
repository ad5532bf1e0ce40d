"""Plans: the runs that a notebook needs, as pure data, and how they are read from the notebook.

A notebook's cell tagged ``plan`` has its numbers for the three presets side by side, and the rule
that turns them into runs. It loads and trains nothing::

    from fedlib.plans import grid, neighbours, repeated

    quick = dict(rounds=80, eval_every=2, seeds=3, reach=1)
    laptop = dict(rounds=1000, eval_every=50, reach=0)
    paper = dict(rounds=4000, eval_every=1, reach=0)


    def plan(n):
        rates = neighbours({"client_lr": [0.1], "server_lr": [1.0]}, n.reach)
        return repeated({"curves": grid("cifar10", "fedavg", rates, n)}, n.seeds)

``n`` has the numbers of the preset as attributes, replaced by those that a reader changed in the
notebook's parameters, and ``preset`` and ``seed``. Numbers in neither place are None.
"""

import json
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np

from fedlib import papers
from fedlib.engine.run import combinations
from fedlib.errors import Error, first_line, require, require_known, unknown
from fedlib.paths import project_root
from fedlib.task import PLANNING
from fedlib.tasks.presets import PRESETS, require_preset

__all__ = ["Request", "grid", "neighbours", "printed", "repeated", "requests", "thinned"]


@dataclass(frozen=True)
class Request:
    """One run that a notebook needs.

    Attributes:
        task, algorithm: their names.
        part: the figures or tables of the notebook that it is for, for instance ``"curves"``.
        overrides: hyperparameters that replace the task's. See :func:`fedlib.run`.
        options: options of :func:`fedlib.load_task`. They may set ``preset``, and ``seed`` (of the
            partition).
        rounds: None: the task's default.
        seed: seed of the run, and of the task unless the options set it.
        eval_every: rounds between evaluations. 0: only the initial and the last model.
        eval_last: each of this many last rounds is evaluated, unless ``eval_every`` is 0.
        clients_per_round: None: the task's default.
        keep_params: whether to store the final parameters. None: unless ``eval_every`` is 0.
    """

    task: str
    algorithm: str
    part: str = ""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: int | None = None
    seed: int = 0
    eval_every: int = 1
    clients_per_round: int | None = None
    keep_params: bool | None = None
    eval_last: int = 1

    @property
    def keeps(self) -> bool:
        """Whether its final parameters are stored."""
        return self.eval_every > 0 if self.keep_params is None else self.keep_params

    def task_options(self, preset: str) -> dict[str, Any]:
        """The keywords of :func:`fedlib.load_task` under a preset."""
        return {"preset": preset, "seed": self.seed, **self.options}

    def task_key(self, preset: str) -> str:
        """A key that is equal for requests that share a task."""
        return task_key(self.task, self.task_options(preset))

    def settings(self, task_rounds: int) -> dict[str, Any]:
        """The request for :meth:`fedlib.results.Store.runs`, for a task with this many rounds."""
        rounds = task_rounds if self.rounds is None else self.rounds
        return {
            "algorithm": self.algorithm,
            "rounds": rounds,
            "seed": self.seed,
            "eval_every": self.eval_every or max(1, rounds),
            "eval_last": self.eval_last if self.eval_every else 1,
            "clients_per_round": self.clients_per_round,
            "overrides": dict(self.overrides),
        }


def task_key(name: str, options: Mapping[str, Any]) -> str:
    """A text that is the same for the same task with the same options."""
    return json.dumps([name, dict(options)], sort_keys=True, default=str)


# The first parameters of every notebook.
COMMON = ("preset", "seed", "device")
# A plan's parts: name of a part, as its figures and tables use it -> its runs.
Parts = Mapping[str, Sequence[Request]]
Rates = dict[str, list[float]]


# ------------------------------------------------------------------ what plan cells are made of


def grid(
    task: str,
    algorithm: str,
    rates: Mapping[str, Iterable[Any]],
    n: Any,
    *,
    fixed: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> list[Request]:
    """One run per combination of the rates' values, the last key's values fastest.

    Args:
        rates: override key -> the values to try, for instance
            ``{"client_lr": [0.01, 0.1], "server_lr": [1.0]}``. ``{}`` is one run with the task's
            own.
        n: the plan's numbers. If it has ``rounds``, ``eval_every``, ``eval_last``,
            ``clients_per_round`` or ``seed``, the runs use them.
        fixed: further overrides of all runs.
        options: options of the task. Options that are None are left to its preset.
        settings: other fields of :class:`Request`, which replace those of ``n``.

    Raises:
        Error: a key without values.

    Example:
        >>> n = SimpleNamespace(rounds=80, seed=0)
        >>> runs = grid("cifar10", "fedavg", {"client_lr": [0.1, 1.0]}, n)
        >>> [(run.overrides["client_lr"], run.rounds) for run in runs]
        [(0.1, 80), (1.0, 80)]
    """
    names = ("rounds", "eval_every", "eval_last", "clients_per_round", "seed")
    known = {name: getattr(n, name) for name in names if getattr(n, name, None) is not None}
    chosen = {key: value for key, value in (options or {}).items() if value is not None}
    common = {**known, **settings, "options": chosen}
    cells = [{**(fixed or {}), **cell} for cell in combinations(rates)]
    return [Request(task, algorithm, overrides=cell, **common) for cell in cells]


def neighbours(rates: Mapping[str, float | Sequence[float]], reach: int) -> Rates:
    """Rates and the half-decades beside them, for each key separately.

    Args:
        rates: override key -> a power of the root of ten, or several.
        reach: number of half-decades to add below the smallest and above the largest. 0: only those
            between them.

    Example:
        >>> near = neighbours({"client_lr": 0.1}, 1)
        >>> [round(rate, 3) for rate in near["client_lr"]]
        [0.032, 0.1, 0.316]
    """
    near = {}
    for name, values in rates.items():
        listed = [values] if isinstance(values, (int, float)) else values
        halves = [round(2 * math.log10(value)) for value in listed]
        around = range(min(halves) - reach, max(halves) + reach + 1)
        near[name] = [10.0 ** (half / 2) for half in around]
    return near


def printed(paper: str, table: str, *keys: str, **where: str) -> Rates:
    """A paper's values given as powers of ten: one value per key, or the values of its grid.

    Args:
        paper, table: a table of :func:`fedlib.papers.table` with columns ``log10_KEY`` and one row
            for ``where``, or with the columns ``parameter`` and ``log10_value``.
        keys: only these. Default: all.
        where: values of the table's columns, ignoring case.

    Returns:
        override key -> values, smallest first.

    Raises:
        Error: an unknown paper or table.

    Example:
        >>> printed("fedopt", "table9_tau", task="EMNIST AE", algorithm="fedadam")
        {'tau': [0.001]}
    """
    frame = papers.table(paper, table)
    for column, wanted in where.items():
        frame = frame[frame[column].str.lower() == wanted.lower()]
    if "log10_value" in frame.columns:
        powers = dict(iter(frame.groupby("parameter", sort=False)["log10_value"]))
    else:
        names = [str(column) for column in frame.columns if str(column).startswith("log10_")]
        powers = {name.removeprefix("log10_"): frame[name] for name in names}
    return {key: [10.0**power for power in sorted(powers[key])] for key in keys or powers}


def thinned(rates: Mapping[str, Sequence[float]], points: int | None) -> Rates:
    """A number of each key's values, evenly spread and with both ends.

    Args:
        points: number of values, at least 2. None: all.

    Example:
        >>> thinned({"client_lr": [1, 2, 3, 4, 5]}, 3)
        {'client_lr': [1, 3, 5]}
    """
    chosen = {}
    for name, values in rates.items():
        places = np.linspace(0, len(values) - 1, min(points or len(values), len(values)))
        chosen[name] = [values[round(place)] for place in places]
    return chosen


def repeated(runs: Sequence[Request] | Parts, seeds: int | None) -> list[Any]:
    """Runs once per seed, seed by seed.

    Args:
        runs: a list of requests, or a plan's parts, which are then repeated together.
        seeds: number of seeds, counted up from each run's own. None: one.

    Returns:
        The requests, or the parts once per seed, as a list that a plan may return.

    Raises:
        Error: fewer than one seed.

    Example:
        >>> [run.seed for run in repeated([Request("mnist", "fedavg", seed=3)], 2)]
        [3, 4]
    """
    count = 1 if seeds is None else seeds
    require(isinstance(count, int) and count >= 1, "seeds", seeds, "a whole number >= 1")

    def again(part: Sequence[Request], step: int) -> list[Request]:
        return [replace(run, seed=run.seed + step) for run in part]

    if isinstance(runs, Mapping):
        return [{name: again(part, step) for name, part in runs.items()} for step in range(count)]
    return [run for step in range(count) for run in again(runs, step)]


# ------------------------------------------------------------- how a notebook's plan is read


def notebooks() -> dict[str, Path]:
    """The notebooks by their names, in order.

    Raises:
        Error: there are none, as they belong to a checkout and not to the installed package.
    """
    folder = project_root() / "notebooks"
    if not folder.is_dir():
        why = "they, and the published runs, come with a checkout of fedlib: run this in one"
        raise Error(f"no notebooks in {folder}: {why}")
    return {path.stem: path for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))}


def planned() -> list[str]:
    """The notebooks that have a plan."""
    return [name for name, path in notebooks().items() if _tagged(path, "plan") is not None]


def named(names: Sequence[str], known: Iterable[str], kind: str = "notebook") -> list[str]:
    """The notebooks that some names stand for, each once. Without names, all.

    Args:
        names: ``10_topic``, ``10`` or a file name.
        kind: kind of the known names, for the message.

    Raises:
        Error: a name that stands for none of them.

    Example:
        >>> named(["notebooks/10_topic.ipynb", "02"], ["02_theory", "10_topic", "11_other"])
        ['10_topic', '02_theory']
    """
    known = list(known)
    chosen: list[str] = [] if names else known
    for name in names:
        stem = Path(name).stem
        meant = [notebook for notebook in known if stem in (notebook, notebook.split("_")[0])]
        if not meant:
            raise unknown(kind, name, known)
        chosen += meant
    return list(dict.fromkeys(chosen))


def has(notebook: str) -> bool:
    """Whether a notebook exists. An installed package, or a user's own project, has none."""
    return (project_root() / "notebooks" / f"{notebook}.ipynb").is_file()


def requests(notebook: str, preset: str = "quick", seed: int = 0, **given: Any) -> list[Request]:
    """The runs that a notebook's plan asks for, in order. Only its plan cell is run.

    Args:
        notebook: one of :func:`planned`.
        preset: ``"quick"``, ``"laptop"`` or ``"paper"``.
        seed: seed of tasks and runs, the first of several.
        **given: parameters of the notebook that replace the preset's numbers. None: the preset's.

    Raises:
        Error: the notebook has no plan, or the plan raises, trains, loads a task, or returns
            something else than requests.
    """
    require_preset(preset)
    path = notebooks().get(notebook)
    source = None if path is None else _tagged(path, "plan")
    if path is None or source is None:
        raise unknown("notebook with a plan", notebook, planned())
    known = {**parameters(path), "preset": preset, "seed": seed, **given}
    namespace = {"__name__": notebook, **known}
    with _plan_cell(notebook):
        exec(compile(source, _file(notebook), "exec"), namespace)
    plan = namespace.get("plan")
    if not isinstance(plan, FunctionType):
        raise Error(f"{notebook}, plan cell: it defines no function plan(n)")
    own = {name: value for name, value in known.items() if name not in COMMON}
    return asked(plan, numbers(plan, preset, seed, own), notebook)


def numbers(plan: FunctionType, preset: str, seed: int, given: Mapping[str, Any]) -> Any:
    """The argument of a plan: the numbers beside it for a preset, with a reader's changes.

    Args:
        given: the notebook's parameters. None: the preset's number.
    """
    beside = {name: plan.__globals__.get(name, {}) for name in PRESETS}
    names = dict.fromkeys(name for values in (*beside.values(), given) for name in values)
    changed = {name: value for name, value in given.items() if value is not None}
    return SimpleNamespace(**{**names, **beside[preset], **changed, "preset": preset, "seed": seed})


def asked(plan: Callable[[Any], Any], n: Any, notebook: str) -> list[Request]:
    """The requests of a plan with these numbers, each with its part.

    Args:
        notebook: its name, for errors.

    Raises:
        Error: see :func:`requests`.
    """
    with _plan_cell(notebook):
        result = plan(n)
    listed = []
    for parts in result if isinstance(result, list) else [result]:
        if not isinstance(parts, Mapping):
            what = f"plan(n) returns {_kind(parts)}, not a dict of parts"
            raise Error(f"{notebook}, plan cell: {what}")
        for part, runs in parts.items():
            for run in runs if isinstance(runs, list) else [runs]:
                if not isinstance(run, Request):
                    what = f"part {part!r} has {_kind(run)}, not requests"
                    raise Error(f"{notebook}, plan cell: {what}")
                listed.append(replace(run, part=part))
    return listed


def by_notebook(
    names: Sequence[str],
    preset: str,
    seed: int,
    numbers: Mapping[str, Any],
    parts: Sequence[str] = (),
) -> dict[str, list[Request]]:
    """The requests of notebooks' plans by notebook.

    Args:
        names: see :func:`named`. Default: all that have a plan.
        numbers: notebooks' own parameters, which all of them must have.
        parts: only requests of these parts, and notebooks that have some. Default: all.

    Raises:
        Error: an unknown name, preset, parameter or part.
    """
    require_preset(preset)
    chosen = named(names, planned(), "notebook with a plan")
    if taken := [key for key in COMMON if key in numbers]:
        raise Error(f"--parameter {taken[0]} is no number of a plan: use --{taken[0]}")
    for name in chosen if numbers else ():  # each must have all parameters
        check_parameters([notebooks()[name]], numbers)
    asked = {name: requests(name, preset, seed, **numbers) for name in chosen}
    selected = select([request for runs in asked.values() for request in runs], *parts)
    chosen_parts = {request.part for request in selected}
    asked = {name: [r for r in runs if r.part in chosen_parts] for name, runs in asked.items()}
    return {name: runs for name, runs in asked.items() if runs}


def select(requests: Sequence[Request], *parts: str) -> list[Request]:
    """The requests of some parts. Without parts, all.

    Raises:
        Error: a part that no request has.
    """
    known = dict.fromkeys(request.part for request in requests)
    for part in parts:
        if part not in known:
            raise unknown("part of the plan", part, known)
    return [request for request in requests if not parts or request.part in parts]


def parameters(notebook: Path) -> dict[str, Any]:
    """The names and default values in a notebook's cell tagged ``parameters``, which is run.

    Raises:
        Error: there is no such cell, or it fails.
    """
    source = _tagged(notebook, "parameters")
    if source is None:
        raise Error(f"{notebook.name}: no cell is tagged 'parameters'")
    values: dict[str, Any] = {}
    with _plan_cell(notebook.stem, "parameters cell"):
        exec(compile(source, _file(notebook.stem), "exec"), {}, values)
    return values


def check_parameters(known: Iterable[Path], given: Iterable[str]) -> None:
    """Refuse a parameter that none of some notebooks has. papermill itself only logs this."""
    those = list(known)
    everywhere = {name for notebook in those for name in parameters(notebook)}
    for name in given:
        whose = "any of these notebooks" if len(those) > 1 else those[0].stem
        require_known(f"parameter of {whose}", name, everywhere)


def _tagged(notebook: Path, tag: str) -> str | None:
    """The code of the cell with a tag, or None if there is none."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if tag in cell["metadata"].get("tags", []):
            return "".join(cell["source"])
    return None


def _file(notebook: str) -> str:
    """Python's name for the file of a plan cell."""
    return f"<plan cell of {notebook}>"


@contextmanager
def _plan_cell(notebook: str, cell: str = "plan cell") -> Iterator[None]:
    """While a plan's code runs: no task can be made, and errors become one line."""
    token = PLANNING.set(True)
    try:
        yield
    except Exception as problem:
        frames = traceback.extract_tb(problem.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == _file(notebook)]
        where = f"{notebook}, {cell}" + (f", line {lines[-1]}" if lines else "")
        what = "" if isinstance(problem, Error) else f"{type(problem).__name__}: "
        raise Error(f"{where}: {what}{first_line(problem)}") from None
    finally:
        PLANNING.reset(token)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {value!r:.40}"
