"""Delta-SGD's claims: measures on made-up runs, and a Delta-SGD whose steps cannot adapt."""

import os

import numpy as np
import pandas as pd
import pytest
import torch

import fedlib
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.reproduction import claims
from fedlib.reproduction.delta_sgd.claims import OURS, VARIANTS, last
from fedlib.reproduction.delta_sgd.runs import ABLATION, CLIENTS, IMAGES, TEXTS
from fedlib.reproduction.evidence import FAILS, HOLDS, NOT_RUN
from fedlib.results import Store

ROUNDS, SEEDS = 10, 3
COLUMNS = [(task, alpha) for task in ("mnist", "fashion_mnist") for alpha in (0.01, 0.1, 1.0)]


@pytest.fixture(scope="module")
def base():
    return fedlib.quadratic_task(np.eye(2)[None].repeat(3, 0), np.ones((3, 2)))


def runs(base, levels, *, task="mnist", alpha=0.1, part="table", algorithm="fedavg", **overrides):
    """Histories as runs leave them: from round 1 on, each label's accuracy, for three seeds."""
    made = []
    for label, value in levels.items():
        for seed in range(SEEDS):
            options = {**CLIENTS.get(label, CLIENTS[OURS]), **overrides}
            if label not in CLIENTS:
                options["delta"] = label
            config = configure(base, algorithm, rounds=ROUNDS, seed=seed, overrides=options).config
            config.task.update(name=task, options={"alpha": alpha})
            accuracy = [0.1] + [value + 0.001 * seed] * ROUNDS
            rows = [(r, "test", "accuracy", a) for r, a in enumerate(accuracy)]
            frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
            meta = {"diverged": None, "plan": {"part": part}}
            made.append(History(frame, pd.DataFrame(), {}, config, meta))
    return made


def verdict(id, notebook, histories):
    return claims.judged(claims.EVIDENCE[id], "quick", {notebook: histories})


def table(base, **ours):
    """Six columns: SGD is best in three and far behind in the others, Delta-SGD is second."""
    histories = []
    for number, (task, alpha) in enumerate(COLUMNS):
        near, far = (0.80, 0.70) if number % 2 else (0.70, 0.80)
        levels = {"sgd": near, "adam": far, "sgd_decay": 0.6, OURS: 0.79}
        histories += runs(base, levels | (ours if number == 0 else {}), task=task, alpha=alpha)
    return histories


def test_robust_holds_if_delta_sgd_is_near_the_best_everywhere_and_nobody_else_is(base):
    judged = verdict("delta-robust", IMAGES, table(base))
    assert judged.verdict == HOLDS and len(judged.statements[2].margins) == SEEDS
    ranks, near, others = (statement.mean for statement in judged.statements)
    assert (ranks, near, others) == pytest.approx((6 - 4, 0.02 - 0.01, 0.10 - 0.05))


def test_robust_fails_if_delta_sgd_is_far_behind_once_or_another_method_never_is(base):
    once = verdict("delta-robust", IMAGES, table(base, **{OURS: 0.75}))
    assert [s.verdict for s in once.statements] == [HOLDS, FAILS, HOLDS]
    everywhere = [
        run
        for n, c in enumerate(COLUMNS)
        for run in runs(base, {"sgd": 0.8, OURS: 0.79}, task=c[0], alpha=c[1])
    ]
    other = verdict("delta-robust", IMAGES, everywhere)
    assert [s.verdict for s in other.statements] == [HOLDS, HOLDS, FAILS]


def test_columns_are_compared_on_the_seeds_that_all_have(base):
    """Some runs may come from a store with one seed, others from the published ones."""
    part = next(iter(VARIANTS))
    levels = {"sgd": 0.7, "adam": 0.6, OURS: 0.8}
    whole = [run for c in COLUMNS for run in runs(base, levels, task=c[0], alpha=c[1], part=part)]
    few = [run for run in whole if run.config.task["name"] == "mnist" or not seed_of(run)]
    judged = verdict("delta-epochs", ABLATION, few)
    assert judged.verdict == HOLDS and len(judged.statements[0].margins) == 1
    others = [run for run in whole if (run.config.task["name"] == "mnist") == bool(seed_of(run))]
    assert verdict("delta-epochs", ABLATION, others).verdict == NOT_RUN


def seed_of(run):
    return run.config.seeds["init"]


def test_columns_of_one_task_do_not_tell_whether_rates_transfer(base):
    mnist = [run for run in table(base) if run.config.task["name"] == "mnist"]
    assert verdict("delta-robust", IMAGES, mnist).verdict == NOT_RUN


def test_a_table_with_a_hole_is_not_run(base):
    whole = table(base)
    gone = [run for run in whole[:-1] if run.config.task["name"] == "mnist"]
    partial = runs(base, {"sgd": 0.8}, task="fashion_mnist")
    assert verdict("delta-robust", IMAGES, gone + partial).verdict == NOT_RUN
    assert verdict("delta-robust", IMAGES, []).verdict == NOT_RUN


@pytest.mark.parametrize("stored", [{"sgd": 0.8}, {OURS: 0.8}, {"sgd": 0.8, OURS: 0.8}])
def test_what_an_interrupted_sweep_has_stored_is_no_verdict(base, stored):
    variants = [run for part in VARIANTS for run in runs(base, stored, part=part)]
    assert verdict("delta-epochs", ABLATION, variants).verdict == NOT_RUN
    texts = runs(base, stored, task="ag_news", alpha=1.0)
    assert verdict("delta-text", TEXTS, texts).verdict == NOT_RUN
    deltas = runs(base, {0.01: 0.7, 1.0: 0.8}, part="delta")
    assert verdict("delta-delta", ABLATION, deltas).verdict == NOT_RUN


@pytest.mark.parametrize(("middle", "expected"), [(0.79, HOLDS), (0.77, FAILS)])
def test_a_delta_of_one_tenth_may_be_two_points_behind(base, middle, expected):
    histories = runs(base, {0.01: 0.70, 0.1: middle, 1.0: 0.80}, part="delta")
    assert verdict("delta-delta", ABLATION, histories).verdict == expected


@pytest.mark.parametrize(("sps", "expected"), [(0.6, HOLDS), (0.9, FAILS)])
def test_delta_sgd_is_first_or_second_in_each_variant(base, sps, expected):
    histories = [
        run
        for part in VARIANTS
        for run in runs(base, {"sgd": 0.85, "sps": sps, "adam": 0.5, OURS: 0.8}, part=part)
    ]
    judged = verdict("delta-epochs", ABLATION, histories)
    assert judged.verdict == expected and len(judged.statements) == len(VARIANTS)
    assert judged.statements[0].mean == pytest.approx(0.8 - max(0.5, sps if sps < 0.85 else 0.85))


@pytest.mark.parametrize(
    ("adam", "ours", "expected"),
    [(0.26, 0.90, HOLDS), (0.5, 0.90, FAILS), (0.26, 0.88, FAILS), (0.26, 0.3, FAILS)],
)
def test_on_text_long_steps_stay_at_chance_and_delta_sgd_is_level_with_the_best(
    base, adam, ours, expected
):
    accuracies = {**dict.fromkeys(CLIENTS, 0.25), "sgd": 0.89, "sps": 0.91, "adam": adam}
    histories = runs(base, {**accuracies, OURS: ours}, task="ag_news", alpha=1.0)
    assert verdict("delta-text", TEXTS, histories).verdict == expected


def test_that_all_methods_stay_at_chance_on_text_is_not_what_the_paper_claims(base):
    histories = runs(base, dict.fromkeys(CLIENTS, 0.25), task="ag_news", alpha=1.0)
    assert verdict("delta-text", TEXTS, histories).verdict == FAILS


@pytest.mark.skipif(os.environ.get("FEDLIB_CLAIMS") != "all", reason="FEDLIB_CLAIMS is not 'all'")
def test_without_the_bound_on_growth_delta_sgd_is_not_robust(tmp_path, monkeypatch):
    """Steps that follow the local smoothness alone are too bold: the claim no longer holds."""

    def advance(self, x, g, before, state):
        moved = torch.linalg.vector_norm(x - state["previous"], dim=-1, keepdim=True)
        turned = torch.linalg.vector_norm(g - before, dim=-1, keepdim=True)
        both = (moved > 0) & (turned > 0)
        bound = self.gamma * moved / (2 * torch.where(both, turned, 1))
        eta = torch.where(both, bound, state["eta"])
        return x - eta * g, {"previous": x, "eta": eta, "theta": eta / state["eta"]}

    monkeypatch.setattr(fedlib.DeltaSGD, "advance", advance)
    store = Store(tmp_path, published=())
    (judged,) = claims.judge(["delta-robust"], "quick", store, train=True, progress=False)
    assert judged.verdict == FAILS, judged.frame().to_string()


@pytest.mark.parametrize(("rounds", "every", "judged"), [(40, 2, 7), (250, 10, 9), (2000, 20, 6)])
def test_a_run_that_is_tested_now_and_then_is_judged_by_six_tests_at_least(
    base, rounds, every, judged
):
    config = configure(base, "fedavg", rounds=rounds, eval_every=every).config
    tested = range(0, rounds + 1, every)
    accuracy = np.linspace(0.1, 0.8, len(tested))
    rows = [(at, "test", "accuracy", value) for at, value in zip(tested, accuracy, strict=True)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    run = History(frame, pd.DataFrame(), {}, config, {"diverged": None})
    assert last(run) == pytest.approx(accuracy[-judged:].mean())


def test_a_column_with_delta_sgd_alone_compares_nothing(base):
    alone = runs(base, {OURS: 0.1}, task="cifar10_resnet18")
    known, more = (
        verdict("delta-robust", IMAGES, table(base) + extra).as_dict() for extra in ([], alone)
    )
    assert more["numbers"] == known["numbers"]
