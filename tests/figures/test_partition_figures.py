"""Figures of partitions: they show what the partitioners give, and need neither runs nor data."""

import json

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fedlib
from fedlib import datasets, figures, notebook, partition
from fedlib.figures import partitions
from fedlib.results import Store

IDS = {"fedopt/figure_14", "adafedadam/figure_6", "delta_sgd/figure_8", "fedopt/table_2"}
TEN = np.repeat(np.arange(10), 5000)
FINE = np.repeat(np.arange(100), 500)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "data" / "runs", published=[])


def test_redraw_needs_no_runs_no_data_and_no_earlier_drawing(store, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("not needed")

    for name in ("load", "load_text"):
        monkeypatch.setattr(datasets, name, refuse)
    monkeypatch.setattr(Store, "load", refuse)
    made = figures.redraw(["adafedadam/figure_6", "fedopt/table_2"], store=store)
    assert [path.name for path in made] == ["figure_6.png", "table_2.html"]
    folder = tmp_path / "figures" / "adafedadam"
    assert {p.suffix for p in folder.iterdir()} == {".png", ".pdf", ".csv", ".json"}
    record = json.loads((folder / "figure_6.json").read_text())
    assert record["runs"] == [] and record["data"] == "none" and record["note"] == ""
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".json"}
    figures.redraw(["adafedadam/figure_6"], store=store)
    assert before == {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".json"}
    assert not store.root.exists()


def test_catalogue_has_them_and_takes_no_runs(store):
    made = {entry.id for entry in figures.entries() if entry.make is not None}
    assert made >= IDS | {"theory/label_heterogeneity"}
    assert {figures.entry(id).notebook for id in IDS} == {"06_partitions"}
    with pytest.raises(fedlib.Error, match="fedopt/figure_14 is drawn without runs"):
        figures.draw("fedopt/figure_14", ["a run"], store=store)


def test_figure_14_counts_what_ten_partitions_hold():
    figure, data = partitions.fedopt_figure_14()
    unique = np.array(
        [
            [len(set(FINE[part])) for part in partition.pachinko(FINE // 5, FINE, *sizes, seed)]
            for seed in range(10)
            for sizes in [(500, 100, 0.1, 10.0)]
        ]
    )
    for row in data.itertuples():
        heights = (unique == row.unique_labels).sum(axis=1)
        assert (row.clients, row.smallest, row.largest) == (
            pytest.approx(heights.mean()),
            heights.min(),
            heights.max(),
        )
    assert data["clients"].sum() == pytest.approx(500)
    bars = figure.axes[0].containers[0]
    assert [bar.get_height() for bar in bars] == data["clients"].tolist()
    assert [bar.get_x() + bar.get_width() / 2 for bar in bars] == pytest.approx(
        data["unique_labels"].tolist()
    )
    # The paper: most clients between 20 and 30, and some over 40.
    inside = data.loc[data["unique_labels"].between(20, 30), "clients"].sum() / 500
    assert 0.5 < inside < 0.64 and f"{inside:.0%}" in figure.axes[0].get_title()
    assert 0 < data.loc[data["unique_labels"] > 40, "clients"].sum() < 5


def test_figure_6_shows_all_examples_of_sixteen_silos():
    figure, data = partitions.adafedadam_figure_6()
    assert data["beta"].unique().tolist() == [0.05, 0.1, 0.5, 1.0]
    for (beta, part), ax in zip(data.groupby("beta"), figure.axes, strict=True):
        assert ax.get_title() == f"$\\beta$ = {beta:g}"
        assert (part.groupby("label")["examples"].sum() == 5000).all()
        counts = part.pivot(index="client", columns="label", values="examples").fillna(0)
        want = partition.label_counts(TEN, partition.silos(TEN, 16, beta, seed=0))
        assert (counts.to_numpy() == want).all()
        for label, bars in enumerate(ax.containers):
            assert [bar.get_width() for bar in bars] == want[:, label].tolist()
            assert [bar.get_x() for bar in bars] == want[:, :label].sum(axis=1).tolist()
    # The smaller beta, the fewer labels a client has.
    labels = data.groupby("beta").size() / 16
    assert labels.is_monotonic_increasing and labels.iloc[0] < 4 and labels.iloc[-1] > 9


def test_figure_8_shows_the_shares_of_a_hundred_clients():
    figure, data = partitions.delta_sgd_figure_8()
    assert data["alpha"].unique().tolist() == [0.01, 0.1, 1.0]
    for (alpha, part), ax in zip(data.groupby("alpha"), figure.axes, strict=True):
        assert (part.groupby("client")["examples"].sum() == 500).all()
        np.testing.assert_allclose(part["share"], part["examples"] / 500)
        counts = part.pivot(index="client", columns="label", values="share").fillna(0).to_numpy()
        assert ax.get_title() == f"$\\alpha$ = {alpha:g}" and counts.shape == (100, 10)
        for label, shape in enumerate(ax.collections):
            # One polygon a label; the middle of client 7's stretch has its two ends.
            corners = shape.get_paths()[0].vertices
            edges = corners[np.isin(corners[:, 1], (6.5, 7.5)), 0]
            left, right = counts[7, :label].sum(), counts[7, : label + 1].sum()
            assert np.isclose(edges, left, atol=1e-9).any()
            assert np.isclose(edges, right, atol=1e-9).any()
    commonest = data.groupby(["alpha", "client"])["share"].max().groupby("alpha").mean()
    assert commonest[0.01] > 0.9 and commonest[1.0] < 0.5


def test_table_2_puts_prepared_sizes_beside_the_printed_ones(tmp_path, store):
    y = {"train_y": np.arange(300) % 10, "test_y": np.arange(100) % 10}
    clients = {"train_client": np.arange(300) % 7, "test_client": np.arange(100) % 5}
    for name, shape, more in (("cifar10", (32, 32, 3), {}), ("femnist", (28, 28), clients)):
        x = {
            f"{key[:-1]}x": np.full((len(labels), *shape), 255, np.uint8)
            for key, labels in y.items()
        }
        np.savez(tmp_path / f"{name}.npz", **x, **y, **more)
        datasets.import_file(name, tmp_path / f"{name}.npz", tmp_path / "data")
    drawn = figures.draw("fedopt/table_2", store=store)
    frame = drawn.data.set_index(["dataset", "quantity"])
    assert frame.loc["CIFAR-10", "ours"].to_dict() == {
        "train_clients": 3,
        "train_examples": 300,
        "test_clients": 1,
        "test_examples": 100,
    }
    assert frame.loc["EMNIST-62", "ours"].tolist() == [7, 300, 5, 100]
    assert frame.loc["EMNIST-62", "data"].unique().tolist() == ["femnist"]
    assert frame.loc["Shakespeare", "ours"].isna().all()
    assert frame.loc["Shakespeare", "data"].unique().tolist() == ["not prepared"]
    assert frame.loc[("EMNIST-62", "train_examples"), "printed"] == 671585
    text = drawn.path.read_text()
    assert "671585" in text and "not prepared" in text and "–" in text and "300" in text


def test_a_session_shows_them_without_runs(monkeypatch, capsys):
    session = notebook.start("elsewhere")
    shown = session.figure("fedopt/table_2")
    assert "135818730" in shown.to_html()
    assert isinstance(session.figure("adafedadam/figure_6"), Figure)


def test_heterogeneity_falls_with_the_concentration_as_the_theory_says():
    data = partitions.heterogeneity((0.03, 0.3, 3.0, 30.0), seed=1)
    table = data.pivot(index="alpha", columns="partition", values="mean")
    assert (table.diff().dropna() < 0).all().all()
    assert (data["low"] <= data["mean"]).all() and (data["mean"] <= data["high"]).mean() > 0.9
    for alpha, row in table.iterrows():
        draws = np.random.default_rng(0).beta(alpha, 9 * alpha, 400_000)  # one share of ten
        expected = 10 / 2 * np.abs(draws - 0.1).mean()
        assert row["dirichlet_overlapping"] == pytest.approx(expected, abs=0.03)
    assert table.loc[30.0, "dirichlet"] > table.loc[30.0, "silos"] + 0.03  # small samples


def test_client_labels_of_any_partition():
    labels = np.array([0, 0, 1, 2])
    parts = [np.array([0, 2]), np.array([], dtype=int), np.array([1, 3, 3])]
    figure, data = figures.client_labels(labels, parts, title="Own")
    assert data.values.tolist() == [
        [0, 0, 1, 0.5],
        [0, 1, 1, 0.5],
        [2, 0, 1, pytest.approx(1 / 3)],
        [2, 2, 2, pytest.approx(2 / 3)],
    ]
    assert figure.axes[0].get_title() == "Own" and len(figure.legends) == 1
    _, data = figures.unique_labels(labels, [parts])
    assert data["clients"].tolist() == [1, 0, 2]
    assert isinstance(data, pd.DataFrame)
    with pytest.raises(fedlib.Error, match="no examples"):
        figures.client_labels(labels, [np.array([], dtype=int)])
    with pytest.raises(fedlib.Error, match="no partitions"):
        figures.unique_labels(labels, [])
