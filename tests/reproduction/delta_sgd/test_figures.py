"""Delta-SGD's figures: what is drawn is what the runs say, here made-up curves; and Figure 7."""

import dataclasses

import numpy as np
import pytest
import torch

import fedlib
from fedlib import papers
from fedlib.figures import style
from fedlib.reproduction import draw
from fedlib.reproduction.delta_sgd import step_size_paths
from fedlib.reproduction.delta_sgd.tables import CLIENTS
from fedlib.tasks import settings

ROUNDS = 4


@pytest.fixture
def made(hand_made, synthetic):
    """Makes a run of a task at an alpha, with accuracies of our choice."""
    settled = {
        "hyperparameters": settings.delta_sgd(),
        "client_hyperparameters": settings.delta_sgd_clients(),
    }

    def make(name, alpha, label, accuracies, small=None, **more):
        options = {"alpha": alpha} | ({"network": small} if small else {})
        own = {"name": name, "options": options, "preset": "quick" if small else "paper"}
        task = dataclasses.replace(synthetic, **own, **settled)
        return hand_made(task, "fedavg", accuracies, rounds=ROUNDS, overrides=CLIENTS[label] | more)

    return make


def drawn(name, runs):
    """A figure of the paper and its data, from these runs."""
    return draw.entry(f"delta_sgd/{name}").draw(runs)


def line(ax, label):
    (found,) = [one for one in ax.get_lines() if one.get_label() == label]
    return found


def test_figure_1_has_the_panels_that_were_run_and_table_1s_numbers(made):
    places = [("mnist", 0.01), ("cifar100_resnet50", 0.1), ("mnist", 1.0)]
    runs = [
        made(task, alpha, label, [0.1, 0.2, 0.3, 0.4, 0.5 + number / 100])
        for task, alpha in places
        for number, label in enumerate(CLIENTS)
    ]
    figure, data = drawn("figure_1", runs)
    left, beside, right, _ = figure.axes
    titles = [ax.get_title("left").replace("\n", " ") for ax in (left, right)]
    assert titles[0].startswith("MNIST, α = 0.01: ") and titles[0].endswith("Δ-SGD and SPS lead")
    assert titles[1].startswith("CIFAR-100 ResNet-50, α = 0.1")
    for number, label in enumerate(CLIENTS):
        values = line(left, style.look(label).label).get_ydata()
        assert np.allclose(values, [10, 20, 30, 40, 50 + number])
    rows = {}  # of the strip, from above: ours, and what Table 1 prints
    for text in beside.texts:
        if text.xy[0] == 1:
            rows.setdefault(text.xy[1], []).append(text.get_text())
    shown = dict(zip(reversed(style.CLIENT_LOOKS), (rows[y] for y in range(8)), strict=True))
    printed = papers.printed("delta_sgd", "table1", optimizer="SPS", dataset="MNIST", alpha=0.01)
    assert shown["sps"] == ["56.0", f"{printed:.1f}"] and shown["sgdm_decay"] == ["53.0", "94.0"]
    assert set(data["alpha"]) == {0.01, 0.1} and len(data) == 2 * 8 * (ROUNDS + 1)
    one = data[(data["task"] == "mnist") & (data["algorithm"] == "adam") & (data["round"] == 4)]
    assert one["printed"].item() == 80.8 and one["mean"].item() == pytest.approx(54)


def test_small_problems_have_titles_of_their_own_and_no_printed_numbers(made):
    runs = [
        made("fashion_mnist", alpha, label, [0.1, 0.5, 0.6, 0.7, 0.8], small="mlp")
        for alpha in (0.01, 0.1)
        for label in ("sgd", "delta_sgd")
    ]
    coarse = made("mnist", 0.01, "delta_sgd", [0.1, 0.2, 0.3, 0.4, 0.9], small="softmax")
    figure, data = drawn("figure_1", [coarse])
    assert figure.axes[0].get_title("left").startswith("softmax, 7x7 pixels, α = 0.01")
    assert "printed" not in data
    figure, data = drawn("figure_2", runs)
    titles = [ax.get_title("left").replace("\n", " ") for ax in figure.axes[:2]]
    assert titles == ["α = 0.01: Δ-SGD +0.0", "α = 0.1: Δ-SGD +0.0"]
    shown = [text.get_text() for text in figure.axes[0].texts if text.get_gid()]
    assert shown == ["MLP, 7x7 pixels: 1 seed"]
    assert any("small problem" in text.get_text() for text in figure.texts)
    assert set(data["source"]) == {"ours"}
    figure, data = drawn("figure_3", [*runs, coarse])
    ours = data[(data["algorithm"] == "delta_sgd") & (data["panel"] == "α = 0.01")]
    assert ours["x"].tolist() == ["softmax\n7x7 pixels", "MLP\n7x7 pixels"]
    assert ours["value"].tolist() == pytest.approx([90, 80])
    assert ours["behind"].tolist() == pytest.approx([0, 0])


def test_figure_3_has_each_methods_distance_from_the_best_and_names_diverged_ones(made):
    ends = {"mnist": {"sgd": 0.9, "sgdm": 0.1}, "fashion_mnist": {"sgd": 0.6, "sgdm": 0.8}}
    runs = [made(t, 0.01, m, [0.1] * 4 + [end]) for t, of in ends.items() for m, end in of.items()]
    runs[-1] = dataclasses.replace(runs[-1], meta={**runs[-1].meta, "diverged": 2})
    figure, data = drawn("figure_3", runs)
    (ax,) = figure.axes
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["SGD", "SGDM"]
    far = data[data["source"] == "ours"].set_index(["x", "algorithm"])["behind"]
    assert far["MNIST"].to_dict() == pytest.approx({"sgd": 0, "sgdm": 80})
    assert far["FMNIST"].to_dict() == {"sgd": 0}
    (word,) = (text for text in ax.texts if text.get_text() == "diverged")
    x, y = word.xy
    assert x > 80 and y == pytest.approx(1.2)  # the second line of SGDM


def test_figure_2_has_arrows_for_what_is_far_below(made):
    ends = {"sgd": 0.8, "adam": 0.3, "delta_sgd": 0.79}
    runs = [made("fashion_mnist", 0.1, m, [0.1] * 4 + [end]) for m, end in ends.items()]
    figure, _ = drawn("figure_2", runs)
    arrows = [one for one in figure.axes[1].get_lines() if one.get_marker() == "<"]
    assert {one.get_color() for one in arrows} == {style.look(m).color for m in ("adam", "adagrad")}
    assert figure.get_suptitle().startswith("Δ-SGD is at most 1.0 points behind the best")


def test_figure_4_says_how_far_its_deltas_end_apart(made):
    ends = {0.01: 0.52, 0.1: 0.5, 1.0: 0.47}
    runs = [
        made("cifar10_resnet18", 0.1, "delta_sgd", [0.1, 0.2, 0.3, 0.4, end], delta=delta)
        for delta, end in ends.items()
    ]
    figure, data = drawn("figure_4", runs)
    titles = [ax.get_title("left") for ax in figure.axes]
    assert titles == ["δ from 0.01 to 1 ends within 5.0 points", "δ = 0.1: 2.0 behind the best"]
    assert data[data["panel"] == "ends"]["mean"].tolist() == pytest.approx([52, 50, 47])
    figure, _ = drawn("figure_4", runs[::2])  # without the paper's 0.1
    assert figure.axes[1].get_title("left") == "After the last round"


def test_a_client_alone_goes_where_the_engine_takes_it():
    """One client, full batches: the engine's parameters after a round of seven steps."""
    task = fedlib.load_task("synthetic", clients=1, seed=step_size_paths.SEED)
    overrides = {"client_optimizer": "delta_sgd", "local_steps": 7, "batch_size": None}
    run = fedlib.run(task, "fedavg", rounds=1, dtype="float64", overrides=overrides)
    theirs = torch.column_stack([run.params["linear.weight"], run.params["linear.bias"]])
    x = torch.nn.functional.pad(task.train.x.double(), (0, 1), value=1.0)[task.train.index]
    y = task.train.y[task.train.index]
    start = step_size_paths.initial_weights(task)
    ours, path = step_size_paths.client_round(start, 7 * [(x, y)])
    assert not torch.allclose(ours, start, rtol=0, atol=1e-2)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
    assert len(path) == 7
