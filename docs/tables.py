"""The tables of docs/ that follow from the notebooks, the entries and the published runs.

``python docs/tables.py`` (``make docs``) writes them between their marks; a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isfinite, isnan, nan
from typing import Any

import nbformat
import numpy as np
import pandas as pd

from fedlib import files, papers
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.paths import project_root
from fedlib.reproduction.adafedadam.claims import AVERAGE, WORST, by_work
from fedlib.reproduction.adafedadam.runs import FIVE
from fedlib.reproduction.claims import overview
from fedlib.reproduction.compare import compare
from fedlib.reproduction.delta_sgd.runs import CLIENTS, client_of
from fedlib.reproduction.delta_sgd.runs import TABLE_1 as DELTA_1
from fedlib.reproduction.delta_sgd.runs import TABLE_4 as DELTA_4
from fedlib.reproduction.delta_sgd.runs import TABLE_6 as DELTA_6
from fedlib.reproduction.draw import entries
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.evidence import NOT_RUN, winners
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.grids import OPTIMIZERS
from fedlib.reproduction.fedopt.runs import TABLES_1
from fedlib.reproduction.fedopt.tuning_claims import settled
from fedlib.reproduction.listing import task_table
from fedlib.reproduction.memory import preferred
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.mime.ablation import LOOKS as LINE_LOOKS
from fedlib.reproduction.mime.claims import RIVALS, chosen, rounds_of
from fedlib.reproduction.mime.table_2 import BASES, LOOKS
from fedlib.reproduction.reproduce import notebooks
from fedlib.reproduction.request import Request
from fedlib.reproduction.sweep import plans
from fedlib.results import reading
from fedlib.results.archives import open_archive
from fedlib.results.reading import client_label
from fedlib.results.store import Store
from fedlib.tasks import PRESETS

SERVERS = (*OPTIMIZERS, "scaffold")
METRIC_WORDS = {"avg": "average", "worst30": "worst 30 %"}
PAPERS = {"fedopt": "FedOpt", "mime": "Mime", "adafedadam": "AdaFedAdam", "delta_sgd": "Δ-SGD"}


def notebook_table() -> str:
    """A row per notebook: its name, its question, and what it draws of the papers."""
    rows = []
    for path in notebooks():
        title = nbformat.read(path, as_version=4).cells[0].source
        question = re.search(r"\*\*(.+?)\*\*", title, re.DOTALL)
        if question is None:
            raise Error(f"{path.name}: its first cell has no question in bold")
        drawn = [entry.id for entry in entries() if path.stem in entry.notebooks.values()]
        rows.append((f"`{path.stem}`", " ".join(question[1].split()), _drawn(drawn)))
    return _markdown(("notebook", "question", "draws"), rows)


def _drawn(ids: Iterable[str]) -> str:
    """``["fedopt/figure_2", "fedopt/figure_5"]`` -> ``"FedOpt Figures 2, 5"``."""
    texts = []
    for paper, label in PAPERS.items():
        kinds: dict[str, list[str]] = {}
        for name in (id.split("/")[1] for id in ids if id.startswith(f"{paper}/")):
            kind, number = name.split("_")
            kinds.setdefault(kind, []).append(number)
        words = [
            f"{kind.title()}{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
            for kind, numbers in sorted(kinds.items())
        ]
        texts += [f"{label} {', '.join(words)}"] if words else []
    return "; ".join(texts)


@cache
def _published() -> Store:
    """Only the runs that the checkout publishes."""
    root = project_root() / "data" / "results"
    return Store(root / "none", published=[root])


@cache
def _compared() -> pd.DataFrame:
    return compare(_published())


def agreement_table() -> str:
    """What ``fedlib compare`` counts of the published runs, a row per paper."""
    frame = _compared()
    frame = frame[frame["repeats"] == ""]
    counts = pd.DataFrame(
        {
            "paper": frame["paper"],
            "with": frame["seeds"] > 0,
            "real": frame["data"] == "real",
            "fair": frame["fair"],
            "agree": frame["agrees"],
        }
    )
    rows = []
    for paper, part in counts.groupby("paper", sort=False):
        numbers = part.drop(columns="paper").sum()
        rows.append((PAPERS[str(paper)], str(len(part)), *(str(int(n)) for n in numbers)))
    head = (
        *("paper", "different printed numbers", "with a run", "not on a stand-in"),
        *("comparable, and without a note", "agree"),
    )
    return _markdown(head, rows)


def mime_table() -> str:
    """Mime's Table 2 on EMNIST logistic regression: printed, ours, and the rates that were chosen.

    A row per base optimizer; FedAvg, MimeLite and Mime in this order. "–" of runs that were
    published without their values per client, among which no rate can be chosen.
    """
    frame = _compared()
    frame = frame[(frame["paper"] == "mime") & (frame["task"] == "emnist_logistic")]
    rows = []
    for base in BASES:
        part = [frame[frame["row"] == row].iloc[0] for row in _rows_of(base)]
        rates = ["–" if isnan(row["ours"]) else _rate(row["runs"]) for row in part]
        numbers = [[_number(row[name]) for row in part] for name in ("printed", "ours")]
        rows.append((base, *map(", ".join, (*numbers, rates))))
    methods = ", ".join(LOOKS)
    head = ("base optimizer", f"printed: {methods}", "ours", "client learning rates chosen")
    return _markdown(head, rows)


def ablation_table() -> str:
    """Mime's ablation on FEMNIST, the published runs of the preset laptop: a row a line, fastest
    first, each at its best setting.
    """
    lines = chosen(_laptop_runs("38_mime_ablation"))
    rows = []
    for name, (run,) in lines.items():
        if not name.startswith("mu "):  # of FedProx the best stands for all
            (reached,) = rounds_of(lines, name)
            needed = f"{reached:.0f}" if isfinite(reached) else "not in 100"
            rate = f"{reading.hyperparameter(run, 'client_lr'):.2g}"
            look = LINE_LOOKS.get(name) or style.look(name)
            label = RIVALS.get(name, look.label)
            rows.append((reached, (label, rate, needed, f"{100 * run.final():.1f}")))
    head = ("line", "client learning rate", "rounds to the target", "accuracy at the end")
    return _markdown(head, [row for _, row in sorted(rows, key=lambda row: row[0])])


def levels_table() -> str:
    """AdaFedAdam's label skews on CIFAR-10, the published runs of the preset laptop: a row a
    concentration, a column a method, average and worst 30 % of the clients in percent.
    """
    ends: dict[float, dict[str, str]] = {}
    for history in _laptop_runs("36_noniid_levels"):
        row = ends.setdefault(reading.option(history, "beta"), {})
        row[history.config.algorithm] = _average_and_worst(history)
    rows = [
        (f"{beta:g}", *(row.get(name, "–") for name in FIVE)) for beta, row in sorted(ends.items())
    ]
    return _markdown(("concentration", *(style.look(name).label for name in FIVE)), rows)


def work_table() -> str:
    """AdaFedAdam's unequal work on CIFAR-10, the published runs of the preset laptop: a row for
    even and one for drawn work, a column a method, average and worst 30 % in percent.
    """
    runs = [
        run for run in _laptop_runs("35_resource_heterogeneity") if run.config.algorithm in FIVE
    ]
    words = {"even": "two for all", "uneven": "one to three, drawn"}
    rows = [
        (words[kind], *(_average_and_worst(own[name][0]) for name in FIVE))
        for kind, own in by_work(runs).items()
    ]
    return _markdown(("local epochs", *(style.look(name).label for name in FIVE)), rows)


def _average_and_worst(history: History) -> str:
    """The accuracies over the last rounds, ``"34.3 / 17.4"``."""
    if history.diverged is not None:
        return "diverged"
    numbers = [100 * float(settled([history], name)[0]) for name in (AVERAGE, WORST)]
    return " / ".join(map(_number, numbers))


def ends_table() -> str:
    """FedOpt's tasks, the published runs of the preset laptop: a row a task, a column a method; the
    end of the test curve as the claims take it, and in brackets the number of Table 1.
    """
    rows = []
    for table in TABLES_1.values():
        digits = 2 if METRICS[table.cells[0].metric].smaller else 1
        best = winners(_laptop_runs(table.notebook))
        ours = {name: outcomes.collect(runs).iloc[0] for name, runs in best.items()}
        printed = {cell.algorithm: f" ({cell.printed:.{digits}f})" for cell in table.cells}
        cells = []
        for name in SERVERS if ours else ():
            end = ours[name]["performance"] if name in ours else nan
            failed = "diverged" if name in ours else "–"
            text = failed if isnan(end) else f"{end:.{digits}f}"
            cells.append(text + printed.get(name, ""))
        rows += [(f"`{table.task}`", *cells)] if cells else []
    return _markdown(("task", *(style.look(name).label for name in SERVERS)), rows)


def fashion_table() -> str:
    """Delta-SGD on Fashion-MNIST, the published runs of the preset laptop: a row a setting, a
    column a client optimizer; accuracy over the last 100 rounds, and in brackets the printed one,
    or the mean and standard deviation over the seeds.
    """
    runs = [*_laptop_runs("26_autotuned_images"), *_laptop_runs("39_delta_sgd_ablation")]
    printed: dict[tuple[Any, ...], float] = {
        (cell.algorithm, cell.options["alpha"], 1, "authors", client_of(cell.row)): cell.printed
        for tables in (DELTA_1, DELTA_4, DELTA_6)
        for cell in tables["fashion_mnist"].cells
    }
    values: dict[tuple[Any, ...], dict[str, float]] = {}  # a cell's, by digest
    for run in runs:
        task, config = run.config.task, run.config
        if task["name"] == "fashion_mnist":
            drawn = task["options"].get("draws", "")
            setting = (config.algorithm, task["options"]["alpha"], config.local_epochs, drawn)
            value = nan if run.diverged is not None else 100 * run.final(window=100)
            values.setdefault((*setting, client_label(run)), {})[config.digest] = value
    rows = []
    for setting in sorted({key[:-1] for key in values}, key=_fashion_order):
        algorithm, alpha, epochs, drawn = setting
        words = [style.look(algorithm).label, f"alpha {alpha:g}"]
        words += [f"{epochs} local epochs"] * (epochs != 1)
        words += ["our own draws, {} seeds".format(len(values[*setting, "sgd"]))] * (not drawn)
        cells = []
        for client in CLIENTS:
            ends = np.array([*values[*setting, client].values()])
            mean, spread = float(ends.mean()), float(ends.std())
            text = "diverged" if isnan(mean) else _number(mean)
            known = printed.get((*setting, client), nan)
            text += f" ± {spread:.1f}" if len(ends) > 1 else ""
            cells.append(text if isnan(known) else f"{text} ({known:.1f})")
        rows.append((", ".join(words), *cells))
    return _markdown(("", *(style.CLIENT_LOOKS[client].label for client in CLIENTS)), rows)


def _fashion_order(setting: tuple[Any, ...]) -> tuple[Any, ...]:
    """FedAvg before the others and one epoch before two, the largest alpha first."""
    algorithm, alpha, epochs, drawn = setting
    return not drawn, epochs, algorithm != "fedavg", algorithm, -alpha


def _laptop_runs(notebook: str) -> list[History]:
    """The published runs of a notebook's preset laptop, without parameters."""
    archive = project_root() / "data" / "results" / f"{notebook}_laptop.zip.xz"
    runs = open_archive(archive).values() if archive.is_file() else ()
    return [run.history(params=False) for run in runs]


def _rows_of(base: str) -> list[str]:
    """The printed labels of a base optimizer's rows, in the order of the methods."""
    printed = papers.table("mime", "table2_accuracy").query("base_optimizer == @base")
    labels = printed.drop_duplicates("method").set_index("method")["printed_name"]
    return [str(labels[method]) for method in LOOKS]


def _number(value: float) -> str:
    return "–" if isnan(value) else f"{value:.1f}"


def _rate(digests: Sequence[str]) -> str:
    """The client learning rate that some runs share."""
    run = _published().load(digests[0], params=False)
    return f"{reading.hyperparameter(run, 'client_lr'):.2g}"


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head), ["---" for _ in head], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def scale_table(paper: str) -> str:
    """A row per printed number of a paper with a run on its data, at its preset and its rounds."""
    frame = _compared()
    whole = (frame["preset"] == "paper") & (frame["rounds"] == frame["printed_rounds"])
    shown = frame[whole & (frame["data"] == "real") & (frame["repeats"] == "")]
    shown = shown[shown["comparable"] & shown["ours"].notna() & (shown["paper"] == paper)]
    rows = []
    for row in shown.to_dict("records"):
        name = f"{row['row']}, {row['column']}" if row["column"] else row["row"]
        printed, ours = (_number(row[key]) for key in ("printed", "ours"))
        spread = "" if isnan(row["ours_std"]) else f" ± {row['ours_std']:.1f}"
        where = f"{row['item']}, `{row['task']}`"
        metric = METRIC_WORDS[row["metric"]]
        rows.append((where, name, metric, printed, ours + spread, str(row["seeds"]), row["note"]))
    head = ("table, task", "row", "number", "printed", "ours", "seeds", "departs from the paper by")
    return _markdown(head, rows)


@cache
def verdicts() -> pd.DataFrame:
    """A row per claim: source (the paper), where, claim, and the verdicts by what was run: quick,
    fresh seeds, real data.
    """
    frame = overview("laptop", "paper", store=_published())
    paper, laptop = frame.pop("paper"), frame.pop("laptop")
    cut = ~laptop.isin([NOT_RUN, NOT_CLAIMED]) & (paper == NOT_RUN)
    frame["real data"] = paper.where(~cut, CUT + laptop)
    for place, (name, file) in enumerate(MEASURED.items(), 3):
        known = _measured(file)
        frame.insert(place, name, [known.get(text, NOT_CLAIMED) for text in frame["claim"]])
    return frame


def claims_table(paper: str) -> str:
    """A row per claim of a paper: where it stands, what it says, and the verdicts."""
    frame = verdicts()
    shown = frame[frame["source"] == paper].drop(columns="source")
    return _markdown(shown, shown.to_numpy())


def verdicts_table() -> str:
    """How many claims have which verdict, by paper and by what was run."""
    frame = verdicts()
    rows = []
    for paper, part in frame.groupby("source", sort=False):
        for name in (*MEASURED, "real data"):
            words = part[name].str.replace("*", "").str.removeprefix(CUT)
            counts = [int(words.str.startswith(word).sum()) for word in VERDICTS]
            assert sum(counts) == len(part), f"unknown verdict among {list(words)}"
            rows.append((PAPERS[str(paper)], name, *map(str, counts)))
    return _markdown(("paper", "runs", *VERDICTS), rows)


NOT_CLAIMED = "not claimed"
# Before verdicts on runs of the laptop preset.
CUT = "cut: "
VERDICTS = ("holds", "does not hold", "not resolved", NOT_RUN, NOT_CLAIMED)
# Verdicts as they were measured and committed: on the notebooks' seeds, and on fresh ones.
MEASURED = {"quick": "claims_quick.json", "fresh seeds": "claims_quick_seed_3.json"}


def _measured(file: str) -> dict[str, str]:
    """What a claim says -> its verdict on the quick preset."""
    path = project_root() / "data" / "results" / file
    words = {}
    for claim in json.loads(path.read_text(encoding="utf-8"))["claims"]:
        closest = min(claim["numbers"], key=lambda number: number["mean"], default=None)
        margin = f" ({closest['mean']:+.3f} ± {closest['spread']:.3f})" if closest else ""
        why = f": {claim['reason']}" if claim["reason"] and file == MEASURED["quick"] else ""
        words[claim["says"]] = f"**{claim['verdict']}**{margin}{why}"
    return words


def figures_table() -> str:
    """From which runs ``fedlib figures`` draws in a fresh clone, a row per paper."""
    rows = []
    for paper, label in PAPERS.items():
        whole, small, some = [], [], []
        for entry in entries():
            if entry.paper == paper and entry.draw is not None:
                preset, memory = preferred(_published(), entry)
                there = memory.of(entry.notebooks).runs
                missing = [task for task in entry.notebooks if task not in there]
                if preset == PRESETS[0]:
                    small.append(entry.id)
                elif missing:
                    word, tasks = "without", missing
                    if len(there) < len(missing):
                        word, tasks = "only", list(there)
                    named = _drawn([entry.id]).removeprefix(f"{label} ")
                    some.append(f"{named} ({word} {', '.join(f'`{task}`' for task in tasks)})")
                else:
                    whole.append(entry.id)
        listed = [_drawn(ids).removeprefix(f"{label} ") for ids in (whole, small)]
        rows.append((label, listed[0], "; ".join(some), listed[1]))
    head = ("paper", "the paper's tasks", "some of the paper's tasks", "small problems")
    return _markdown(head, rows)


def laptop_table(paper: str) -> str:
    """A row per notebook of a paper's experiments: what its preset laptop cuts and costs."""
    makers = {maker for entry in entries() if entry.paper == paper for maker in _makers(entry)}
    rows = []
    for name, wanted in plans((), "laptop", 0, {}).items():
        if name in makers:
            whole = plans((name,), "paper", 0, {})[name]
            numbers = f"{len(_laptop_metas(name))} of {_runs(wanted)} ({_runs(whole)})"
            cost = laptop_hours(name) or "not estimated"
            rows.append((f"`{name}`", "; ".join(_cuts(wanted, whole)), numbers, cost))
    head = ("notebook", "cut", "runs published, of laptop's (and paper's) plan", "core-hours")
    return _markdown(head, rows)


def _runs(requests: Sequence[Request]) -> int:
    """How many runs a plan has: parts may ask for the same one."""
    return len({repr(replace(request, part="", place=None)) for request in requests})


def laptop_hours(notebook: str) -> str:
    """The core-hours that a notebook's published runs of the preset laptop took, ``"1.1"``; while
    most are missing, what was estimated, ``"about 3"``; else nothing.
    """
    metas = _laptop_metas(notebook)
    if 2 * len(metas) > _runs(plans((notebook,), "laptop", 0, {})[notebook]):
        taken = sum(meta["seconds"] * meta["threads"] / meta["configurations"] for meta in metas)
        return f"{taken / 3600:.1f}"
    path = project_root() / "data" / "results" / "laptop_hours.json"
    estimates = json.loads(path.read_text(encoding="utf-8"))["hours"]
    return f"about {max(1, round(estimates[notebook]))}" if notebook in estimates else ""


@cache
def _laptop_metas(notebook: str) -> list[dict[str, Any]]:
    """How the published runs of a notebook's preset laptop came about."""
    return [run.meta for run in _laptop_runs(notebook)]


def _makers(entry: Entry) -> set[str]:
    return set(entry.notebooks.values())


def _cuts(laptop: Sequence[Request], paper: Sequence[Request]) -> list[str]:
    """In which settings of its tasks a plan differs from the paper's."""
    options = ("width", "words", "examples", "sizes", "network", "init", "lr_factor")
    cut, whole = (
        task_table(requests, preset, options).set_index("task")
        for requests, preset in ((laptop, "laptop"), (paper, "paper"))
    )
    return [
        f"`{task}`: {', '.join(changes)}"
        for task in cut.index.intersection(whole.index)
        if (
            changes := [
                f"{name.replace('_', ' ')} {cut.loc[task, name]} of {whole.loc[task, name]}"
                for name in cut.columns.intersection(whole.columns)
                if cut.loc[task, name] != whole.loc[task, name]
            ]
        )
    ]


# Which tables stand in which page.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "notebooks.md": {"notebooks": notebook_table},
    "results.md": {
        "verdicts": verdicts_table,
        "agreement": agreement_table,
        "figures": figures_table,
    },
    **{
        f"results/{paper}.md": {
            "claims": partial(claims_table, paper),
            "laptop": partial(laptop_table, paper),
        }
        for paper in PAPERS
    },
}
for _paper in ("adafedadam", "delta_sgd"):
    PAGES[f"results/{_paper}.md"]["scale"] = partial(scale_table, _paper)
PAGES["results/mime.md"] |= {"table 2": mime_table, "ablation": ablation_table}
PAGES["results/adafedadam.md"] |= {"levels": levels_table, "work": work_table}
PAGES["results/fedopt.md"]["ends"] = ends_table
PAGES["results/delta_sgd.md"]["fashion"] = fashion_table


def filled(page: str, text: str) -> str:
    """A page's text with its tables made anew.

    Raises:
        Error: a table's marks are missing.
    """
    for name, make in PAGES[page].items():
        marks = re.compile(rf"(<!-- table: {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        if not marks.search(text):
            raise Error(f"{page} has no marks for the table {name!r}: <!-- table: {name} -->")
        table = make()
        text = marks.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    for page in PAGES:
        path = project_root() / "docs" / page
        files.write(path, filled(page, path.read_text(encoding="utf-8")).encode())
