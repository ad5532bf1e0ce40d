"""The papers' claims, judged on runs: holds, does not hold, not resolved, or not run.

The words of a claim are in ``fedlib/papers/claims.toml``. ``claims.py`` of the paper's package
makes it measurable, see :mod:`fedlib.reproduction.evidence`.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import pandas as pd

import fedlib.reproduction.adafedadam.claims
import fedlib.reproduction.delta_sgd.claims
import fedlib.reproduction.fedopt.claims
import fedlib.reproduction.mime.claims  # noqa: F401
from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import require_known
from fedlib.reproduction import answers
from fedlib.reproduction.evidence import (
    FAILS,
    HOLDS,
    KNOWN,
    NOT_RUN,
    OPEN,
    Evidence,
    Missing,
    Statement,
    Untuned,
    part_of,
)
from fedlib.reproduction.matching import Index
from fedlib.results.store import Store
from fedlib.tasks import PRESETS

# In the papers' order. The papers' modules of claims have filled KNOWN.
EVIDENCE: dict[str, Evidence] = {claim["id"]: KNOWN[claim["id"]] for claim in papers.claims()}
PRINTED, NOT_PRINTED = "print", "not printed"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes:
        id: id of the claim.
        preset: preset of the runs, or ``"print"`` for numbers taken from the paper.
        statements: text, margins, mean, spread and verdict of each, prefixed by the notebook.
        rounds: rounds of the longest run.
        data: training data of the runs.
        missing: requested notebooks whose runs are not stored, or not all of a method's, with a
            part of one in brackets.
        untuned: notebooks whose runs are not judged, since a method was not tuned.
    """

    id: str
    preset: str
    statements: tuple[Statement, ...] = ()
    rounds: int = 0
    data: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    untuned: tuple[str, ...] = ()

    @property
    def claim(self) -> dict[str, Any]:
        """The claim's entry in :func:`fedlib.papers.claims`."""
        return _stated()[self.id]

    @property
    def reason(self) -> str:
        """Why the claim does not hold at this preset, if known."""
        return str(self.claim.get("exceptions", {}).get(self.preset, ""))

    @property
    def seeds(self) -> int:
        """The least number of seeds of a statement on runs."""
        counts = [len(statement.margins) for statement in self.statements]
        return 0 if self.preset == PRINTED else min(counts, default=0)

    @property
    def verdict(self) -> str:
        """``"holds"`` if all statements do, ``"does not hold"`` if one of them does not, else
        ``"not resolved"``. Without statements ``"not run"`` or ``"not printed"``.
        """
        judged = {statement.verdict for statement in self.statements}
        none = NOT_PRINTED if self.preset == PRINTED else NOT_RUN
        return next((verdict for verdict in (FAILS, OPEN, HOLDS) if verdict in judged), none)

    @property
    def without(self) -> str:
        """The notebooks that a verdict leaves out, as their runs are missing or not tuned, or ""
        if none.
        """
        words = ""
        for why, names in (("not run", self.missing), ("not judged, as not tuned", self.untuned)):
            numbers = sorted(re.sub(r"^(\d+)_\w+", r"\1", name) for name in names)
            words += f", {why}: {', '.join(numbers)}" if self.statements and numbers else ""
        return words

    def frame(self) -> pd.DataFrame:
        """One row per statement: mean margin, spread and verdict."""
        rows = [
            (each.text, each.mean, each.spread, len(each.margins), each.verdict)
            for each in self.statements
        ]
        return pd.DataFrame(rows, columns=["statement", "margin", "spread", "seeds", "verdict"])

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the claim's words, the verdict, and the statements' numbers."""
        words = ("id", "paper", "where", "quote", "says", "shows")
        facts = ("verdict", "preset", "seeds", "rounds", "data", "missing", "untuned", "reason")
        shown = ("margins", "mean", "spread", "verdict")
        numbers = [
            {"statement": each.text, **{name: getattr(each, name) for name in shown}}
            for each in self.statements
        ]
        known = {name: self.claim[name] for name in words}
        return {**known, **{name: getattr(self, name) for name in facts}, "numbers": numbers}

    def words(self, statements: bool = True) -> list[str]:
        """The claim, the verdict, its statements and the reason, in lines of 100."""
        seeds = f"{self.seeds} seed{'s' * (self.seeds != 1)}, {self.rounds} rounds"
        data = ", ".join(self.data) + self.without
        known = f" ({self.preset}: {seeds}; {data})" if self.rounds else ""
        lines = [f"{self.id}: {self.claim['says']} {self.verdict.capitalize()}{known}."]
        for statement in self.statements if statements else ():
            lines.append(f"  {statement.text}: {statement.margin}; {statement.verdict}")
        if self.reason and self.verdict != HOLDS:
            lines.append(f"  Why, as far as we see: {self.reason}.")
        return [
            part for line in lines for part in textwrap.wrap(line, 100, subsequent_indent="    ")
        ]


@cache
def _stated() -> dict[str, dict[str, Any]]:
    """The claims by their ids."""
    return {claim["id"]: claim for claim in papers.claims()}


def judged(evidence: Evidence, preset: str, runs: Mapping[str, Sequence[History]]) -> Verdict:
    """The verdict on a claim.

    Args:
        runs: notebook -> histories of all seeds and settings, for the requested notebooks.
    """
    statements: list[Statement] = []
    used: list[History] = []
    missing: list[str] = []
    untuned: list[str] = []
    alone = [(notebook,) for notebook in evidence.sources]
    groups = [tuple(evidence.sources)] if evidence.together else alone
    for notebooks in groups:
        tasks = {run.config.task["name"] for run in runs.get(notebooks[0], ())}
        histories = [
            run
            for notebook in notebooks
            for run in runs.get(notebook, ())
            if run.config.task["name"] in tasks
        ]
        prefix = f"{notebooks[0].partition('_')[0]}: " if len(groups) > 1 else ""
        measured: list[Statement] = []
        try:
            if histories:
                frame = evidence.frame(histories)
                measured = list(evidence.measure(frame))
        except Untuned:
            untuned += notebooks
            continue
        except Missing:
            pass
        if evidence.whole:
            present = {part_of(run) for run in histories}
            for notebook in notebooks:
                parts = evidence.sources[notebook]
                missing += [f"{notebook} ({part})" for part in parts if part not in present]
        if not measured or not all(statement.margins for statement in measured):
            missing += [notebook for notebook in notebooks if notebook in runs]
            continue
        statements += [replace(statement, text=prefix + statement.text) for statement in measured]
        judged_tasks = set(frame["task"].unique())
        used += [run for run in histories if run.config.task["name"] in judged_tasks]
    return Verdict(
        evidence.id,
        preset,
        tuple(statements),
        rounds=max((history.config.rounds for history in used), default=0),
        data=tuple(dict.fromkeys(map(_data, used))),
        missing=tuple(missing),
        untuned=tuple(untuned),
    )


def printed(id: str) -> Verdict:
    """The verdict of the papers' own numbers on a claim. Statements about curves, and about numbers
    that our text copies of the papers lack, are left out.
    """
    evidence = EVIDENCE[id]
    frames: list[tuple[Any, pd.DataFrame]] = []
    if evidence.printed:
        whole = evidence.printed()
        frames = [*whole.groupby(evidence.each, sort=False)] if evidence.each else [("", whole)]
    statements: list[Statement] = []
    for name, frame in frames:
        prefix = f"{name}: " if len(frames) > 1 else ""
        with suppress(Missing):
            for statement in evidence.measure(frame):
                if statement.margins:
                    words = prefix + statement.text
                    statements.append(replace(statement, text=words, printed=True))
    return Verdict(id, PRINTED, tuple(statements))


def _data(history: History) -> str:
    kind = "stand-in" if history.stand_in else "real"
    return f"{history.config.task['options'].get('data') or history.config.task['name']} ({kind})"


def chosen(ids: Sequence[str] = (), preset: str = "paper") -> list[dict[str, Any]]:
    """The claims with some ids, or (none given) all that a preset can show, in the papers' order.

    Raises:
        Error: an unknown claim.
    """
    for id in ids:
        require_known("claim", id, EVIDENCE)
    return [
        claim
        for claim in papers.claims()
        if (claim["id"] in ids if ids else claim.get(preset, True))
    ]


def judge(
    ids: Sequence[str] = (),
    preset: str = "quick",
    store: Store | None = None,
    *,
    seed: int = 0,
    train: bool = False,
    **execution: Any,
) -> list[Verdict]:
    """The papers' claims with verdicts, in the papers' order.

    Args:
        ids: ids of claims. Default: all that the preset can show.
        preset: preset of the runs that decide.
        store: default: the standard one. Published runs count.
        seed: seed of the notebooks' plans. Their repetitions take the following seeds.
        train: whether to train missing runs. Otherwise methods without all their runs do not count,
            and claims on them are not run.
        execution: ``device``, ``backend``, ``progress`` of the training.

    Raises:
        Error: an unknown claim.
    """
    store = Store() if store is None else store
    known = Index(() if train else store.stored(published=True))

    @cache
    def runs_of(notebook: str, parts: tuple[str, ...]) -> list[History]:
        # A preset's plan may lack parts. Missing ones are found when measuring.
        requests = known.planned(notebook, preset, seed)
        requests = [request for request in requests if not parts or request.part in parts]
        if train:
            return answers.answer(store, requests, preset, **execution)
        return known.plan(requests, preset, single=False)

    verdicts = []
    for claim in chosen(ids, preset):
        evidence = EVIDENCE[claim["id"]]
        runs = {name: runs_of(name, tuple(parts)) for name, parts in evidence.sources.items()}
        verdicts.append(judged(evidence, preset, runs))
    return verdicts


def overview(*presets: str, store: Store | None = None) -> pd.DataFrame:
    """The claims with their verdicts on the papers' numbers and on the stored runs of some presets.
    Nothing is trained.

    Args:
        presets: default: all.

    Returns:
        One row per claim: id, source (the paper), where, claim, print (from the paper's numbers),
        and by preset the verdict with the seeds and the margin that decides, for instance
        ``"holds, 3 seeds (+0.038 ± 0.020)"``.
    """
    frame = pd.DataFrame(papers.claims())[["id", "paper", "where", "says"]]
    frame = frame.set_axis(["id", "source", "where", "claim"], axis=1)
    frame["print"] = [printed(id).verdict for id in frame["id"]]
    for preset in presets or PRESETS:
        judged = {verdict.id: in_words(verdict) for verdict in judge((), preset, store)}
        frame[preset] = [judged.get(id, "not claimed") for id in frame["id"]]
    return frame


def in_words(verdict: Verdict) -> str:
    """``"holds, 3 seeds (+0.038 ± 0.020)"``: a verdict, the smallest margin of the statements that
    have it, and the reason."""
    words = verdict.verdict
    if verdict.statements:
        deciding = [each for each in verdict.statements if each.verdict == verdict.verdict]
        closest = min(deciding, key=lambda statement: statement.mean)
        words += (
            f", {verdict.seeds} seed{'s' * (verdict.seeds > 1)} ({closest.margin}){verdict.without}"
        )
    return f"{words}; {verdict.reason}" if verdict.reason and verdict.verdict != HOLDS else words
