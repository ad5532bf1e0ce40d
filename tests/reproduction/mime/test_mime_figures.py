"""Mime's figures: tuned lines, panels, and a table of what a round costs."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
import torch

import fedlib
from fedlib import figures
from fedlib.optimizers import mime as bases
from fedlib.reproduction.experiments import mime
from fedlib.reproduction.mime import ablation as mime_runs
from fedlib.reproduction.mime import base_optimizers
from fedlib.reproduction.mime import table_2 as mime_table
from fedlib.results import Store

RATES = (0.01, 0.05)
LINES = {
    "mime": ("mime", {"base": "momentum", "split": True}),
    "mime_sgd": ("mime", {"base": "sgd", "split": True}),
    "mimelite": ("mimelite", {"base": "momentum", "split": True}),
    "loc_mime": ("loc_mime", {"base": "momentum", "split": True}),
    "fedavg": ("fedavg", {}),
    "fedavgm": ("fedavgm", {"server_lr": 0.1}),
    "scaffold": ("scaffold", {}),
    "fedprox": ("fedprox", {"mu": 0.5}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Runs of all lines of Figure 1 on a small task that calls itself the MLP's."""
    task = dataclasses.replace(fedlib.load_task("synthetic", clients=8), name="emnist_mlp")
    store = Store(tmp_path_factory.mktemp("store") / "runs", published=[])
    requests = [
        {"algorithm": name, "overrides": {**overrides, "client_lr": rate}}
        for name, overrides in LINES.values()
        for rate in RATES
    ]
    requests.append({"algorithm": "fedprox", "overrides": {"mu": 1.0, "client_lr": RATES[1]}})
    requests.append({"algorithm": "fedprox", "overrides": {"mu": 1.0, "client_lr": RATES[0]}})
    return store, store.runs(task, requests, rounds=3, clients_per_round=4)


def of(histories, line):
    return [history for history in histories if mime_runs.line_of(history) == line]


def score(history):
    return history.series("loss", "train").iloc[-1]


def test_lines_are_tuned_and_mimes_base_tells_two_of_them_apart(made):
    _, histories = made
    best = mime_runs.lines(histories)
    assert set(best) == set(LINES)
    for line, (algorithm, overrides) in LINES.items():
        (run,) = best[line]
        assert run.config.algorithm == algorithm
        assert score(run) == min(score(other) for other in of(histories, line))
        if "base" in overrides:
            assert run.config.method["base"]["type"].lower() == overrides["base"]


def test_figure_1_draws_its_three_panels_from_the_chosen_runs(made):
    store, histories = made
    drawn = figures.draw("mime/figure_1", histories, store=store)
    panels = [ax.get_title() for ax in drawn.figure.axes]
    assert panels == list(mime_runs.PANELS)
    best = mime_runs.lines(histories)
    for ax, (title, names) in zip(drawn.figure.axes, mime_runs.PANELS.items(), strict=True):
        shown = {line.get_label(): line.get_ydata() for line in ax.get_lines()}
        assert set(shown) == {mime_runs.LOOKS[name].label for name in names}
        for name in names:
            expected = 100 * best[name][0].series()
            np.testing.assert_allclose(shown[mime_runs.LOOKS[name].label], expected)
            part = drawn.data[(drawn.data["panel"] == title) & (drawn.data["algorithm"] == name)]
            np.testing.assert_allclose(part["mean"], expected)
            rate = mime_runs.reading.hyperparameter(best[name][0], "client_lr")
            assert set(part["client_lr"]) == {rate}
    momentum = drawn.data.groupby("algorithm")["momentum"].first()
    assert momentum["mime"] == 0.9 and momentum["mime_sgd"] == momentum["fedavg"] == 0
    assert drawn.data.notna()[["round", "mean", "client_lr"]].all(axis=None)


def test_only_complete_panels_are_drawn(made):
    _, histories = made
    left = [run for name in mime_runs.PANELS["all methods"] for run in of(histories, name)]
    figure, data = mime_runs.mime_figure_1(left)
    assert [ax.get_title() for ax in figure.axes] == ["all methods"]
    assert set(data["algorithm"]) == set(mime_runs.PANELS["all methods"])
    with pytest.raises(fedlib.Error, match="lacks runs of"):
        mime_runs.mime_figure_1(of(histories, "mime"))
    with pytest.raises(fedlib.Error, match="no runs to draw"):
        mime_runs.mime_figure_1([])


def test_figure_5_compares_at_fedavgs_best_rate(made):
    store, histories = made
    runs = [h for h in histories if h.config.algorithm in ("fedavg", "fedprox")]
    drawn = figures.draw("mime/figure_5", runs, store=store)
    fedavg = min(of(runs, "fedavg"), key=score)
    rate = fedavg.config.method["client"]["lr"]
    assert set(drawn.data["client_lr"]) == {rate}
    assert set(drawn.data["algorithm"]) == {"fedavg", "mu 0.5", "mu 1"}
    left, right = drawn.figure.axes
    assert len(left.get_lines()) == len(right.get_lines()) == 3
    for run in runs:
        if run.config.method["client"]["lr"] != rate:
            continue
        mu = (run.config.method["objective"] or {}).get("mu", 0.0)
        name = "fedavg" if run.config.algorithm == "fedavg" else f"mu {mu:g}"
        part = drawn.data[(drawn.data["metric"] == "loss") & (drawn.data["algorithm"] == name)]
        np.testing.assert_allclose(part["mean"], run.series("loss"))
    with pytest.raises(fedlib.Error, match="no runs of fedavg"):
        mime_runs.mime_figure_5(of(runs, "fedprox"))


@pytest.fixture(scope="module")
def table_runs(tmp_path_factory):
    """A quick logistic regression for all rows of Table 2, within 20 model sizes."""
    task = fedlib.load_task("emnist_logistic", clients=12)
    store = Store(tmp_path_factory.mktemp("table") / "runs", published=[])
    rows = [(base, name) for base in mime_table.BASES for name in mime_table.LOOKS]
    requests = []
    for base, name in rows:
        algorithm, overrides = mime.method(name, base)
        overrides = {**overrides, "client_lr": 0.01}
        number = mime.cohort(name, base, 20)
        request = {"algorithm": algorithm, "overrides": overrides, "clients_per_round": number}
        requests.append(request)
    return dict(zip(rows, store.runs(task, requests, rounds=2), strict=True))


def test_table_2_counts_what_a_round_costs(table_runs):
    figure, data = mime_table.mime_table_2([*table_runs.values()])
    assert figure is None and len(data) == 12
    data = data.set_index("method")
    vectors = {"SGD": 0, "Momentum": 1, "Adam": 2, "Adagrad": 1}
    short = {"Momentum": "Mom"}
    for (base, name), run in table_runs.items():
        row = data.loc[f"{name}{short.get(base, base)}"]
        cost = {"FedAvg": 2, "MimeLite": 2 + vectors[base], "Mime": 3 + vectors[base]}[name]
        assert row["clients_per_round"] == run.config.clients_per_round == 20 // cost
        assert row["model_sizes"] == pytest.approx(cost * (20 // cost))
        assert row["ours"] == pytest.approx(100 * run.series().iloc[-1])
        assert row["log10_client_lr"] == pytest.approx(-2)
    assert data.loc["MimeAdam", "printed"] == 68.0


def test_table_2_without_fedavg_has_no_unit_and_rows_without_runs_are_empty(table_runs):
    data = mime_table.mime_table_2([table_runs["Adam", "Mime"]])[1].set_index("method")
    assert data.loc["MimeAdam", "clients_per_round"] == 4
    assert np.isnan(data.loc["MimeAdam", "model_sizes"])
    assert data.drop(index="MimeAdam")["clients_per_round"].isna().all()


def test_base_panels_show_the_better_of_two_rates(table_runs):
    task = fedlib.load_task("emnist_logistic", clients=12)
    other = fedlib.run(task, "fedavg", rounds=2, clients_per_round=10, overrides={"client_lr": 0.1})
    figure, data = mime_table.base_panels([*table_runs.values(), other])
    assert [ax.get_title() for ax in figure.axes] == list(mime_table.BASES)
    chosen = min((table_runs["SGD", "FedAvg"], other), key=score)
    part = data.query("base == 'SGD' and method == 'FedAvg'")
    np.testing.assert_allclose(part["value"], chosen.series("loss"))
    assert chosen is other and set(part["client_lr"]) == {0.1}
    with pytest.raises(fedlib.Error, match="no runs to draw"):
        mime_table.base_panels([])


def test_table_5_finds_its_optimizers():
    data = base_optimizers.mime_table_5()[1].set_index("base")
    assert list(data["vectors"]) == [0, 1, 1, 2, 2]
    errors = data[["difference of V", "difference of U", "not linear"]].astype(float)
    assert (errors < 1e-9).all(axis=None)
    moved = data["not linear with the new v"].astype(float)
    assert (moved[["Adagrad", "Adam", "Yogi"]] > 0.1).all()
    assert (moved[["SGD", "Momentum"]] < 1e-12).all()


@pytest.mark.parametrize("number", range(len(base_optimizers.ROWS)))
def test_table_5_notices_a_wrong_optimizer(number, monkeypatch):
    """Its differences are not small by construction: a changed step or state shows."""
    row = base_optimizers.ROWS[number]

    class Wrong(type(row.base)):
        def linear(self, s):
            a, b = super().linear(s)
            return a * 1.01, b

        def advance(self, g, s):
            return {name: value * 1.01 for name, value in super().advance(g, s).items()}

    values = {f.name: getattr(row.base, f.name) for f in dataclasses.fields(row.base)}
    wrong = dataclasses.replace(row, base=Wrong(**values))
    monkeypatch.setattr(base_optimizers, "ROWS", (wrong,))
    (found,) = base_optimizers.mime_table_5()[1].to_dict("records")
    assert float(found["difference of U"]) > 1e-3
    assert row.name == "SGD" or float(found["difference of V"]) > 1e-3


def test_linearity_is_measured_not_assumed():
    g, h = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0])
    s = {"v": torch.tensor([1.0, 4.0]), "passes": torch.ones(1)}
    base = bases.Adagrad(eps=1e-3, v0=0.1)
    assert base_optimizers.unlinear(base, s, g, h, frozen=True) < 1e-6
    steps = [x / ((s["v"] + x**2).sqrt() + 1e-3) for x in (g + h, g, h)]
    expected = (steps[0] - steps[1] - steps[2]).abs().max() / steps[0].abs().max()
    found = base_optimizers.unlinear(base, s, g, h, frozen=False)
    assert found == pytest.approx(float(expected), rel=1e-5)


def test_table_5_is_redrawn_without_runs(tmp_path):
    store = Store(tmp_path / "runs", published=[])
    (path,) = figures.redraw(["mime/table_5"], store=store, root=tmp_path / "figures")
    text = path.read_text(encoding="utf-8")
    assert "torch.optim.Adagrad" in text and "v ← v + g²" in text
    numbers = pd.read_csv(path.with_suffix(".csv"))["difference of V"]
    assert (numbers.astype(float) < 1e-9).all()
