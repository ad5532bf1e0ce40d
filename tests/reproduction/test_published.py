"""The published quick runs are those that the code asks for, and show what is published of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedlib.reproduction import claims
from fedlib.results import Store

RESULTS = Path(__file__).resolve().parents[2] / "data" / "results"
PUBLISHED = json.loads((RESULTS / "claims_quick.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """An empty store beside the published runs."""
    return Store(tmp_path_factory.mktemp("empty") / "runs", published=[RESULTS])


def test_the_published_quick_runs_give_the_published_verdicts(store: Store) -> None:
    judged = {verdict.id: verdict.as_dict() for verdict in claims.judge((), "quick", store)}
    assert list(judged) == [claim["id"] for claim in PUBLISHED]
    for claim in PUBLISHED:
        ours = judged[claim["id"]]
        for key in ("verdict", "seeds", "rounds", "data", "missing", "reason"):
            assert json.loads(json.dumps(ours[key])) == claim[key], claim["id"]
        for number, again in zip(claim["numbers"], ours["numbers"], strict=True):
            assert number["statement"] == again["statement"]
            assert again["margins"] == pytest.approx(number["margins"], abs=1e-9), claim["id"]


def test_a_published_claim_that_does_not_hold_has_its_reason_and_no_other_has_one() -> None:
    """By this the notebooks' checks know what to expect."""
    assert {claim["id"] for claim in PUBLISHED if claim["verdict"] != "holds"} == {
        claim["id"] for claim in PUBLISHED if claim["reason"]
    }
