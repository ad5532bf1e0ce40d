"""The set-up of every notebook::

    from fedlib import notebook

    session = notebook.start("10_cifar10", plan, preset=preset, seed=seed, rounds=rounds)
    histories = session.experiment("curves")
    session.figure("fedopt/figure_1", histories)

Runs outside the plan::

    task = session.task("cifar10")
    histories = session.runs(task, [{"algorithm": "fedavg"}], rounds=2)
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import platform
import textwrap
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib.metadata import version
from io import BytesIO
from itertools import product
from math import prod
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure
from pandas.io.formats.style import Styler
from PIL import Image

from fedlib import figures, files, paths, plans
from fedlib.algorithms.base import Algorithm
from fedlib.engine.device import resolve_device
from fedlib.engine.history import History
from fedlib.errors import Error, unknown
from fedlib.figures import style
from fedlib.figures.save import picture
from fedlib.plans import Request, task_key
from fedlib.reproduction import claims, draw, listing, matching
from fedlib.reproduction.answers import answer, configured
from fedlib.reproduction.evidence import HOLDS
from fedlib.results import Store, reading
from fedlib.tasks import Task, load_task
from fedlib.tasks.presets import require_preset

try:
    import ipywidgets
    from IPython.core.getipython import get_ipython
    from IPython.display import Markdown, display
except ImportError:
    raise Error("notebooks need Jupyter: in a checkout, pip install '.[notebooks]'") from None


def start(
    name: str = "",
    plan: FunctionType | None = None,
    *,
    preset: str = "",
    seed: int = 0,
    device: str = "auto",
    **numbers: Any,
) -> Session:
    """Set a notebook up: style, store, and a line that describes its runs.

    Args:
        name: name of the notebook.
        plan: the function of its plan cell, see :mod:`fedlib.plans`. None: it has no plan.
        preset: ``"quick"``, ``"laptop"``, ``"paper"``. ``""`` takes ``FEDLIB_PRESET``, else
            ``"quick"``.
        seed: seed of tasks and runs.
        device: ``"auto"``, ``"cpu"``, ``"cuda"``.
        **numbers: the notebook's own parameters. None becomes the plan's number for the preset if
            there is one, and otherwise stays None (the task's default).

    Raises:
        Error: an unknown preset or device, a bad plan, or a store or folder of figures that is not
            writable.
    """
    preset = preset or os.environ.get("FEDLIB_PRESET", "") or "quick"
    require_preset(preset)
    where = resolve_device(device)
    declared = seed == 0 and all(value is None for value in numbers.values())
    requests = None
    if plan is not None:
        n = plans.numbers(plan, preset, seed, numbers)
        requests = plans.asked(plan, n, name)
        numbers = {key: value for key, value in vars(n).items() if key not in ("preset", "seed")}
    store = Store()
    files.require_writable(store.root)
    files.require_writable(paths.preset_figures(preset), "FEDLIB_FIGURES")
    _show_figures()
    # A session prints the source of a task's data.
    logging.getLogger("fedlib.datasets").setLevel(logging.ERROR)
    style.apply()
    pd.set_option("display.max_colwidth", None)  # so that a claim's statement is shown in full
    print(
        f"fedlib {version('fedlib')}, torch {version('torch')}, "
        f"Python {platform.python_version()}, {where}; preset {preset}, seed {seed}"
    )
    if not declared:
        print("Parameters were changed: the text and some checks are for the declared numbers.")
    return Session(preset, seed, device, store, numbers, name, declared, requests)


def _show_figures() -> None:
    """In a notebook, have figures shown as pictures. Elsewhere do nothing."""
    shell = get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        shell.run_line_magic("matplotlib", "inline")
        formatter: Any = shell.display_formatter
        formatter.formatters["image/png"].for_type(Figure, _shown)
        if _say_captions not in shell.events.callbacks["post_execute"]:
            shell.events.register("post_execute", _say_captions)


# The captions of all drawn figures, and those of the figures that this cell has shown.
_captions: WeakKeyDictionary[Figure, str] = WeakKeyDictionary()
_to_say: list[str] = []


def _say_captions() -> None:
    """At a cell's end, show the captions of its figures, each once."""
    captions, _to_say[:] = dict.fromkeys(_to_say), []
    for caption in captions:
        display({"text/markdown": caption, "text/plain": caption}, raw=True)


def _shown(figure: Figure) -> tuple[str, dict[str, int]]:
    """A figure in Jupyter's format. A figure that was just saved is not drawn again."""
    if figure in _captions:
        _to_say.append(_captions[figure])
    width, height = (round(inches * figure.dpi) for inches in figure.get_size_inches())
    return b64encode(picture(figure)).decode(), {"width": width, "height": height}


class Explorer(ipywidgets.VBox):
    """Controls above a picture. Without widgets (on a printed page), only the picture.

    Attributes:
        html: the same with all pictures, for pages without a kernel. "" unless requested.
    """

    html = ""

    def _repr_mimebundle_(self, **keywords: Any) -> Any:
        still = {"image/png": b64encode(self.children[-1].value).decode()}
        moving = {"text/html": self.html} if self.html else {}
        return {**super()._repr_mimebundle_(**keywords), **still, **moving}


def explore(draw: Callable[..., Any], **axes: Sequence[Any]) -> Explorer:
    """Controls for the arguments of a drawing function, with its picture.

    Numbers get sliders, words a menu. Each starts at the function's default, else at its middle
    value. With ``FEDLIB_EXPLORE=all``, which the site sets, the pictures of all values are kept,
    and the controls work on a page without a kernel.

    Args:
        draw: draws one figure with pyplot. Its return value is ignored.
        **axes: argument -> its values.

    Returns:
        The object to show in the cell.
    """
    parameters = inspect.signature(draw).parameters
    controls: dict[str, Any] = {}
    for name, listed in axes.items():
        values, default = list(listed), parameters[name].default
        start = default if default in values else values[len(values) // 2]
        words = isinstance(start, str)
        labels = [value if words else f"{value:g}" for value in values]
        make = ipywidgets.Dropdown if words else ipywidgets.SelectionSlider
        options = list(zip(labels, values, strict=True))
        controls[name] = make(options=options, value=start, description=name.replace("_", " "))
    # Not an Output, which ipywidgets.interact uses, as nbclient may wait forever for one.
    image = ipywidgets.Image(format="png", layout={"max_width": "max-content"})

    def follow(_: Any = None) -> None:
        draw(**{name: control.value for name, control in controls.items()})
        image.value = picture(plt.gcf())
        plt.close()

    follow()
    for control in controls.values():
        control.observe(follow, "value")
    explorer = Explorer([*controls.values(), image])
    if os.environ.get("FEDLIB_EXPLORE") == "all":
        explorer.html = _moving(draw, controls)
    return explorer


def _moving(draw: Callable[..., Any], controls: Mapping[str, Any]) -> str:
    """HTML of controls and of the pictures of all their values, the last control's values fastest.
    docs/site/_static/explore.js updates it.
    """
    options = {name: [value for _, value in c.options] for name, c in controls.items()}
    pictures = []
    for values in product(*options.values()):
        draw(**dict(zip(options, values, strict=True)))
        png, webp = BytesIO(), BytesIO()
        plt.gcf().savefig(png, dpi=110)
        plt.close()
        Image.open(png).convert("RGB").quantize(48).convert("RGB").save(webp, "WEBP", lossless=True)
        pictures.append(b64encode(webp.getvalue()).decode())
    shape = [len(values) for values in options.values()]
    starts = [options[name].index(c.value) for name, c in controls.items()]
    still = pictures[sum(i * prod(shape[k + 1 :]) for k, i in enumerate(starts))]
    parts = []
    for (name, control), start in zip(controls.items(), starts, strict=True):
        labels = [str(label) for label, _ in control.options]
        if isinstance(control, ipywidgets.Dropdown):
            chosen = [" selected" * (i == start) for i in range(len(labels))]
            listed = zip(chosen, map(escape, labels), strict=True)
            inside = f"<select>{''.join(f'<option{how}>{word}' for how, word in listed)}</select>"
        else:
            inside = f"<input type='range' max='{len(labels) - 1}' value='{start}'"
            inside += f" data-labels='{json.dumps(labels)}'><output>{labels[start]}</output>"
        parts.append(f"<label>{escape(name.replace('_', ' '))} {inside}</label>")
    parts.append(f"<img alt='' src='data:image/webp;base64,{still}'>")
    parts.append(f"<script type='application/json'>{json.dumps(pictures)}</script>")
    return f"<div class='explorer'>{''.join(parts)}</div>"


class Source(Markdown):
    """Python code that a notebook highlights, and a terminal shows as it is."""

    def __repr__(self) -> str:
        return str(self.data)


def code(*parts: Callable[..., Any]) -> Source:
    """The code of functions and classes of the library, shown if it is a cell's last line.

    Args:
        parts: functions, methods or classes, for instance ``fedlib.server.Adaptive.step``.
    """
    texts = []
    for part in parts:
        text = textwrap.dedent(inspect.getsource(part)).rstrip()
        texts.append(f"# {part.__module__}.{part.__qualname__}\n{text}")
    return Source("```python\n" + "\n\n".join(texts) + "\n```")


def fingerprint(notebook: str, number: int, answer: Any, digits: int = 3) -> str:
    """A hash of an exercise's answer: a number, a word, or several in a list, tuple or set.

    >>> fingerprint("01_client_drift", 1, 2 / 3) == fingerprint("01_client_drift", 1, 0.6667)
    True
    """

    def plain(value: Any) -> str:
        if isinstance(value, str):
            return value.strip().lower()
        if isinstance(value, (set, frozenset)):
            return plain(sorted(map(plain, value)))
        if hasattr(value, "__len__"):
            return " ".join(map(plain, value))
        return f"{float(value):.{digits}g}"

    text = f"{notebook} {number} {plain(answer)}"
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Session:
    """A notebook's preset, seed, device and numbers, and its store of runs.

    :func:`start` makes it. As a cell's last line it shows the numbers of its preset. ``declared``
    says whether the notebook's parameters changed nothing but the preset. Progress bars are on
    unless ``FEDLIB_PROGRESS=0``.
    """

    preset: str
    seed: int
    device: str
    store: Store
    numbers: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    declared: bool = True
    _requests: list[Request] | None = field(default=None, repr=False, compare=False)
    _tasks: dict[str, Task] = field(default_factory=dict, repr=False, compare=False)

    def defaults(self, **numbers: Any) -> Session:
        """This session with these numbers as defaults for parameters that are None.

        Raises:
            Error: a name that the notebook did not give to :func:`start`.
        """
        return replace(self, numbers={**self.numbers, **numbers, **self.given(*numbers)})

    def given(self, *names: str) -> dict[str, Any]:
        """These numbers as keywords, without those that are None, so the task keeps its defaults.

        Raises:
            Error: a name that the notebook did not give to :func:`start`.
        """
        for name in names:
            if name not in self.numbers:
                raise unknown("number of this notebook", name, self.numbers)
        return {name: self.numbers[name] for name in names if self.numbers[name] is not None}

    def task(self, name: str, **options: Any) -> Task:
        """A task with the session's preset and seed. The first time, it prints the source of the
        data, and for the first stand-in an explanation.

        Args:
            name, options: see :func:`fedlib.load_task`. Options may set ``preset`` and ``seed``.
                Options that are None are left to the preset.
        """
        asked = {key: value for key, value in options.items() if value is not None}
        options = {"preset": self.preset, "seed": self.seed, **asked}
        key = task_key(name, options)
        if key in self._tasks:
            return self._tasks[key]
        task = load_task(name, **options)
        known = [other for other in self._tasks.values() if other.name == task.name]
        printed = {str(other) for other in known}
        if task.options not in [other.options for other in known] and str(task) not in printed:
            print(task)  # otherwise only the seed differs, or the line is the same
        if task.stand_in and not any(other.stand_in for other in self._tasks.values()):
            print(
                f"*** STAND-IN DATA: {name} runs on an offline stand-in. The numbers show how "
                "the methods behave; they are not the paper's. Real data: see data/README.md ***"
            )
        self._tasks[key] = task
        return task

    def _summary(self) -> tuple[str, pd.DataFrame]:
        """The settings of this preset: a line, and a table of the plan's tasks."""
        requests = self._requests or []
        table = listing.task_table(requests, self.preset, self.numbers, self._tasks)
        stated = {"preset": self.preset, "device": resolve_device(self.device)}
        stated["seeds"] = listing.listed(request.seed for request in requests) or str(self.seed)
        shown = {*table, *stated}
        others = {name: value for name, value in self.numbers.items() if name not in shown}
        stated |= {name: listing.listed([v]) for name, v in others.items() if v is not None}
        unset = [name for name, value in others.items() if value is None]
        line = "; ".join(f"{name} {value}" for name, value in stated.items())
        return line + (f"; not set: {', '.join(unset)}" if unset else ""), table

    def __repr__(self) -> str:
        line, table = self._summary()
        return line + ("" if table.empty else "\n" + table.to_string(index=False))

    def _repr_html_(self) -> str:
        line, table = self._summary()
        shown = figures.table(table).set_properties(**{"text-align": "left"})
        return f"<p>{escape(line)}</p>" + ("" if table.empty else shown.to_html())

    def plan(self, *parts: str) -> Styler:
        """The runs of :meth:`requests` in a table, before any training. A grid is one row.

        Raises:
            Error: see :meth:`requests`.
        """
        requests = self.requests(*parts)

        def rates(request: Request) -> dict[str, Any]:
            request = replace(request, seed=requests[0].seed)  # no rate depends on the seed
            task = self.task(request.task, **request.task_options(self.preset))
            known = reading.hyperparameters(configured(task, request))
            return {key: known[key] for key in ("client_lr", "server_lr") if key in known}

        table = listing.run_table(requests, self.preset, rates)
        read = "those that are stored are read, the others trained"
        shown = figures.table(table, caption=f"{len(requests)} runs; {read}")
        texts = ["part", "task", "algorithm", "settings"]
        return shown.set_properties(subset=texts, **{"text-align": "left"})

    def requests(self, *parts: str) -> list[Request]:
        """The runs that the notebook's plan names, for these parts or for all.

        Raises:
            Error: the notebook has no plan, or no such part.
        """
        if self._requests is None:
            raise Error(f"notebook {self.name} has no plan: give notebook.start its function plan")
        return plans.select(self._requests, *parts)

    def experiment(self, *parts: str) -> list[History]:
        """The histories of :meth:`requests`, in order, from the store or trained.

        Each task is loaded once, and its missing runs are trained together.
        """
        requests = self.requests(*parts)
        execution = self._keywords({})
        execution.pop("seed")  # each request has its own
        return answer(self.store, requests, self.preset, self.task, **execution)

    def stored(self, preset: str) -> list[History]:
        """The stored or published histories of this notebook's plan at another preset, with its
        default parameters. Nothing is trained.
        """
        requests = plans.requests(self.name, preset, self.seed)
        stored = self.store.stored(published=True)
        return matching.Index(stored).plan(requests, preset)

    def run(
        self, task: Task, algorithm: str | Algorithm | type[Algorithm], **settings: Any
    ) -> History:
        """One run, from the store or trained. See :meth:`fedlib.results.Store.run`."""
        return self.store.run(task, algorithm, **self._keywords(settings))

    def runs(
        self, task: Task, requests: Sequence[Mapping[str, Any]], **common: Any
    ) -> list[History]:
        """Several runs, from the store or trained. See :meth:`fedlib.results.Store.runs`."""
        return self.store.runs(task, requests, **self._keywords(common))

    def grid(
        self, task: Task, algorithm: str | Algorithm | type[Algorithm], **settings: Any
    ) -> pd.DataFrame:
        """A grid, from the store or trained. See :meth:`fedlib.results.Store.grid`."""
        return self.store.grid(task, algorithm, **self._keywords(settings))

    @property
    def figures_root(self) -> Path:
        """The folder of this preset's figures, see :func:`fedlib.paths.preset_figures`."""
        return paths.preset_figures(self.preset)

    def figure(self, id: str, histories: Sequence[History] = ()) -> Figure | Styler | None:
        """Draw and save a figure of the catalogue. As a cell's last line it is shown.

        If a figure has several tasks, the tasks of the histories are shown. The file has all that
        are stored. With changed parameters there may be no run for it: then a line says so.
        """
        if draw.entry(id).needs_runs and not histories and not self.declared:
            print(f"{id} is not drawn: it has no runs with these parameters.")
            return None
        root = self.figures_root
        drawn = draw.draw(id, histories, preset=self.preset, store=self.store, root=root)
        caption = draw.entry(id).caption
        if drawn.figure is None:
            return figures.drawn(drawn.data, caption=caption)
        _captions[drawn.figure] = caption
        return drawn.figure

    def exercise(self, number: int, answer: Any, right: str, hint: str, digits: int = 3) -> None:
        """Check an answer to an exercise. The notebook has only a hash of the right answer.

        Args:
            answer: the reader's answer. None while it is open.
            right: :func:`fingerprint` of the right answer.
            hint: text of the error.
            digits: number of significant digits of numbers that count.

        Raises:
            AssertionError: a wrong answer.
        """
        known = answer is not None
        wrong = known and fingerprint(self.name, number, answer, digits) != right
        assert not wrong, f"exercise {number}: {hint}"
        print(f"exercise {number}: {'right' if known else 'open'}")

    def whether_declared(self) -> None:
        """Print whether the numbers are the plan's, as a notebook's text holds only for these.

        Example:
            >>> Session("quick", 0, "cpu", Store(), declared=False).whether_declared()
            The parameters were changed: the text is about the declared numbers.
        """
        changed = "The parameters were changed: the text is about the declared numbers."
        print("These are the declared numbers." if self.declared else changed)

    def claim(self, id: str, histories: Sequence[History]) -> pd.DataFrame:
        """Judge a paper's claim on this notebook's runs, see :mod:`fedlib.reproduction.claims`.

        At the declared settings (the notebook's parameters change nothing but the preset) the
        verdict must be the declared one: the claim holds, or it has a known exception. It is not
        checked if the preset cannot show it.

        Returns:
            One row per statement: mean margin, spread, verdict.

        Raises:
            AssertionError: the verdict at the declared settings differs.
        """
        evidence, claimed = claims.EVIDENCE[id], claims.chosen((), self.preset)
        parts = evidence.sources[self.name]
        shown = [
            run
            for run in histories
            if not parts or run.meta.get("plan", {}).get("part", parts[0]) in parts
        ]
        verdict = claims.judged(evidence, self.preset, {self.name: shown})
        print("\n".join(verdict.words(statements=False)))
        expected = self.declared and self.preset == "quick" and not verdict.untuned
        if expected and id in [claim["id"] for claim in claimed]:
            assert (verdict.verdict == HOLDS) == (not verdict.reason), f"{id}: {verdict}"
        return verdict.frame()

    def save(
        self,
        figure: Figure | None,
        id: str,
        data: pd.DataFrame,
        caption: str = "",
        histories: Sequence[History] = (),
    ) -> Path:
        """Save a figure that the notebook drew itself. See :func:`fedlib.figures.save`.

        Args:
            caption: Default: the catalogue's, if it has the figure.
        """
        if not caption and id in draw.ENTRIES:
            caption = draw.ENTRIES[id].caption
        if figure is not None:
            _captions[figure] = caption
        root = self.figures_root
        return figures.save(figure, id, data, caption=caption, histories=histories, root=root)

    def _keywords(self, given: Mapping[str, Any]) -> dict[str, Any]:
        progress = os.environ.get("FEDLIB_PROGRESS", "1") != "0"
        return {"seed": self.seed, "device": self.device, "progress": progress, **given}
