"""The papers' partitions and networks: drawn as the partitioners and models give them."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import fedlib
from fedlib import datasets, papers, partition
from fedlib.reproduction import draw
from fedlib.reproduction.theory import architectures, partitions
from fedlib.results import Store

TEN = np.repeat(np.arange(10), 5000)
FINE = np.repeat(np.arange(100), 500)


def test_figure_14_counts_what_ten_partitions_hold():
    figure, data = partitions.fedopt_figure_14()
    splits = [partition.pachinko(FINE // 5, FINE, 500, 100, 0.1, 10.0, seed) for seed in range(10)]
    unique = np.array([[len(set(FINE[part])) for part in parts] for parts in splits])
    for row in data.itertuples():
        heights = (unique == row.unique_labels).sum(axis=1)
        expected = (pytest.approx(heights.mean()), heights.min(), heights.max())
        assert (row.clients, row.smallest, row.largest) == expected
    assert data["clients"].sum() == pytest.approx(500)
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


def test_table_2_puts_prepared_sizes_beside_the_printed_ones(tmp_path):
    store = Store(tmp_path / "data" / "runs", published=[])
    y = {"train_y": np.arange(300) % 10, "test_y": np.arange(100) % 10}
    clients = {"train_client": np.arange(300) % 7, "test_client": np.arange(100) % 5}
    for name, shape, more in (("cifar10", (32, 32, 3), {}), ("femnist", (28, 28), clients)):
        x = {
            f"{key[:-1]}x": np.full((len(labels), *shape), 255, np.uint8)
            for key, labels in y.items()
        }
        np.savez(tmp_path / f"{name}.npz", **x, **y, **more)
        datasets.import_file(name, tmp_path / f"{name}.npz", tmp_path / "data")
    drawn = draw.draw("fedopt/table_2", store=store)
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


@pytest.mark.parametrize("label", architectures.FEDOPT)
def test_fedopts_tables_hold_the_printed_counts_and_shapes(label):
    figure, ours = architectures.fedopt_table(label)
    printed = papers.table("fedopt", "table3_6_models").query("model == @label")
    assert figure is None and len(ours) == len(printed)
    assert ours["layer"].tolist() == printed["layer"].tolist()
    assert ours["output_shape"].tolist() == printed["output_shape"].tolist()
    assert (ours["parameters"] == ours["printed"]).all()
    assert ours["printed"].tolist() == printed["parameters"].tolist()
    make, _ = architectures.FEDOPT[label]
    assert ours["parameters"].iloc[-1] == sum(p.numel() for p in make().parameters())
    with pytest.raises(fedlib.Error, match="unknown model of FedOpt 'EMNIST'"):
        architectures.fedopt_table("EMNIST")


def test_fedopts_activations_are_those_of_the_code():
    tables = {label: architectures.fedopt_table(label)[1] for label in architectures.FEDOPT}
    dense = tables["EMNIST AE"].query("layer == 'Dense'")
    assert dense["activation"].tolist() == ["sigmoid"] * 3 + [""] + ["sigmoid"] * 4
    weighty = tables["EMNIST CR"].query("parameters > 0 and layer != 'TOTAL'")
    assert weighty["activation"].tolist() == ["ReLU", "ReLU", "ReLU", ""]
    assert (tables["StackOverflow NWP"]["activation"] == "").all()
    assert tables["EMNIST CR"]["settings"].iloc[1] == "3x3"


def test_adafedadams_drawings_show_every_layer():
    for drawing, parameters, kinds in (
        (architectures.adafedadam_figure_4, 9_750_922, {"Conv2d": 8, "MaxPool2d": 5, "Dense": 3}),
        (architectures.adafedadam_figure_5, 241_802, {"Embedding": 1, "LSTM": 2, "Dense": 1}),
    ):
        figure, data = drawing()
        assert data["parameters"].sum() == parameters
        counted = data["layer"].value_counts()
        assert {kind: counted[kind] for kind in kinds} == kinds
        ax = figure.axes[0]
        boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert len(boxes) == len(data)
        assert f"{parameters:,}" in ax.get_title()
        words = " ".join(text.get_text() for text in ax.texts)
        for row in data.query("parameters > 0").itertuples():
            assert f"{row.parameters:,}" in words
        # Boxes follow each other and lie inside the panel.
        edges = np.array([(box.get_x(), box.get_x() + box.get_width()) for box in boxes])
        assert (edges[1:, 0] > edges[:-1, 1]).all()
        assert ax.get_xlim()[0] < edges.min() and edges.max() < ax.get_xlim()[1]
        if kinds.get("Conv2d"):  # boxes shrink with the images and grow with the channels
            shown = zip(boxes, data["layer"], strict=True)
            sizes = [(b.get_height(), b.get_width()) for b, kind in shown if kind == "Conv2d"]
            heights, widths = zip(*sizes, strict=True)
            assert list(heights) == sorted(heights, reverse=True) and len(set(heights)) == 5
            assert list(widths) == sorted(widths) and len(set(widths)) == 4
    assert data["frozen"].sum() == 400_001 * 300
