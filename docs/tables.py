"""The tables of docs/ that follow from the notebooks, the entries and the published runs.

``python -m docs.tables`` (``make docs``) writes them between their marks; a test compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import isnan

import nbformat
import pandas as pd

from docs import run_tables
from docs.run_tables import compared, laptop_runs, markdown, number, published
from fedlib import files, papers
from fedlib.errors import Error
from fedlib.paths import project_root
from fedlib.plans import Request
from fedlib.reproduction.claims import NOT_PRINTED, in_words, overview
from fedlib.reproduction.draw import entries
from fedlib.reproduction.evidence import NOT_RUN
from fedlib.reproduction.listing import task_table
from fedlib.reproduction.reproduce import notebooks
from fedlib.reproduction.sweep import plans

METRIC_WORDS = {"avg": "average", "std": "spread", "worst30": "worst 30 %"}
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
        for path in notebooks():
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
        metric = METRIC_WORDS[row["metric"]]
        rows.append((where, name, metric, printed, ours + spread, str(row["seeds"]), row["note"]))
    head = ("table, task", "row", "number", "printed", "ours", "seeds", "departs from the paper by")
    return markdown(head, rows)


@cache
def verdicts() -> pd.DataFrame:
    """A row per claim, by its id: source (the paper), where, claim (its words, and what is judged),
    and the verdicts: quick, in print, real data.
    """
    known = overview("laptop", "paper", store=published()).set_index("id")
    frame, small = known[["source", "where"]].copy(), measured()
    for claim in papers.claims():
        id, said = claim["id"], claim["in_print"]
        words = f"“{claim['quote']}” Judged: {claim['shows']}."
        frame.loc[id, "claim"] = words + (
            f" Except: {claim['except']}." if "except" in claim else ""
        )
        frame.loc[id, "quick"] = small.get(id, NOT_CLAIMED)
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


def measured() -> dict[str, str]:
    """Claim -> its verdict on the published runs of the quick preset, in words."""
    path = project_root() / "data" / "results" / "claims_quick.json"
    return {claim["id"]: in_words(claim) for claim in json.loads(path.read_text(encoding="utf-8"))}


def laptop_table(paper: str) -> str:
    """A row per notebook of a paper's experiments: what its preset laptop cuts and costs."""
    makers = {
        maker for entry in entries() if entry.paper == paper for maker in entry.notebooks.values()
    }
    rows = []
    for name, wanted in plans((), "laptop", 0, {}).items():
        if name in makers:
            whole = plans((name,), "paper", 0, {})[name]
            there = {run.config.digest: run.meta for run in laptop_runs(name)}
            numbers = f"{len(there)} of {_runs(wanted)} ({_runs(whole)})"
            metas = there.values()
            took = sum(meta["seconds"] * meta["threads"] / meta["configurations"] for meta in metas)
            hours = f"{took / 3600:.1f}" if metas else ""
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
    "table 2": run_tables.mime_table,
    "ablation": run_tables.ablation_table,
}
PAGES["results/adafedadam.md"] |= {
    "levels": partial(
        run_tables.silos_table, "36_noniid_levels", "concentration", run_tables.level_of
    ),
    "work": partial(
        run_tables.silos_table, "35_resource_heterogeneity", "local epochs", run_tables.work_of
    ),
}
PAGES["results/fedopt.md"]["ends"] = run_tables.ends_table
PAGES["results/delta_sgd.md"]["fashion"] = run_tables.fashion_table


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
