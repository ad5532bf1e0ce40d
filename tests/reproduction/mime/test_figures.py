"""Mime's figures: panels, a table of what a round costs, and one that must notice faults."""

import dataclasses
from itertools import product

import numpy as np
import pytest

import fedlib
from fedlib.reproduction.mime import base_optimizers, table_2, tables
from fedlib.results import Store
from fedlib.results.selection import held_out_score, on_half
from tests.refusals import refused


@pytest.fixture(scope="module")
def table_runs(tmp_path_factory):
    """A quick logistic regression for all rows of Table 2, within 20 model sizes."""
    task = fedlib.load_task("emnist_logistic", clients=12)
    store = Store(tmp_path_factory.mktemp("table") / "runs", published=[])
    requests = {}
    for row in product(table_2.BASES, table_2.LOOKS):
        algorithm, overrides = tables.method(*row[::-1])
        requests[row] = {
            "algorithm": algorithm,
            "overrides": {**overrides, "client_lr": 0.01},
            "clients_per_round": tables.cohort(algorithm, overrides, 20),
        }
    runs = store.runs(task, list(requests.values()), rounds=2)
    return dict(zip(requests, runs, strict=True))


def test_table_2_counts_what_a_round_costs(table_runs):
    figure, data = table_2.mime_table_2([*table_runs.values()])
    assert figure is None and len(data) == 12
    assert not data["beside"].any()  # a small problem's
    data = data.set_index(["column", "method"])
    vectors = {"SGD": 0, "Momentum": 1, "Adam": 2, "Adagrad": 1}
    for (base, name), run in table_runs.items():
        row = data.loc[(base, name)]
        cost = {"FedAvg": 2, "MimeLite": 2 + vectors[base], "Mime": 3 + vectors[base]}[name]
        assert row["clients_per_round"] == run.config.clients_per_round == 20 // cost
        assert row["model_sizes"] == pytest.approx(cost * (20 // cost))
        assert row["ours"] == pytest.approx(100 * on_half(run)[0])
        assert row["log10_client_lr"] == pytest.approx(-2)
    assert data.loc[("Adam", "Mime"), "printed"] == 68.0
    # Without FedAvg there is no unit; rows without runs are empty.
    data = table_2.mime_table_2([table_runs["Adam", "Mime"]])[1]
    data = data.set_index(["column", "method"])
    assert data.loc[("Adam", "Mime"), "clients_per_round"] == 4
    assert np.isnan(data.loc[("Adam", "Mime"), "model_sizes"])
    assert data.drop(index=("Adam", "Mime"))["clients_per_round"].isna().all()


def test_base_panels_show_the_better_of_two_rates(table_runs):
    task = fedlib.load_task("emnist_logistic", clients=12)
    other = fedlib.run(task, "fedavg", rounds=2, clients_per_round=10, overrides={"client_lr": 0.1})
    figure, data = table_2.base_panels([*table_runs.values(), other])
    assert [ax.get_title("left") for ax in figure.axes] == list(table_2.BASES)
    chosen = min((table_runs["SGD", "FedAvg"], other), key=held_out_score)
    part = data.query("base == 'SGD' and algorithm == 'fedavg'")
    np.testing.assert_allclose(part["mean"], chosen.series("loss"))
    assert chosen is other and len(data) == 12 * 3
    refused("no runs to draw", table_2.base_panels, [])


@pytest.mark.parametrize("name", base_optimizers.BASES)
def test_table_5_notices_a_wrong_optimizer(name, monkeypatch):
    """Its differences are not small by construction: a changed step or state shows."""
    base = base_optimizers.BASES[name]

    class Wrong(type(base)):
        def linear(self, s):
            a, b = super().linear(s)
            return a * 1.01, b

        def advance(self, g, s):
            return {name: value * 1.01 for name, value in super().advance(g, s).items()}

    values = {f.name: getattr(base, f.name) for f in dataclasses.fields(base)}
    monkeypatch.setattr(base_optimizers, "BASES", {name: Wrong(**values)})
    (found,) = base_optimizers.mime_table_5()[1].to_dict("records")
    assert float(found["difference of U"]) > 1e-3
    assert name == "SGD" or float(found["difference of V"]) > 1e-3
