"""The papers' partitions, data sets and networks, as the partitioners and models give them."""

import numpy as np
import pytest
from matplotlib.patches import Rectangle

import fedlib
from fedlib import datasets, papers, partition
from fedlib.reproduction import draw
from fedlib.reproduction.adafedadam import setups as adafedadam
from fedlib.reproduction.delta_sgd.figures import class_distributions
from fedlib.reproduction.fedopt import setups as fedopt
from fedlib.results import Store

TEN, FINE = np.repeat(np.arange(10), 5000), np.repeat(np.arange(100), 500)


def test_fedopt_figure_14_counts_what_ten_partitions_hold():
    figure, data = fedopt.labels_of_cifar100_clients()
    splits = [partition.pachinko(FINE // 5, FINE, 500, 100, 0.1, 10.0, seed) for seed in range(10)]
    unique = np.array([[len(set(FINE[part])) for part in parts] for parts in splits])
    for row in data.itertuples():
        heights = (unique == row.unique_labels).sum(axis=1)
        expected = (pytest.approx(heights.mean()), heights.min(), heights.max())
        assert (row.clients, row.smallest, row.largest) == expected
    assert data["clients"].sum() == pytest.approx(500)
    inside = ((unique >= 20) & (unique <= 30)).mean()  # the paper: most clients
    assert 0.5 < inside < 0.64 and f"{inside:.0%}" in figure.axes[0].get_title()


@pytest.mark.parametrize("paper", ["adafedadam", "delta_sgd"])
def test_a_panel_shows_all_examples_of_all_clients(paper):
    if paper == "adafedadam":
        (figure, data), symbol, values = adafedadam.figure_6(), "beta", [0.05, 0.1, 0.5, 1.0]
        wanted = [partition.silos(TEN, 16, value, seed=0) for value in values]
    else:
        (figure, data), symbol, values = class_distributions(), "alpha", [0.01, 0.1, 1.0]
        wanted = [partition.dirichlet_overlapping(TEN, 100, v, 500, seed=0) for v in values]
    assert data[symbol].unique().tolist() == values
    panels = zip(data.groupby(symbol), wanted, figure.axes, strict=True)
    for (value, part), parts, ax in panels:
        assert ax.get_title() == f"$\\{symbol}$ = {value:g}"
        counts = np.array([np.bincount(TEN[own], minlength=10) for own in parts])
        ours = part.pivot(index="client", columns="label", values="examples").fillna(0)
        assert (ours.to_numpy() == counts).all()
        if paper == "adafedadam":  # bars as long as clients have examples
            bars = [[(bar.get_x(), bar.get_width()) for bar in label] for label in ax.containers]
            assert (np.array(bars)[..., 1].T == counts).all()
            assert (np.array(bars)[1:, :, 0].T == counts.cumsum(1)[:, :-1]).all()
        else:  # one polygon a label; client 7's stretch has its two ends
            edges = np.insert(counts.cumsum(1)[7] / 500, 0, 0)
            for label, shape in enumerate(ax.collections):
                corners = shape.get_paths()[0].vertices
                ends = corners[np.isin(corners[:, 1], (6.5, 7.5)), 0]
                for edge in edges[label : label + 2]:
                    assert np.isclose(ends, edge, atol=1e-9).any()


def test_fedopt_table_2_puts_prepared_sizes_beside_the_printed_ones(tmp_path):
    store = Store(tmp_path / "data" / "runs", published=[])
    y = {"train_y": np.arange(300) % 10, "test_y": np.arange(100) % 10}
    clients = {"train_client": np.arange(300) % 7, "test_client": np.arange(100) % 5}
    for name, shape, more in (("cifar10", (32, 32, 3), {}), ("femnist", (28, 28), clients)):
        x = {f"{k[:-1]}x": np.full((len(own), *shape), 255, np.uint8) for k, own in y.items()}
        np.savez(tmp_path / f"{name}.npz", **x, **y, **more)
        datasets.import_file(name, tmp_path / f"{name}.npz", tmp_path / "data")
    drawn = draw.draw("fedopt/table_2", store=store)
    frame = drawn.data.set_index(["data set", "sizes"])
    assert frame.loc[("CIFAR-10", "cifar10")].tolist() == [3, 300, 1, 100]
    assert frame.loc[("EMNIST-62", "femnist")].tolist() == [7, 300, 5, 100]
    assert frame.loc["Shakespeare"].index.tolist() == ["printed"]  # nothing is prepared
    assert frame.loc[("EMNIST-62", "printed"), "train examples"] == 671585
    assert len(frame) == 7 and "671585" in (text := drawn.path.read_text()) and "femnist" in text


@pytest.mark.parametrize("label", fedopt.MODELS)
def test_fedopts_tables_hold_the_printed_counts_and_shapes(label):
    figure, ours = fedopt.network(label)
    printed = papers.table("fedopt", "table3_6_models").query("model == @label")
    assert figure is None and len(ours) == len(printed)
    for column in ("layer", "output_shape", "parameters"):
        assert ours[column].tolist() == printed[column].tolist()
    assert ours["printed"].tolist() == printed["parameters"].tolist()
    make, _ = fedopt.MODELS[label]
    assert ours["parameters"].iloc[-1] == sum(p.numel() for p in make().parameters())
    weighty = ours.query("parameters > 0 and layer not in ('TOTAL', 'LSTM', 'Embedding')")
    activations = {  # those of the authors' code
        "EMNIST AE": ["sigmoid"] * 3 + [""] + ["sigmoid"] * 4,
        "EMNIST CR": ["ReLU"] * 3 + [""],
    }
    assert weighty["activation"].tolist() == activations.get(label, [""] * len(weighty))
    with pytest.raises(fedlib.Error, match="unknown model of FedOpt 'EMNIST'"):
        fedopt.network("EMNIST")


@pytest.mark.parametrize(
    ("drawing", "parameters", "frozen", "kinds"),
    [
        (adafedadam.figure_4, 9_750_922, 0, {"Conv2d": 8, "MaxPool2d": 5, "Dense": 3}),
        (adafedadam.figure_5, 241_802, 400_001 * 300, {"Embedding": 1, "LSTM": 2, "Dense": 1}),
    ],
)
def test_adafedadams_drawings_show_every_layer(drawing, parameters, frozen, kinds):
    figure, data = drawing()
    assert data["parameters"].sum() == parameters and data["frozen"].sum() == frozen
    counted = data["layer"].value_counts()
    assert {kind: counted[kind] for kind in kinds} == kinds
    ax = figure.axes[0]
    boxes = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert len(boxes) == len(data) and f"{parameters:,}" in ax.get_title()
    words = " ".join(text.get_text() for text in ax.texts)
    assert all(f"{number:,}" in words for number in data["parameters"] if number)
    # Boxes follow each other inside the panel.
    edges = np.array([(box.get_x(), box.get_x() + box.get_width()) for box in boxes])
    assert (edges[1:, 0] > edges[:-1, 1]).all()
    assert ax.get_xlim()[0] < edges.min() and edges.max() < ax.get_xlim()[1]
    # They shrink with the images and grow with the channels.
    shown = zip(boxes, data["layer"], strict=True)
    sizes = [(box.get_height(), box.get_width()) for box, kind in shown if kind == "Conv2d"]
    heights, widths = np.array(sizes).reshape(-1, 2).T
    assert (np.diff(heights) <= 0).all() and (np.diff(widths) >= 0).all()
    if sizes:  # eight convolutions: five sizes of images, four numbers of channels
        assert (len(set(heights)), len(set(widths))) == (5, 4)
