"""The tables of docs/ that follow from the notebooks, the entries and the published runs.

``python -m docs.tables`` (``make docs``) writes them between their marks. A test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isnan
from typing import Any

import nbformat
import pandas as pd

from fedlib import files, papers, plans
from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.tables import digits_of
from fedlib.paths import project_root
from fedlib.plans import Request
from fedlib.reproduction import forecast, tables
from fedlib.reproduction.adafedadam.claims import AVERAGE, FIVE, WORST
from fedlib.reproduction.claims import EVIDENCE, NOT_PRINTED, overview
from fedlib.reproduction.compare import AGREES, DIFFERS, TOLERANCE, UNDECIDED, compare
from fedlib.reproduction.draw import drawn_from, entries
from fedlib.reproduction.evidence import MEAN, NOT_RUN, part_of, winners
from fedlib.reproduction.fedopt import outcomes
from fedlib.reproduction.fedopt.tables import OPTIMIZERS
from fedlib.reproduction.listing import listed, task_table
from fedlib.reproduction.matching import Index
from fedlib.reproduction.mime.claims import RIVALS, lines, reached
from fedlib.reproduction.mime.figures import LOOKS, PLAIN
from fedlib.reproduction.mime.tables import line_of
from fedlib.results import reading
from fedlib.results.files import open_runs, run_files
from fedlib.results.selection import late
from fedlib.results.store import Store

# The methods of FedOpt's Figure 1.
METHODS = (*OPTIMIZERS, "scaffold")


def number(value: float, digits: int = 1) -> str:
    """A number such as ``"79.5"``, or "–" if it is NaN."""
    return "–" if isnan(value) else f"{value:.{digits}f}"


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
    """The printed numbers and those of the published runs."""
    return compare(published())


def ablation_table() -> str:
    """Mime's ablation on FEMNIST in the published runs of the preset laptop.

    A row is a line of the figure at its best setting, the fastest first.
    """
    histories = laptop_runs("38_mime_ablation")
    needed = reached(lines(histories)).xs(MEAN, axis=1, level="round").iloc[:, 0]
    rows = []
    for name, (run,) in winners(histories, line_of).items():
        rounds = f"{needed[name]:.0f}" if needed[name] <= run.config.rounds else "not in 100"
        known = reading.hyperparameters(run)
        beta = "–" if name in PLAIN else str(known.get("momentum", "–"))
        look = LOOKS.get(name) or style.look(name)
        label = RIVALS.get(name, look.label)
        end = f"{100 * run.final():.1f}"
        rows.append((needed[name], (label, f"{known['client_lr']:.2g}", beta, rounds, end)))
    over = f"accuracy, last {run.window()} rounds"  # as the target
    head = ("line", "client learning rate", "beta", "rounds to the target", over)
    return markdown(head, [row for _, row in sorted(rows)])


def ends(
    head: str,
    runs: Iterable[History],
    row: Callable[[History], str],
    methods: Iterable[str],
    end: Callable[[History], str],
) -> str:
    """The ends of runs, one per cell: a row per setting and a column per method.

    Args:
        end: gives the cell of a run that did not diverge.
    """
    cells: dict[str, dict[str, str]] = {}
    for run in runs:
        text = end(run) if run.diverged is None else "diverged"
        cells.setdefault(row(run), {})[run.config.algorithm] = text
    rows = [(setting, *(own.get(name, "–") for name in methods)) for setting, own in cells.items()]
    return markdown((head, *(style.look(name).label for name in methods)), rows)


def silos_table(notebook: str, head: str, key: str) -> str:
    """AdaFedAdam's CIFAR-10 in the published runs of the preset laptop, a row per value of ``key``.

    A cell has the average and the worst 30 % of the clients over the last rounds, in percent.
    """

    def end(run: History) -> str:
        numbers = (run.final(name, window=late(run)) for name in (AVERAGE, WORST))
        return " / ".join(number(100 * value) for value in numbers)

    def setting(run: History) -> str:
        return listed([reading.value(run, key)])

    return ends(head, laptop_runs(notebook), setting, FIVE, end)


def fedopt_table() -> str:
    """FedOpt's tasks in the published runs of the preset laptop.

    A cell has the end of the test curve by the claims' rule, and in brackets the number of Table 1.
    """
    printed = tables.find("fedopt", "Table 1").set_index(["task", "algorithm"])["printed"]

    def end(run: History) -> str:
        ours = outcomes.collect([run]).iloc[0]
        digits = digits_of(ours["metric"])
        theirs = printed.get((ours["task"], ours["algorithm"]))
        brackets = "" if theirs is None else f" ({theirs:.{digits}f})"
        return f"{ours['performance']:.{digits}f}{brackets}"

    chosen = [winners(laptop_runs(tables.FEDOPT[task])) for task in printed.index.unique("task")]
    runs = [methods[name][0] for methods in chosen for name in METHODS if name in methods]

    def over(run: History) -> str:
        return f"`{run.config.task['name']}`, last {late(run)} rounds"

    return ends("task", runs, over, METHODS, end)


@cache
def known() -> Index:
    """The published runs, indexed by their settings."""
    return Index(published().stored(published=True))


@cache
def laptop_runs(notebook: str) -> Sequence[History]:
    """The published runs of a notebook's plan at the preset laptop, without parameters."""
    return known().plan(plans.requests(notebook, "laptop"), "laptop")


PAPERS = {"fedopt": "FedOpt", "mime": "Mime", "adafedadam": "AdaFedAdam", "delta_sgd": "Δ-SGD"}

# The first digit of a group's notebooks -> its title.
GROUPS = {
    "0": "Ideas, on problems that one can solve by hand",
    "1": "FedOpt's seven tasks",
    "2": "AdaFedAdam's, Mime's and Δ-SGD's tasks",
    "3": "Grids, trade-offs and ablations",
    "4": "Further experiments",
    "9": "All of it together",
}
NOTEBOOKS = ("notebook", "question", "quick, on two cores", "draws")


def notebooks_by_group() -> dict[str, list[tuple[str, str, str]]]:
    """The names, questions and quick times of the notebooks, by group."""
    rows: dict[str, list[tuple[str, str, str]]] = {digit: [] for digit in GROUPS}
    for path in plans.notebooks().values():
        cells = [cell.source for cell in nbformat.read(path, as_version=4).cells]
        question = re.search(r"\*\*(.+?)\*\*", cells[0], re.DOTALL)
        takes = re.search(r"\| runtime \| (?:quick: )?([^|;]+)", "\n".join(cells))
        if question is None or takes is None:
            raise Error(f"{path.name}: it has no question in bold, or its card no runtime")
        time = takes[1].strip().removesuffix(" on two CPU cores")
        rows[path.stem[0]].append((path.stem, " ".join(question[1].split()), time))
    return {GROUPS[digit]: own for digit, own in rows.items() if own}


def notebook_table() -> str:
    """A row per notebook, by group: its question, its quick time, and the papers' figures that it
    draws.
    """
    texts = []
    for title, rows in notebooks_by_group().items():
        links = [(f"[`{row[0]}`](../notebooks/{row[0]}.ipynb)", *row[1:]) for row in rows]
        own = [(*link, _drawn(row[0])) for link, row in zip(links, rows, strict=True)]
        texts.append(f"## {title}\n\n{markdown(NOTEBOOKS, own)}")
    return "\n\n".join(texts)


def hours_table() -> str:
    """The cost of the whole preset paper, by ``fedlib sweep --preset paper --dry-run``."""
    requests = [run for name in plans.planned() for run in plans.requests(name, "paper")]
    frame = forecast.table(forecast.survey(requests, "paper"), set(), "paper")
    names = {"programs": "programs", "runs": "runs", "rounds": "rounds"}
    names |= {"evaluations": "evaluations", "gigabytes": "memory, GB"}
    names |= {"hours_two_cores": "hours, two cores", "hours_h200": "hours, H200"}
    rows = forecast.words(frame, "paper")[list(names)]
    cells = [(name, *map(str, row)) for name, row in zip(rows.index, rows.to_numpy(), strict=True)]
    return markdown(["task", *names.values()], cells)


def _drawn(notebook: str) -> str:
    """``"FedOpt Figures 2, 5; FedOpt Table 8"``."""
    numbers: dict[str, list[str]] = {}
    for entry in entries():
        if notebook in entry.notebooks.values():
            kind, number = entry.id.split("/")[1].split("_")
            numbers.setdefault(f"{PAPERS[entry.paper]} {kind.title()}", []).append(number)
    return "; ".join(f"{k}{'s' * (len(n) > 1)} {', '.join(n)}" for k, n in numbers.items())


def agreement_table() -> str:
    """The counts of ``fedlib compare`` on the published runs, a row per paper.

    The numbers that chose our readings of AdaFedAdam have a separate row.
    """
    frame = compared()
    frame = frame[(frame["repeats"] == "") & frame["printed"].notna()]
    outcomes = {name: frame["outcome"] == name for name in (AGREES, DIFFERS, UNDECIDED)}
    counts = {
        "printed numbers in our copies": True,
        "with a run": frame["seeds"] > 0,
        "not on a stand-in": frame["data"] == "real",
        "compared": frame["outcome"] != "",
        "decisive": outcomes[AGREES] | outcomes[DIFFERS],
        "agree": outcomes[AGREES],
        "differ": outcomes[DIFFERS],
        "cannot be told": outcomes[UNDECIDED],
    }
    names, within = frame["paper"].map(PAPERS), _in_sample(frame)
    names = names.mask(within, names + ", in sample")
    names = names.mask((frame["paper"] == "adafedadam") & ~within, names + ", others")
    by = frame.assign(**counts).groupby(names, sort=False)[[*counts]].sum()
    rows = [(str(name), *map(str, row)) for name, *row in by.itertuples(name=None)]
    return markdown(("paper", *counts), rows)


def _in_sample(frame: pd.DataFrame) -> pd.Series:
    """Whether our readings were chosen by a number: on Synthetic by Table 5 and q-FedAvg's."""
    synthetic = (frame["paper"] == "adafedadam") & (frame["task"] == "synthetic")
    return synthetic & ((frame["item"] == "Table 5") | (frame["algorithm"] == "qfedavg"))


def _outcomes(paper: str, items: str, task: str) -> pd.Series:
    """The outcomes of the numbers of printed tables, ``"Table 3 + Table 7"``, with their counts.

    Those of several tables leave out what is in sample.
    """
    frame = compared()
    shown = frame["item"].isin(items.split(" + ")) & (frame["task"] == task)
    if " + " in items:
        shown &= ~_in_sample(frame)
    counts = frame.loc[shown & (frame["paper"] == paper), "outcome"].value_counts()
    return counts.reindex([AGREES, DIFFERS, UNDECIDED], fill_value=0)


def agreeing(paper: str, items: str, task: str) -> str:
    """How many of the decisive numbers of printed tables agree, such as ``"12 of 15"``."""
    counts = _outcomes(paper, items, task)
    return f"{counts[AGREES]} of {counts[AGREES] + counts[DIFFERS]}"


def undecided(paper: str, items: str, task: str) -> str:
    """How many of the compared numbers of printed tables cannot be told."""
    return str(_outcomes(paper, items, task)[UNDECIDED])


def readings_table() -> str:
    """The distance of Synthetic's runs from AdaFedAdam's Table 5, by training and test data.

    It is the mean absolute difference over the methods without a tuned mu, in percentage points.
    """
    printed = tables.find("adafedadam", "Table 5", "synthetic")
    printed = printed.set_index(["algorithm", "metric"])["printed"]
    series = {"avg": AVERAGE, "std": "accuracy_std_weighted", "worst30": WORST}
    trained = {"curves": "three fifths", "stated": "four fifths"}
    measured = {"local": "all local data", "test": "the test fifth"}
    rows = []
    for split, on in measured.items():
        for part, share in trained.items():
            numbers = {
                (run.config.algorithm, metric, run.config.seeds["init"]): run.final(name, split, 1)
                for run in laptop_runs("23_fair_synthetic")
                if part_of(run) == part
                for metric, name in series.items()
            }
            ours = 100 * pd.Series(numbers).groupby(level=[0, 1]).mean()
            far = (ours - printed.loc[ours.index]).abs().groupby(level=1).mean()
            rows.append((share, on, *(number(far[metric]) for metric in series)))
    return markdown(("trained on", "measured on", "average", "spread", "worst 30 %"), rows)


def scale_table(paper: str) -> str:
    """A row per printed number of a paper with a run on its data, at its preset and its rounds."""
    frame = compared()
    whole = (frame["preset"] == "paper") & (frame["rounds"] == frame["printed_rounds"])
    shown = frame[whole & (frame["data"] == "real") & (frame["repeats"] == "")]
    shown = shown[shown["printed"].notna() & (shown["paper"] == paper)]
    several = shown["splits"].max() > 1
    rows = []
    for row in shown.to_dict("records"):
        name = f"{row['row']}, {row['column']}" if row["column"] else row["row"]
        digits = digits_of(row["metric"])
        printed, ours, spread, chance = (
            number(row[key], digits) for key in ("printed", "ours", "ours_std", "chance")
        )
        ours += "" if isnan(row["ours_std"]) else f" ± {spread}"
        where = f"{row['item']}, `{row['task']}`"
        cells = [where, name, style.name(row["metric"]), printed, ours, str(row["seeds"])]
        cells += [str(row["splits"])] if several else []
        rows.append((*cells, str(row["window"]), chance, row["outcome"] or "–", row["note"]))
    head = ["table, task", "row", "number", "printed", "ours", "seeds"]
    head += ["splits"] if several else []
    return markdown((*head, "last rounds", "chance", "outcome", "departs from the paper by"), rows)


@cache
def verdicts() -> pd.DataFrame:
    """A row per claim, by its id.

    The columns are source (the paper), where (the place in it), claim (its words and the judged
    statement), and the verdicts: quick, paper's numbers, real data.
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
        said = said if said.startswith(verdict) else f"{verdict}: {said}"
        frame.loc[id, "paper's numbers"] = said
        if whole.startswith(NOT_RUN):
            whole = cut if cut.startswith((NOT_RUN, NOT_CLAIMED)) else CUT + cut
        frame.loc[id, "real data"] = whole
    return frame


def claims_table(paper: str) -> str:
    """A row per claim of a paper: its place, its words, the judged statement, and the verdicts."""
    frame = verdicts()
    shown = frame[frame["source"] == paper].drop(columns="source")
    return markdown(shown, shown.to_numpy())


def verdicts_table() -> str:
    """The number of claims with each verdict, by paper and by kind of runs."""
    frame = verdicts()
    rows = []
    for paper, part in frame.groupby("source", sort=False):
        for name in ("paper's numbers", "quick", "real data"):
            words = part[name].str.removeprefix(CUT)
            counts = [int(words.str.startswith(word).sum()) for word in VERDICTS]
            assert sum(counts) == len(part), f"unknown verdict among {list(words)}"
            rows.append((PAPERS[str(paper)], name, *map(str, counts)))
    return markdown(("paper", "runs", *VERDICTS), rows)


NOT_CLAIMED = "not claimed"
# Precedes verdicts on runs of the laptop preset.
CUT = "scaled down: "
VERDICTS = ("holds", "does not hold", "not resolved", NOT_RUN, NOT_PRINTED, NOT_CLAIMED)


def speed_table() -> str:
    """The ratios of other frameworks' seconds a round to fedlib's, from the page on speed."""
    page = (project_root() / "docs" / "speed.md").read_text(encoding="utf-8")
    two_cores, _, gpu = page.partition("## On a GPU")
    rows = []
    for name, column in (
        ("a plain PyTorch loop", "plain"),
        ("pfl-research 0.6", "pfl-research"),
        ("FedJAX 0.0.17", "FedJAX"),
    ):
        ends = []
        for part in (two_cores, gpu):
            ratios = sorted(_ratios(part, column))
            texts = [f"{ratio:.2g} ({workload})" for ratio, workload in ratios]
            ends.append(f"{texts[0]} to {texts[-1]}" if texts else "–")
        rows.append((name, *ends))
    return markdown(("a round of", "on two cores", "on an NVIDIA H200"), rows)


def _ratios(text: str, column: str) -> list[tuple[float, str]]:
    """The ratios of a way to fedlib in a page's tables, each with its workload."""
    found = []
    for table in re.findall(r"^\| workload \| fedlib s .*\n\| ---.*\n(?:\|.*\n)+", text, re.M):
        head, _, *lines = ([cell.strip() for cell in row.split("|")] for row in table.splitlines())
        if f"{column} / fedlib" in head:
            place = head.index(f"{column} / fedlib")
            found += [(float(line[place]), WORKLOADS[line[1][:2].strip()]) for line in lines]
    return found


WORKLOADS = {
    "W1": "logistic regression",
    "W2": "EMNIST CNN",
    "W3": "ResNet-18",
    "W4": "LSTM",
    "W5": "autoencoder",
    "P": "CIFAR-10 CNN",
}


def artifact_claims_table() -> str:
    """A row per claim: the command, its minutes on one core, and the verdicts to expect."""
    rows, results = [], project_root() / "data" / "results"
    for id, verdict in verdicts().iterrows():
        files_of = [results / f"{name}.parquet" for name in EVIDENCE[str(id)].sources]
        runs = [run for path in files_of if path.is_file() for run in open_runs(path).values()]
        minutes = sum(core_seconds(run.meta) for run in runs) / 60
        words = [str(verdict[name]).removeprefix(CUT) for name in ("quick", "real data")]
        short = [next(word for word in VERDICTS if text.startswith(word)) for text in words]
        rows.append((str(verdict["where"]), f"`fedlib claims {id}`", f"{minutes:.1f}", *short))
    return markdown(("claim", "command", "minutes", "quick", "real data"), rows)


def artifact_figures_table() -> str:
    """A row per figure: the command that draws it, and the cost of training its runs anew."""
    rows = []
    for chosen in entries():
        preset, runs = drawn_from(chosen, known()) if chosen.needs_runs else ("", [])
        numbers = ", ".join(sorted({name[:2] for name in chosen.notebooks.values()}))
        about = (
            (preset, str(len(runs)), *costs([run.meta for run in runs]))
            if runs
            else ("", "none", "", "")
        )
        rows.append((f"`fedlib figures {chosen.id}`", *about, numbers))
    head = ("command", "preset", "runs", "core-hours", "on a GPU", "notebooks")
    return markdown(head, rows)


def artifact_runs_table() -> str:
    """A row per file of published runs: how many, their core-hours, device and data."""
    rows = []
    for path in run_files(project_root() / "data" / "results"):
        runs = [*open_runs(path).values()]
        tasks = {run.config.task["name"]: run.config.task["preset"] for run in runs}
        needs = ", ".join(sorted(name for name, preset in tasks.items() if preset != "quick"))
        rows.append((f"`{path.stem}`", str(len(runs)), *costs([run.meta for run in runs]), needs))
    return markdown(("file", "runs", "core-hours", "on a GPU", "tasks that need real data"), rows)


def costs(metas: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The core-hours of the runs that a CPU trained, and the number of those that a GPU trained."""
    hours = sum(core_seconds(meta) for meta in metas if meta["device"] == "cpu") / 3600
    return f"{hours:.2f}", str(sum(meta["device"] != "cpu" for meta in metas) or "")


def core_seconds(meta: Mapping[str, Any]) -> float:
    """A run's seconds of a core, or of a GPU: its share if several runs train together."""
    return float(meta["seconds"] * meta["threads"] / meta["configurations"])


def laptop_table(paper: str) -> str:
    """A row per notebook of a paper: how its preset laptop is scaled down, and its cost."""
    makers = {
        maker for entry in entries() if entry.paper == paper for maker in entry.notebooks.values()
    }
    rows = []
    for name in plans.planned():
        if name in makers:
            requests, whole = (plans.requests(name, preset) for preset in ("laptop", "paper"))
            meta_by_run = {run.config.digest: run.meta for run in laptop_runs(name)}
            numbers = f"{len(meta_by_run)} of {_runs(requests)} ({_runs(whole)})"
            took = [0.0, 0.0]  # of a processor, of a GPU
            for meta in meta_by_run.values():
                took[meta["device"] != "cpu"] += core_seconds(meta) / 3600
            hours = [f"{own:.1f}" if own >= 0.05 else "" for own in took]
            rows.append((f"`{name}`", "; ".join(_cuts(requests, whole)), numbers, *hours))
    published = "runs published, of laptop's (and paper's) plan"
    return markdown(("notebook", "scaled down", published, "core-hours", "hours of a GPU"), rows)


def _runs(requests: Sequence[Request]) -> int:
    """The number of different runs of a plan, as parts may ask for the same one."""
    return len({repr(replace(request, part="")) for request in requests})


def _cuts(laptop: Sequence[Request], paper: Sequence[Request]) -> list[str]:
    """The settings of its tasks in which a plan differs from the paper's."""
    options = ("width", "words", "examples", "sizes", "network", "init", "lr_factor")
    cut, whole = (
        task_table(requests, preset, options).set_index("task").to_dict("index")
        for requests, preset in ((laptop, "laptop"), (paper, "paper"))
    )
    cells = []
    for task, settings in cut.items():
        printed = whole.get(task, {})
        pairs = [(name, own, printed.get(name, own)) for name, own in settings.items()]
        changes = [
            f"{n.replace('_', ' ')} {own} of {full}" for n, own, full in pairs if own != full
        ]
        cells += [f"`{task}`: {', '.join(changes)}"] if changes else []
    return cells


# Page -> its tables.
PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "notebooks.md": {"notebooks": notebook_table, "hours": hours_table},
    "results.md": {"verdicts": verdicts_table, "agreement": agreement_table},
}
for _paper in PAPERS:
    PAGES[f"results/{_paper}.md"] = {
        "claims": partial(claims_table, _paper),
        "scale": partial(scale_table, _paper),
        "laptop": partial(laptop_table, _paper),
    }
PAGES["results/fedopt.md"]["ends"] = fedopt_table
PAGES["results/mime.md"]["ablation"] = ablation_table
PAGES["results/adafedadam.md"] |= {
    "levels": partial(silos_table, "36_noniid_levels", "concentration", "option.beta"),
    "work": partial(silos_table, "35_resource_heterogeneity", "local epochs", "local_epochs"),
    "readings": readings_table,
}
PAGES["../ARTIFACT.md"] = {
    "artifact claims": artifact_claims_table,
    "artifact figures": artifact_figures_table,
    "artifact runs": artifact_runs_table,
}
PAGES["../README.md"] = {
    "speed": speed_table,
    "agreement": agreement_table,
    "verdicts": verdicts_table,
}
MARKS = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
# Numbers in sentences: ``12 of 15<!-- agreeing: adafedadam, Table 5, synthetic -->``.
FACTS: dict[str, Callable[..., str]] = {
    "agreeing": agreeing,
    "undecided": undecided,
    "tolerance": lambda: f"{TOLERANCE:g}",
}
# A paragraph's line may end inside a comment.
NUMBER = re.compile(rf"[\d.]+(?: of \d+)?(<!--\s({'|'.join(FACTS)})(?::\s([^>]+?))?\s-->)")


def filled(page: str, text: str) -> str:
    """A page's text with new tables, and new numbers in its sentences."""

    def fact(match: re.Match[str]) -> str:
        given = " ".join(match[3].split()).split(", ") if match[3] else ()
        return FACTS[match[2]](*given) + match[1]

    text = MARKS.sub(lambda found: f"{found[1]}{PAGES[page][found[2]]()}\n{found[3]}", text)
    return NUMBER.sub(fact, text)


if __name__ == "__main__":
    for page in PAGES:
        path = project_root() / "docs" / page
        files.write(path, filled(page, path.read_text(encoding="utf-8")).encode())
