"""Claims are judged by margins over seeds; the words are the papers', the runs decide."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib import papers
from fedlib.engine.config import configure
from fedlib.engine.history import History
from fedlib.reproduction import answers, claims, experiments
from fedlib.reproduction.evidence import (
    FAILS,
    HOLDS,
    NOT_RUN,
    OPEN,
    Evidence,
    Statement,
    above,
    below,
    best_of,
    finals,
    rounds_to,
    searched,
    unsettled,
    winners,
)
from fedlib.reproduction.fedopt import claims as fedopt
from fedlib.reproduction.matching import index
from fedlib.reproduction.request import tuned
from fedlib.results import Store

ROUNDS = 15


@pytest.fixture(scope="module")
def quadratic():
    return fedlib.quadratic_task(np.eye(2)[None].repeat(3, 0), np.ones((3, 2)))


def run(task, algorithm, accuracy, *, seed=0, train_loss=1.0, diverged=None, **overrides):
    """A history as a run leaves it, with these test accuracies from round 0 on."""
    rounds = len(accuracy) - 1
    config = configure(task, algorithm, rounds=rounds, seed=seed, overrides=overrides).config
    rows = [(r, "test", "accuracy", value) for r, value in enumerate(accuracy)]
    rows += [(r, "train", "loss", train_loss) for r in range(1, rounds + 1)]
    frame = pd.DataFrame(rows, columns=["round", "split", "metric", "value"])
    return History(frame, pd.DataFrame(), {}, config, {"diverged": diverged})


def level(value):
    return [0.1] + [value] * ROUNDS


# --------------------------------------------------------------------------------- statements


@pytest.mark.parametrize(
    ("margins", "verdict"),
    [
        ((0.03, 0.02, 0.04), HOLDS),
        ((0.0,), HOLDS),
        ((-0.03, -0.02, -0.04), FAILS),
        ((-0.1, 0.2, -0.05), OPEN),
        ((0.01, 0.01, 0.05), HOLDS),  # std 0.0231 < mean 0.0233
        ((0.01, 0.01, 0.06), OPEN),  # std 0.0289 > mean 0.0267
        ((0.1, math.nan, 0.1), FAILS),
    ],
)
def test_a_statement_is_not_resolved_where_the_seeds_spread_more_than_its_margin(margins, verdict):
    assert Statement("a > b", margins).verdict == verdict


def test_above_and_below_are_margins_seed_by_seed():
    assert above("", np.array([0.5, 0.7]), 0.4).margins == pytest.approx((0.1, 0.3))
    assert below("", np.array([0.5, 0.7]), np.array([0.6, 0.6])).margins == pytest.approx(
        (0.1, -0.1)
    )


def test_finals_are_nan_where_a_run_diverged(quadratic):
    fine = run(quadratic, "fedavg", level(0.8))
    lost = run(quadratic, "fedavg", level(0.8), diverged=3)
    values = finals([fine, lost])
    assert values[0] == pytest.approx(0.8) and np.isnan(values[1])


def test_rounds_to_a_target_count_from_the_first_round_and_are_infinite_if_it_is_not_reached(
    quadratic,
):
    curve = run(quadratic, "fedavg", [0.1, 0.3, 0.6, 0.5, 0.7])
    assert rounds_to([curve, curve], np.array([0.55, 0.9])).tolist() == [2.0, math.inf]


def test_winners_have_the_smallest_training_loss_over_the_seeds_and_come_by_seed(quadratic):
    runs = [
        run(quadratic, "fedavg", level(0.9), seed=1, train_loss=0.3, client_lr=0.5),
        run(quadratic, "fedavg", level(0.5), seed=1, train_loss=0.1, client_lr=0.1),
        run(quadratic, "fedavg", level(0.5), seed=0, train_loss=0.3, client_lr=0.1),
        run(quadratic, "fedavg", level(0.9), seed=0, train_loss=0.3, client_lr=0.5),
        run(quadratic, "fedavg", level(0.9), seed=0, train_loss=0.0, client_lr=1.0),
        run(quadratic, "fedavg", level(0.9), seed=1, train_loss=math.inf, client_lr=1.0),
    ]
    chosen = winners(runs)["fedavg"]
    assert chosen == [runs[2], runs[1]] == best_of(runs)


def test_where_all_settings_diverged_the_one_that_got_furthest_is_shown(quadratic):
    runs = [
        run(quadratic, "scaffold", level(0.5), diverged=lost, client_lr=rate, server_lr=1.0)
        for rate, lost in ((0.1, 3), (0.2, 7), (0.4, 5))
    ]
    assert winners(runs)["scaffold"] == [runs[1]] == best_of(runs)
    assert searched(runs)["chosen"].tolist() == [False, True, False]


def test_a_search_shows_the_chosen_setting_and_whether_it_is_at_the_end_of_a_grid(quadratic):
    losses = {(0.1, 1.0): 3.0, (0.2, 1.0): 1.0, (0.4, 1.0): 2.0, (0.2, 0.5): 2.0, (0.2, 2.0): 2.0}
    runs = [
        run(quadratic, "fedavg", level(0.5), train_loss=loss, client_lr=client, server_lr=server)
        for (client, server), loss in losses.items()
    ]
    frame = searched(runs)
    assert frame["score"].tolist() == list(losses.values())
    assert frame["chosen"].tolist() == [False, True, False, False, False]
    assert not frame["edge"].any()
    assert searched(runs[:2])["edge"].tolist() == [False, True]


# --------------------------------------------------------------------------------- verdicts


def histories(task, **levels):
    return [
        run(task, name, level(value + 0.001 * seed), seed=seed)
        for name, value in levels.items()
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("fedavg", "fedadagrad", "verdict"),
    [(0.70, 0.71, HOLDS), (0.77, 0.77, FAILS), (0.70, 0.76, FAILS)],
)
def test_the_claim_about_cifar10_follows_its_statement(quadratic, fedavg, fedadagrad, verdict):
    dense = dict.fromkeys(("fedavgm", "fedadam", "fedyogi"), 0.78)
    runs = histories(quadratic, fedavg=fedavg, fedadagrad=fedadagrad, **dense)
    judged = claims.judged(claims.EVIDENCE["fedopt-cifar10"], "quick", {"10_cifar10": runs})
    assert judged.verdict == verdict
    assert (judged.seeds, judged.rounds, judged.missing) == (3, ROUNDS, ())
    margin = judged.statements[0].mean
    assert margin == pytest.approx(0.78 - fedavg - 0.02)


def test_a_claim_on_several_notebooks_says_which_one_fails_and_which_was_not_run(quadratic):
    fair = histories(quadratic, fedavg=0.7, scaffold=0.7)
    ahead = histories(quadratic, fedavg=0.7, scaffold=0.8)
    evidence = Evidence(
        "fedopt-scaffold", dict.fromkeys(("10_a", "11_b", "12_c"), ()), fedopt.scaffold
    )
    judged = claims.judged(evidence, "laptop", {"10_a": fair, "11_b": ahead, "12_c": []})
    assert judged.verdict == FAILS and judged.missing == ("12_c",)
    assert [s.text[:4] for s in judged.statements if s.verdict == FAILS] == ["11: "]


def test_without_runs_a_claim_is_not_run():
    judged = claims.judged(
        Evidence("mime-table", {"24_mime_emnist": ()}, fedopt.scaffold), "paper", {}
    )
    assert (judged.verdict, judged.seeds, judged.missing) == (NOT_RUN, 0, ("24_mime_emnist",))


# --------------------------------------------------------------------- words, plans, command


def test_every_evidence_is_of_a_stated_claim_and_of_planned_runs():
    stated = {claim["id"]: claim for claim in papers.claims()}
    assert len(stated) == 25
    for id, evidence in claims.EVIDENCE.items():
        assert id == evidence.id and id in stated
        for notebook, parts in evidence.sources.items():
            requests = experiments.select(experiments.plan(notebook), *parts)
            assert requests, (id, notebook)


def test_claims_name_papers_and_say_what_they_show():
    for claim in papers.claims():
        assert claim["paper"] in papers.papers()
        assert claim["says"].endswith(".") and claim["shows"] and claim["where"]


def test_the_command_lists_verdicts_and_trains_nothing_when_told_so(command, no_training):
    no_training()
    status, out, _ = command("claims", "--stored", "--json")
    written = json.loads(out)
    made, listed = written["made"], written["claims"]
    assert status == 0 and len(listed) == 24
    assert (made["preset"], made["seed"]) == ("quick", 0) and {"git", "versions"} <= set(made)
    assert {entry["verdict"] for entry in listed} == {NOT_RUN}
    assert {"id", "verdict", "seeds", "numbers"} <= set(listed[0])


def test_an_unknown_claim_is_refused(command):
    status, _, error = command("claims", "fedopt-cifar11")
    assert status == 2 and "fedopt-cifar11" in error and "fedopt-cifar10" in error


def test_other_presets_train_nothing(command, no_training):
    no_training()
    status, out, _ = command("claims", "fedopt-cifar10", "--preset", "paper")
    assert status == 0 and NOT_RUN in out


def test_stored_runs_are_found_by_their_description_without_loading_data(tmp_path, monkeypatch):
    store = Store(tmp_path / "runs", published=[tmp_path / "results"])
    small = {"clients": 4}
    asked = tuned("synthetic", ("fedavg", "fednova"), "x", options=small, rounds=1)
    answers.answer(store, asked[:1], "quick", progress=False)
    other = [replace(asked[0], rounds=2), replace(asked[0], seed=1)]
    made = answers.answer(store, [*asked, *other], "quick", progress=False)
    (tmp_path / "runs").rename(tmp_path / "results")
    # By description, as of presets whose data may not be there; the quick one's go by digest.
    monkeypatch.setattr(answers, "by_task", lambda *_: ())
    known = index(store.stored(published=True))
    kept = claims._kept(known, [*asked[::-1], *other], "quick")
    assert [h.config.digest for h in kept] == [made[place].config.digest for place in (1, 0, 2, 3)]
    assert kept[0].meta["plan"] == {"part": "x"}
    wide = [replace(asked[0], options={**small, "clients": 5}), replace(asked[0], options={})]
    faster = [replace(asked[0], overrides={"client_lr": 0.5})]
    assert claims._kept(known, [*wide, *faster], "quick") == []
    assert claims._kept(known, asked, "paper") == []


def test_judging_takes_each_notebooks_runs(monkeypatch, quadratic):
    asked = []

    def kept(known, requests, preset):
        asked.append((preset, len(requests)))
        return histories(quadratic, fedavg=0.7, scaffold=0.69)

    monkeypatch.setattr(claims, "_kept", kept)
    (judged,) = claims.judge(["fedopt-scaffold"], "quick", Store())
    assert judged.verdict == HOLDS and len(asked) == len(judged.statements) >= 2


def test_other_seeds_are_judged_on_their_own_runs(monkeypatch, quadratic):
    asked = set()

    def kept(known, requests, preset):
        asked.update(request.seed for request in requests)
        return histories(quadratic, fedavg=0.7, scaffold=0.69)

    monkeypatch.setattr(claims, "_kept", kept)
    claims.judge(["fedopt-scaffold"], "quick", Store(), seed=3)
    assert asked == {3, 4, 5}


def test_seeds_that_a_method_lacks_count_for_none(quadratic):
    runs = histories(quadratic, fedavg=0.7, scaffold=0.7)
    evidence = Evidence("fedopt-scaffold", {"10_cifar10": ()}, fedopt.scaffold)
    judged = claims.judged(evidence, "paper", {"10_cifar10": runs[:-1]})
    assert judged.seeds == 2 and judged.verdict == HOLDS


def test_a_claim_whose_methods_did_not_all_run_is_not_run(quadratic):
    runs = histories(quadratic, fedavg=0.7, fedadam=0.8, fedyogi=0.8)
    judged = claims.judged(claims.EVIDENCE["fedopt-cifar100"], "paper", {"11_cifar100": runs})
    assert (judged.verdict, judged.missing) == (NOT_RUN, ("11_cifar100",))


@pytest.mark.parametrize(("inner", "expected"), [(1.005, []), (1.5, ["fedavg"])])
def test_a_winner_at_an_end_is_settled_only_if_a_setting_inside_is_as_good(inner, expected):
    rows = [("fedavg", c, s, 2.0, False, False) for c in (1, 2, 3) for s in (1, 2, 3)]
    search = pd.DataFrame(
        rows, columns=["algorithm", "client_lr", "server_lr", "score", "chosen", "edge"]
    )
    search.loc[4, "score"] = inner
    search.loc[2, ["score", "chosen", "edge"]] = [1.0, True, True]
    assert unsettled(search) == expected
    inside = search.assign(edge=False)
    assert unsettled(inside) == []


def test_an_exception_is_of_a_preset_or_of_one_of_its_notebooks():
    evidence = Evidence(
        "x", dict.fromkeys(("10_a", "11_b"), ()), list, exceptions={"quick/11_b": "b"}
    )
    assert evidence.exception("quick") == evidence.exception("quick", "11_b") == "b"
    assert evidence.exception("quick", "10_a") == evidence.exception("paper") == ""
    whole = replace(evidence, exceptions={"quick": "short"})
    assert whole.exception("quick", "10_a") == "short"
