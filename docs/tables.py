"""The tables of docs/ that follow from the notebooks, the entries and the published runs.

``python -m docs.tables`` (``make docs``) writes them between their marks; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isnan, nan

import nbformat
import numpy as np
import pandas as pd

from fedlib import files, papers, plans
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.paths import project_root
from fedlib.plans import Request
from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam.claims import AVERAGE, WORST
from fedlib.reproduction.adafedadam.tables import DRAWN_EPOCHS, FIVE
from fedlib.reproduction.claims import NOT_PRINTED, overview
from fedlib.reproduction.compare import compare
from fedlib.reproduction.delta_sgd.tables import CLIENTS, client_of
from fedlib.reproduction.draw import entries
from fedlib.reproduction.evidence import MEAN, NOT_RUN, winners
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import OPTIMIZERS
from fedlib.reproduction.listing import task_table
from fedlib.reproduction.matching import Index
from fedlib.reproduction.metrics import METRICS
from fedlib.reproduction.mime.claims import RIVALS, lines, reached
from fedlib.reproduction.mime.figures import LOOKS as LINE_LOOKS
from fedlib.reproduction.mime.figures import line_of
from fedlib.reproduction.mime.table_2 import BASES, LOOKS
from fedlib.results import reading
from fedlib.results.selection import late
from fedlib.results.store import Store

# The methods of FedOpt's Figure 1.
METHODS = (*OPTIMIZERS, "scaffold")
# Delta-SGD's printed tables of Fashion-MNIST.
PRINTED = ("Table 1", "Table 4", "Table 6")


def number(value: float) -> str:
    """``"79.5"``; "–" of NaN."""
    return "–" if isnan(value) else f"{value:.1f}"


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    lines = [list(head), ["---" for _ in head], *map(list, rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


@cache
def published() -> Store:
    """Only the runs that the checkout publishes."""
    root = project_root() / "data" / "results"
    return Store(root / "none", published=[root])


@cache
def compared() -> pd.DataFrame:
    """The printed numbers beside those of the published runs."""
    return compare(published())


def mime_table() -> str:
    """Mime's Table 2 on EMNIST logistic regression: printed, ours, and the rates that were chosen.

    A row per base optimizer; FedAvg, MimeLite and Mime in this order. "–" of runs that were
    published without their values per client, among which no rate can be chosen.
    """
    frame = compared()
    frame = frame[(frame["paper"] == "mime") & (frame["task"] == "emnist_logistic")]
    stated = papers.table("mime", "table2_accuracy").drop_duplicates("printed_name")
    names = stated.set_index("printed_name")[["base_optimizer", "method"]]
    cells = frame.join(names, on="row").set_index([*names]).to_dict("index")
    rows = []
    for base in BASES:
        part = [cells[base, method] for method in LOOKS]
        rates = ["–" if isnan(row["ours"]) else _rate(row["runs"]) for row in part]
        numbers = [[number(row[name]) for row in part] for name in ("printed", "ours")]
        rows.append((base, *map(", ".join, (*numbers, rates))))
    methods = ", ".join(LOOKS)
    head = ("base optimizer", f"printed: {methods}", "ours", "client learning rates chosen")
    return markdown(head, rows)


def ablation_table() -> str:
    """Mime's ablation on FEMNIST, the published runs of the preset laptop: a row a line, fastest
    first, each at its best setting.
    """
    histories = laptop_runs("38_mime_ablation")
    needed = reached(lines(histories)).xs(MEAN, axis=1, level="round").iloc[:, 0]
    rows = []
    for name, (run,) in winners(histories, line_of).items():
        there = f"{needed[name]:.0f}" if needed[name] <= run.config.rounds else "not in 100"
        rate = f"{reading.hyperparameter(run, 'client_lr'):.2g}"
        look = LINE_LOOKS.get(name) or style.look(name)
        label = RIVALS.get(name, look.label)
        rows.append((needed[name], (label, rate, there, f"{100 * run.final():.1f}")))
    head = ("line", "client learning rate", "rounds to the target", "accuracy at the end")
    return markdown(head, [row for _, row in sorted(rows)])


def silos_table(notebook: str, head: str, setting: Callable[[History], str]) -> str:
    """AdaFedAdam's cut of CIFAR-10, the published runs of the preset laptop: a row a setting, a
    column a method; average and worst 30 % of the clients over the last rounds, in percent.
    """
    ends: dict[str, dict[str, str]] = {}
    for run in laptop_runs(notebook):
        numbers = [100 * run.final(name, window=late(run)) for name in (AVERAGE, WORST)]
        text = "diverged" if run.diverged is not None else " / ".join(map(number, numbers))
        ends.setdefault(setting(run), {})[run.config.algorithm] = text
    rows = [(text, *(row.get(name, "–") for name in FIVE)) for text, row in ends.items()]
    return markdown((head, *(style.look(name).label for name in FIVE)), rows)


def level_of(run: History) -> str:
    """The concentration of a run's label skew."""
    return f"{reading.option(run, 'beta'):g}"


def work_of(run: History) -> str:
    """How many local epochs a run's clients do."""
    drawn = tuple(np.atleast_1d(run.config.local_epochs)) == DRAWN_EPOCHS
    return "one to three, drawn" if drawn else "two for all"


def ends_table() -> str:
    """FedOpt's tasks, the published runs of the preset laptop: a row a task, a column a method; the
    end of the test curve as the claims take it, and in brackets the number of Table 1.
    """
    rows = []
    for task, table in tables.find("fedopt", "Table 1").groupby("task", sort=False):
        digits = 2 if METRICS[table["metric"].iloc[0]].smaller else 1
        best = winners(laptop_runs(tables.FEDOPT[str(task)]))
        ours = {name: outcomes.collect(runs).iloc[0] for name, runs in best.items()}
        numbers = table.set_index("algorithm")["printed"]
        printed = {name: f" ({value:.{digits}f})" for name, value in numbers.items()}
        cells = []
        for name in METHODS if ours else ():
            end = ours[name]["performance"] if name in ours else nan
            failed = "diverged" if name in ours else "–"
            text = failed if isnan(end) else f"{end:.{digits}f}"
            cells.append(text + printed.get(name, ""))
        rows += [(f"`{task}`", *cells)] if cells else []
    return markdown(("task", *(style.look(name).label for name in METHODS)), rows)


def fashion_table() -> str:
    """Delta-SGD on Fashion-MNIST, the published runs of the preset laptop: a row a setting, a
    column a client optimizer; accuracy over the last 100 rounds, and in brackets the printed one,
    or the mean and standard deviation over the seeds.
    """
    runs = [*laptop_runs("26_autotuned_images"), *laptop_runs("39_delta_sgd_ablation")]
    once = {run.config.digest: run for run in runs if run.config.task["name"] == "fashion_mnist"}
    rows = []
    for authors in (True, False):
        drawn = [run for run in once.values() if ("draws" in run.config.task["options"]) == authors]
        settings = reading.group(drawn, "local_epochs", "algorithm", "option.alpha")
        # One epoch before two, FedAvg before the others, the largest alpha first.
        order = sorted(settings, key=lambda own: (own[0], own[1] != "fedavg", own[1], -own[2]))
        for epochs, algorithm, alpha in order:
            words = [style.look(algorithm).label, f"alpha {alpha:g}"]
            words += [f"{epochs} local epochs"] * (epochs != 1) + ["our own draws"] * (not authors)
            printed = {
                client_of(cell["row"]): cell["printed"]
                for item in PRINTED * (authors and epochs == 1)
                for cell in tables.find("delta_sgd", item, "fashion_mnist").to_dict("records")
                if (cell["algorithm"], cell["options"]["alpha"]) == (algorithm, alpha)
            }
            own = settings[epochs, algorithm, alpha]
            cells = [
                _fashion_cell(
                    [run for run in own if reading.client_label(run) == client],
                    printed.get(client, nan),
                )
                for client in CLIENTS
            ]
            rows.append((", ".join(words), *cells))
    return markdown(("", *(style.CLIENT_LOOKS[client].label for client in CLIENTS)), rows)


def _fashion_cell(runs: Sequence[History], printed: float) -> str:
    """``"79.5 (86.5)"``, ``"76.4 ± 0.6"`` of several seeds, or ``"diverged"``."""
    if any(run.diverged is not None for run in runs):
        return "diverged"
    ends = 100 * np.array([run.final(window=100) for run in runs])
    spread = f" ± {ends.std():.1f}" if len(ends) > 1 else ""
    return f"{ends.mean():.1f}{spread}" + ("" if isnan(printed) else f" ({printed:.1f})")


@cache
def known() -> Index:
    """The published runs, by what they are."""
    return Index(published().stored(published=True))


@cache
def laptop_runs(notebook: str) -> Sequence[History]:
    """The published runs of a notebook's plan at the preset laptop, without parameters."""
    return known().plan(plans.requests(notebook, "laptop"), "laptop")


def _rate(digests: Sequence[str]) -> str:
    """The client learning rate that some runs share."""
    run = published().load(digests[0], params=False)
    return f"{reading.hyperparameter(run, 'client_lr'):.2g}"


PAPERS = {"fedopt": "FedOpt", "mime": "Mime", "adafedadam": "AdaFedAdam", "delta_sgd": "Δ-SGD"}

# The first notebook of a group -> its title, and the first one of the next group.
GROUPS = {
    "00": ("Ideas, on problems that one can solve by hand", "10"),
    "10": ("FedOpt's seven tasks", "20"),
    "20": ("AdaFedAdam's, Mime's and Δ-SGD's tasks", "30"),
    "30": ("Grids, trade-offs and ablations", "90"),
    "90": ("All of it together", "99"),
}
NOTEBOOKS = ("notebook", "question", "quick, on two cores", "draws")


def notebook_table() -> str:
    """A row per notebook, in five groups: its question, its quick time, and what it draws of the
    papers.
    """
    texts = []
    for first, (title, following) in GROUPS.items():
        rows = []
        for path in plans.notebooks().values():
            if not first <= path.stem < following:
                continue
            cells = [cell.source for cell in nbformat.read(path, as_version=4).cells]
            question = re.search(r"\*\*(.+?)\*\*", cells[0], re.DOTALL)
            takes = re.search(r"\| runtime \| (?:quick: )?([^|;]+)", "\n".join(cells))
            if question is None or takes is None:
                raise Error(f"{path.name}: it has no question in bold, or its card no runtime")
            link = f"[`{path.stem}`](../notebooks/{path.name})"
            drawn = [entry.id for entry in entries() if path.stem in entry.notebooks.values()]
            time = takes[1].strip().removesuffix(" on two CPU cores")
            rows.append((link, " ".join(question[1].split()), time, _drawn(drawn)))
        texts.append(f"## {title}\n\n{markdown(NOTEBOOKS, rows)}")
    return "\n\n".join(texts)


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


def agreement_table() -> str:
    """What ``fedlib compare`` counts of the published runs, a row per paper."""
    frame = compared()
    frame = frame[frame["repeats"] == ""]
    counts = {
        "different printed numbers": True,
        "with a run": frame["seeds"] > 0,
        "not on a stand-in": frame["data"] == "real",
        "comparable, and without a note": frame["fair"],
        "agree": frame["agrees"],
    }
    by = frame.assign(**counts).groupby("paper", sort=False)[[*counts]].sum()
    rows = [(PAPERS[str(paper)], *map(str, row)) for paper, *row in by.itertuples(name=None)]
    return markdown(("paper", *counts), rows)


def scale_table(paper: str) -> str:
    """A row per printed number of a paper with a run on its data, at its preset and its rounds."""
    frame = compared()
    whole = (frame["preset"] == "paper") & (frame["rounds"] == frame["printed_rounds"])
    shown = frame[whole & (frame["data"] == "real") & (frame["repeats"] == "")]
    shown = shown[shown["comparable"] & shown["ours"].notna() & (shown["paper"] == paper)]
    rows = []
    for row in shown.to_dict("records"):
        name = f"{row['row']}, {row['column']}" if row["column"] else row["row"]
        printed, ours = (number(row[key]) for key in ("printed", "ours"))
        spread = "" if isnan(row["ours_std"]) else f" ± {row['ours_std']:.1f}"
        where = f"{row['item']}, `{row['task']}`"
        metric = style.name(row["metric"])
        rows.append((where, name, metric, printed, ours + spread, str(row["seeds"]), row["note"]))
    head = ("table, task", "row", "number", "printed", "ours", "seeds", "departs from the paper by")
    return markdown(head, rows)


@cache
def verdicts() -> pd.DataFrame:
    """A row per claim, by its id: source (the paper), where, claim (its words, and what is judged),
    and the verdicts: quick, in print, real data.
    """
    known = overview(store=published()).set_index("id")
    frame = known[["source", "where"]].copy()
    for claim in papers.claims():
        id, said = claim["id"], claim["in_print"]
        words = f"“{claim['quote']}” Judged: {claim['shows']}."
        frame.loc[id, "claim"] = words + (
            f" Except: {claim['except']}." if "except" in claim else ""
        )
        frame.loc[id, "quick"] = known.loc[id, "quick"]
        verdict, whole, cut = known.loc[id, ["print", "paper", "laptop"]]
        frame.loc[id, "in print"] = said if said.startswith(verdict) else f"{verdict}: {said}"
        if whole.startswith(NOT_RUN):
            whole = cut if cut.startswith((NOT_RUN, NOT_CLAIMED)) else CUT + cut
        frame.loc[id, "real data"] = whole
    return frame


def claims_table(paper: str) -> str:
    """A row per claim of a paper: where it stands, its words, what is judged, and the verdicts."""
    frame = verdicts()
    shown = frame[frame["source"] == paper].drop(columns="source")
    return markdown(shown, shown.to_numpy())


def verdicts_table() -> str:
    """How many claims have which verdict, by paper and by what was run."""
    frame = verdicts()
    rows = []
    for paper, part in frame.groupby("source", sort=False):
        for name in ("in print", "quick", "real data"):
            words = part[name].str.removeprefix(CUT)
            counts = [int(words.str.startswith(word).sum()) for word in VERDICTS]
            assert sum(counts) == len(part), f"unknown verdict among {list(words)}"
            rows.append((PAPERS[str(paper)], name, *map(str, counts)))
    return markdown(("paper", "runs", *VERDICTS), rows)


NOT_CLAIMED = "not claimed"
# Before verdicts on runs of the laptop preset.
CUT = "cut: "
VERDICTS = ("holds", "does not hold", "not resolved", NOT_RUN, NOT_PRINTED, NOT_CLAIMED)


def laptop_table(paper: str) -> str:
    """A row per notebook of a paper's experiments: what its preset laptop cuts and costs."""
    makers = {
        maker for entry in entries() if entry.paper == paper for maker in entry.notebooks.values()
    }
    rows = []
    for name in plans.planned():
        if name in makers:
            wanted, whole = (plans.requests(name, preset) for preset in ("laptop", "paper"))
            there = {run.config.digest: run.meta for run in laptop_runs(name)}
            numbers = f"{len(there)} of {_runs(wanted)} ({_runs(whole)})"
            took = dict.fromkeys(("cpu", "gpu"), 0.0)
            for meta in there.values():
                where = "cpu" if meta["device"] == "cpu" else "gpu"
                took[where] += meta["seconds"] * meta["threads"] / meta["configurations"] / 3600
            parts = {"cpu": f"{took['cpu']:.1f}", "gpu": f"{took['gpu']:.1f} of a GPU"}
            hours = " and ".join(text for where, text in parts.items() if took[where] >= 0.05)
            rows.append((f"`{name}`", "; ".join(_cuts(wanted, whole)), numbers, hours))
    head = (
        "notebook",
        "cut",
        "runs published, of laptop's (and paper's) plan",
        "core-hours they took",
    )
    return markdown(head, rows)


def _runs(requests: Sequence[Request]) -> int:
    """How many runs a plan has: parts may ask for the same one."""
    return len({repr(replace(request, part="")) for request in requests})


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
PAGES["results/mime.md"] |= {
    "table 2": mime_table,
    "ablation": ablation_table,
}
PAGES["results/adafedadam.md"] |= {
    "levels": partial(silos_table, "36_noniid_levels", "concentration", level_of),
    "work": partial(silos_table, "35_resource_heterogeneity", "local epochs", work_of),
}
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
