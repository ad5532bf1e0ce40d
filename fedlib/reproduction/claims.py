"""What the papers claim, judged on runs: holds, does not hold, not resolved, or not run.

A claim's words stand in ``fedlib/papers/claims.toml``; what makes it measurable in ``claims.py`` of
the paper's room, see :mod:`fedlib.reproduction.evidence`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from fedlib import papers
from fedlib.engine.history import History
from fedlib.errors import unknown
from fedlib.reproduction import answers, experiments
from fedlib.reproduction.adafedadam import claims as adafedadam
from fedlib.reproduction.answers import labelled
from fedlib.reproduction.delta_sgd import claims as delta_sgd
from fedlib.reproduction.evidence import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OPEN,
    Evidence,
    Missing,
    Runs,
    Statement,
    winners,
)
from fedlib.reproduction.fedopt import claims as fedopt
from fedlib.reproduction.matching import Index, Run, index, read, requested
from fedlib.reproduction.mime import claims as mime
from fedlib.reproduction.request import Request
from fedlib.results.store import Store
from fedlib.tasks import PRESETS

EVIDENCE: dict[str, Evidence] = {
    evidence.id: evidence
    for module in (fedopt, adafedadam, mime, delta_sgd)
    for evidence in module.EVIDENCE
}


@dataclass(frozen=True)
class Verdict:
    """A claim as judged.

    Attributes:
        id, paper, where, says, shows: of :func:`fedlib.papers.claims`.
        verdict: ``"holds"``, ``"does not hold"``, ``"not resolved"`` or ``"not run"``.
        preset: of the runs.
        statements: text, margins, mean, spread and verdict of each, prefixed by the notebook.
        seeds: how many, at least, behind a statement.
        rounds: of the longest run.
        data: what the runs were trained on.
        missing: notebooks whose runs are not stored.
        reason: why it does not hold at this preset, where we know.
    """

    id: str
    paper: str
    where: str
    says: str
    shows: str
    verdict: str
    preset: str
    statements: tuple[Statement, ...] = ()
    seeds: int = 0
    rounds: int = 0
    data: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reason: str = ""

    def frame(self) -> pd.DataFrame:
        """A row a statement: mean margin, spread and verdict."""
        return pd.DataFrame(
            [
                (each.text, each.mean, each.spread, len(each.margins), each.verdict)
                for each in self.statements
            ],
            columns=["statement", "margin", "spread", "seeds", "verdict"],
        )

    @property
    def closest(self) -> Statement | None:
        """The statement with the smallest margin; None if nothing was run."""
        return min(self.statements, key=lambda statement: statement.mean, default=None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the fields, with ``numbers`` in place of the statements."""
        plain = asdict(self)
        del plain["statements"]
        numbers = [
            {
                "statement": statement.text,
                "margins": list(statement.margins),
                "mean": statement.mean,
                "spread": statement.spread,
                "verdict": statement.verdict,
            }
            for statement in self.statements
        ]
        return {**plain, "numbers": numbers}


def judged(evidence: Evidence, preset: str, runs: Mapping[str, Sequence[History]]) -> Verdict:
    """The verdict on a claim.

    A claim holds if all statements do; it does not hold if one of them does not.

    Args:
        runs: notebook -> histories of all seeds and settings; without those that were not run.
    """
    stated = next(claim for claim in papers.claims() if claim["id"] == evidence.id)
    words = {key: stated[key] for key in ("id", "paper", "where", "says", "shows")}
    statements: list[Statement] = []
    used: list[History] = []
    missing = []
    for notebook in evidence.sources:
        histories = runs.get(notebook, ())
        prefix = f"{notebook.partition('_')[0]}: " if len(evidence.sources) > 1 else ""
        if not histories:
            missing.append(notebook)
            continue
        try:
            measured = evidence.measure((evidence.select or _chosen)(histories))
        except Missing:
            missing.append(notebook)
            continue
        statements += [Statement(prefix + each.text, each.margins) for each in measured]
        used += histories
    if not statements:
        return Verdict(**words, verdict=NOT_RUN, preset=preset, missing=tuple(missing))
    verdicts = {statement.verdict for statement in statements}
    return Verdict(
        **words,
        verdict=next(verdict for verdict in (FAILS, OPEN, HOLDS) if verdict in verdicts),
        preset=preset,
        statements=tuple(statements),
        seeds=min(len(statement.margins) for statement in statements),
        rounds=max(history.config.rounds for history in used),
        data=tuple(dict.fromkeys(map(_data, used))),
        missing=tuple(missing),
        reason=evidence.exception(preset),
    )


def _chosen(histories: Sequence[History]) -> Runs:
    return Runs(winners(histories))


def _data(history: History) -> str:
    kind = "stand-in" if history.stand_in else "real"
    return f"{history.config.task['options'].get('data') or history.config.task['name']} ({kind})"


def _kept(known: Index, requests: Sequence[Request], preset: str) -> list[History]:
    """Those of the known runs that some requests ask for.

    Of the quick preset by their digests: its data need no preparation; of others by description.
    """
    by_digest = {run.config.digest: run for runs in known.values() for run in runs}
    chosen: dict[int, Run | None] = {}
    for tasks in answers.by_task(requests, preset) if preset == "quick" else ():
        for place, task in tasks.items():
            digest = answers.configured(task, requests[place]).config.digest
            chosen[place] = by_digest.get(digest)
    histories: list[History] = []
    for place, request in enumerate(requests):
        run = chosen[place] if place in chosen else requested(request, preset, known)
        histories += [labelled(each, request.plan) for each in read([run] if run else [])]
    return histories


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
        ids: of claims; default all that the preset can show.
        preset: whose runs decide.
        store: default the standard one; published runs count.
        seed: of the notebooks' plans, whose repetitions take the following seeds.
        train: whether to train what is missing; else claims without runs are not run.
        execution: ``device``, ``backend``, ``progress`` of the training.

    Raises:
        Error: an unknown claim.
    """
    stated = papers.claims()
    for id in ids:
        if all(id != claim["id"] for claim in stated):
            raise unknown("claim", id, [claim["id"] for claim in stated])
    chosen = [claim for claim in stated if (claim["id"] in ids if ids else claim.get(preset, True))]
    store = Store() if store is None else store
    known = {} if train else index(store.stored(published=True))
    memory: dict[tuple[str, tuple[str, ...]], list[History]] = {}
    verdicts = []
    for claim in chosen:
        evidence = EVIDENCE.get(claim["id"])
        runs: dict[str, list[History]] = {}
        for source in evidence.sources.items() if evidence else ():
            notebook, parts = source[0], tuple(source[1])
            if (notebook, parts) not in memory:
                # A preset's plan need not have all parts: what is missing is found when measuring.
                every = experiments.plan(notebook, preset, seed)
                requests = [each for each in every if not parts or each.part in parts]
                if train:
                    memory[notebook, parts] = answers.answer(store, requests, preset, **execution)
                else:
                    memory[notebook, parts] = _kept(known, requests, preset)
            runs[notebook] = memory[notebook, parts]
        verdicts.append(judged(evidence or Evidence(claim["id"], {}, list), preset, runs))
    return verdicts


def overview(*presets: str, store: Store | None = None) -> pd.DataFrame:
    """The claims with their verdicts on the stored runs of some presets; nothing is trained.

    Args:
        presets: default all.

    Returns:
        a row a claim: source (the paper), where, claim, and by preset the verdict with the seeds
        and the smallest margin, for instance ``"holds, 3 seeds (+0.038 ± 0.020)"``.
    """
    stated = pd.DataFrame(papers.claims()).set_index("id")
    frame = stated[["paper", "where", "says"]].set_axis(["source", "where", "claim"], axis=1)
    for preset in presets or PRESETS:
        judged = {each.id: _in_words(each) for each in judge((), preset, store)}
        frame[preset] = [judged.get(id, "not claimed") for id in frame.index]
    return frame.reset_index(drop=True)


def _in_words(verdict: Verdict) -> str:
    closest = verdict.closest
    if closest is None:
        return verdict.verdict
    seeds = f"{verdict.seeds} seed{'s' * (verdict.seeds > 1)}"
    text = f"{verdict.verdict}, {seeds} ({closest.margin})"
    return f"{text}; {verdict.reason}" if verdict.reason else text
