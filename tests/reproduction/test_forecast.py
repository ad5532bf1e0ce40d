"""What a sweep would do, told without data: against sweeps that load them, and against sums."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import fedlib
from fedlib import plans
from fedlib.engine import configure
from fedlib.plans import Request
from fedlib.reproduction import answers, forecast

ROOT = Path(__file__).resolve().parents[2]


PLANS = [("23_fair_synthetic", "paper"), ("12_emnist_cr", "quick"), ("21_fair_cifar10", "quick")]


@pytest.mark.parametrize(("notebook", "preset"), PLANS)
def test_runs_train_together_as_where_the_data_are_loaded(notebook, preset):
    requests = plans.requests(notebook, preset)
    told, loaded = forecast.survey(requests, preset), answers.survey(requests, preset)
    assert sorted(repr(one.requests) for one in told) == sorted(
        repr(one.requests) for one in loaded
    )


def test_every_laptop_plan_is_counted_without_hours(tmp_path):
    requests = [run for name in plans.planned() for run in plans.requests(name, "laptop")]
    groups = forecast.survey(requests, "laptop")
    frame = forecast.table(groups, set(), "laptop", tmp_path)
    assert frame.loc["all", "missing"] == sum(len(group.digests) for group in groups)
    assert "hours_h200" not in forecast.words(frame, "laptop")


@pytest.mark.parametrize("rule", [(23, 7, 5), (21, 7, 1), (4, 9, 9), (6, 6, 3), (0, 1, 1)])
def test_evaluations_are_counted_as_they_are_made(rule, quadratic):
    rounds, every, last = rule
    how = {"rounds": rounds, "eval_every": every, "eval_last": last}
    config = configure(quadratic, "fedavg", **how)[0]
    series = fedlib.run(quadratic, "fedavg", **how).series("loss")
    assert forecast.evaluations(config) == len(series)


def test_hours_are_the_measured_seconds_of_the_nearest_workload():
    """A run of FedOpt's CIFAR-10 is what was measured; SCAFFOLD's clients remember a model each."""
    request = Request("cifar10", "fedavg", rounds=4000, eval_every=20, eval_last=100)
    (group,) = forecast.survey([request], "paper")
    found = forecast.needs(group, set(), "paper")
    assert (found["rounds"], found["evaluations"]) == (4000, 1 + 195 + 100)
    assert found["h200"] == pytest.approx((4000 * 0.0914 + 296 * 0.33) / 3600, rel=0.01)
    assert forecast.needs(group, set(group.digests), "paper")["h200"] == 0
    two = [request, replace(request, overrides={"client_lr": 1.0})]
    (both,) = forecast.survey(two, "paper")
    assert forecast.needs(both, set(), "paper")["h200"] == pytest.approx(2 * found["h200"])
    (clients,) = forecast.survey([replace(request, algorithm="scaffold")], "paper")
    most = forecast.needs(clients, set(), "paper")["gigabytes"]
    assert most - found["gigabytes"] == pytest.approx(500 * 11_181_642 * 4 / 1e9)
    assert forecast.table([group, clients], set(), "paper").loc["all", "gigabytes"] == most
    (pooled,) = forecast.survey([replace(request, algorithm="centralized")], "paper")
    hours = forecast.needs(pooled, set(), "paper")["h200"]
    assert hours == pytest.approx((4000 * 50 * 0.0914 + 296 * 0.33) / 3600, rel=0.01)
    half = forecast.scale(replace(request, options={"width": 0.5}), "paper")
    assert (4 * half.work, 4 * half.parameters) == (403.0, 11_181_642)
    drawn = forecast.scale(Request("mnist", "fedavg", options={"sizes": "100-500"}), "paper")
    assert drawn.examples == pytest.approx(450 * 300 / 500)


def test_what_the_data_decide_is_unknown_and_not_guessed():
    groups = forecast.survey(plans.requests("20_fair_femnist", "paper"), "paper")
    frame = forecast.table(groups, set(), "paper")
    assert frame.loc["all", "rounds"] == 30 * 500
    assert frame[["gigabytes", "hours_h200"]].isna().all(axis=None)
    assert forecast.words(frame, "paper").loc["all", "hours_h200"] == "?"


def test_the_seconds_are_those_of_the_document():
    text = (ROOT / "docs" / "speed.md").read_text(encoding="utf-8")
    head = "| workload | fedlib s | plain s |"
    tables = [part for part in text.split("\n\n") if part.startswith(head)]
    for device, table in zip(("cpu", "h200"), tables, strict=True):
        rows = dict(re.findall(r"^\| (W\d|P)[^|]*\| ([0-9.]+) \|", table, re.MULTILINE))
        known = {name: forecast.COSTS["workloads"][name][device] for name in rows}
        assert {name: float(seconds) for name, seconds in rows.items()} == known
        assert len(rows) == 6


def test_a_dry_run_needs_no_data(command, tmp_path):
    words = ["sweep", "15", "--preset", "paper", "--dry-run", "--data-root", str(tmp_path)]
    status, out, error = command(*words)
    assert (status, error) == (0, "") and not list(tmp_path.iterdir())
    assert "not prepared" in out
    counts = json.loads(command(*words, "--json")[1])
    assert (counts["runs"], counts["missing"], counts["rounds"]) == (82, 82, 82 * 1500)
    status, _, error = command("sweep", "12", "--dry-run", "-p", "width=-1")
    assert status == 2 and "width is -1" in error
