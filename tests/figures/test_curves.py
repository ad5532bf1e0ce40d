"""Curves, distributions and heat maps: what is drawn is what the histories hold."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from fedlib import figures
from fedlib.figures import style
from tests.figures.conftest import ALGORITHMS, lines


def test_lines_equal_the_data_and_the_histories(histories):
    figure, data = figures.learning_curves(histories, title="Synthetic")
    (ax,) = figure.axes
    assert set(lines(ax)) == {"FedAvg", "FedAdam"}
    for name in ALGORITHMS:
        seeds = [h.series() for h in histories if h.config.algorithm == name]
        values = 100 * np.array([series.to_numpy() for series in seeds])
        part = data[data["algorithm"] == name]
        line = lines(ax)[style.look(name).label]
        np.testing.assert_array_equal(line.get_xdata(), seeds[0].index)
        np.testing.assert_allclose(line.get_ydata(), values.mean(0), rtol=1e-12)
        np.testing.assert_array_equal(part["mean"], line.get_ydata())
        np.testing.assert_allclose(part["std"], values.std(0, ddof=1), atol=1e-12)
        assert (part["seeds"] == 2).all()
    band = ax.collections[0].get_paths()[0].vertices
    first = data[data["algorithm"] == ALGORITHMS[0]].iloc[-1]
    reach = band[band[:, 0] == first["round"], 1]
    assert reach.min() == pytest.approx(first["mean"] - first["std"])
    assert reach.max() == pytest.approx(first["mean"] + first["std"])
    assert len(ax.collections) == 2  # a band each
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("round", "test accuracy (%)")
    assert ax.get_title("left") == "Synthetic"
    figure, data = figures.learning_curves(histories[:1])  # one seed has no band
    assert not figure.axes[0].collections and data["std"].isna().all()


def labels(ax):
    """What stands behind the lines' ends, from above; not what is below the title."""
    texts = [text for text in ax.texts if text.get_position()[0] > 1]
    return [text.get_text() for text in sorted(texts, key=lambda text: -text.get_position()[1])]


SEEDS = dict.fromkeys(("init", "sampling", "batches"), 7)


def said(ax):
    """What is below the title, in one line."""
    return " ".join(" ".join(t.get_text() for t in ax.texts if t.get_position()[0] <= 1).split())


def planted(run, algorithm, values, every=10, diverged=None):
    """A run of these test accuracies."""
    rounds = every * np.arange(len(values))
    rows = {"round": rounds, "split": "test", "metric": "accuracy", "value": np.array(values) / 100}
    config = dataclasses.replace(run.config, algorithm=algorithm, rounds=int(rounds[-1]))
    meta = {**run.meta, "diverged": diverged}
    return dataclasses.replace(run, frame=pd.DataFrame(rows), config=config, meta=meta)


def test_a_line_ends_in_the_tables_number_with_the_printed_one_beside_it(histories):
    """A mean over as many rounds as a table averages, around each; the band is that of the line."""
    late = [50, 60, 60, 63] * 40
    run = planted(histories[0], "fedavg", [0, *late])
    figure, data = figures.learning_curves([run], printed={"fedavg": 90.08})
    (ax,) = figure.axes
    bold = lines(ax)["FedAvg"].get_ydata()
    assert bold[-1] == pytest.approx(100 * run.final()) and bold[0] == 0 and bold[1] == 50
    assert bold[60] == pytest.approx(np.mean(late[55:64]))  # within 50 of its round, 600
    assert labels(ax) == [f"FedAvg {100 * run.final():.1f} [90.1]"]
    assert list(data["mean"]) == [0, *late] and list(data["line"]) == list(bold)
    assert data["spread"].iloc[60] == pytest.approx(np.std(late[55:64], ddof=1))
    (shade,) = ax.collections
    at_600 = shade.get_paths()[0].vertices[shade.get_paths()[0].vertices[:, 0] == 600, 1]
    assert sorted({at_600.min(), at_600.max()}) == pytest.approx(
        [bold[60] - data["spread"].iloc[60], bold[60] + data["spread"].iloc[60]]
    )
    assert ax.get_lines()[-1].get_markerfacecolor() == "white"  # of one seed
    assert ax.get_ylim()[0] > 40  # the initial model does not decide what the axis shows
    assert "1 seed; lines and bands: mean ± std of 100 rounds; [printed]" in said(ax)
    last = figures.learning_curves([run], window=1)[0].axes[0]
    assert labels(last) == ["FedAvg 63.0"] and not last.collections
    assert "lines:" not in said(last)
    (raw,) = figures.plot(run, window=1).axes  # every evaluation
    assert list(next(iter(lines(raw).values())).get_ydata()) == [0, *late]
    assert "mean ± std of 100 rounds" in said(*figures.plot(run).axes)
    rare = planted(histories[0], "fedavg", [0, 50, 60, 63], every=20)  # averages at its end alone
    assert "ends: means of 4 rounds" not in said(*figures.plot(rare).axes)
    assert "ends: means of 30 rounds" in said(*figures.plot(rare, window=30).axes)
    two = [run, dataclasses.replace(run, config=dataclasses.replace(run.config, seeds=SEEDS))]
    assert "2 seeds; lines: means of 100 rounds" in said(*figures.plot(two).axes)
    short = planted(histories[0], "fedadam", [0, 10, 20, 90])  # beside a long one
    assert "FedAdam 90.0" in labels(figures.learning_curves([run, short])[0].axes[0])
    ended = planted(histories[0], "fedadam", [0, 20])  # where one seed ends the mean does
    assert figures.learning_curves([short, ended])[1]["mean"].tolist() == [0, 15]


def test_a_smoothed_line_does_not_lag_behind_a_rising_curve(histories):
    """Of a straight curve it is the curve itself, until the window stays at the last rounds."""
    run = planted(histories[0], "fedavg", [k / 4 for k in range(301)])
    data = figures.learning_curves([run])[1]
    before = data["round"] < 3000 - run.window() / 2
    np.testing.assert_allclose(data["line"][before], data["mean"][before], rtol=1e-9)
    two = [planted(histories[k], "fedavg", [k + j % 3 for j in range(301)]) for k in (0, 1)]
    data = figures.learning_curves(two)[1]
    assert np.allclose(data["spread"].iloc[1:], np.sqrt(0.5))  # of the seeds' lines


def test_only_an_averaged_end_is_dotted(histories):
    """A run that stays at its value has a solid line to its end."""
    run = histories[0]
    flat = planted(run, "fedavg", [10, 20, 30, *[40] * 97])
    wild = planted(run, "fedadam", [10, 20, 30, *[35, 45] * 48, 35])
    (ax,) = figures.learning_curves([flat, wild])[0].axes
    dotted = [line for line in ax.get_lines() if line.get_linewidth() == 0.8]
    assert [line.get_color() for line in dotted] == [style.look("fedadam").color]
    ax.set_xlim(500, 1200)  # the solid line ends there, however the axis is moved
    begins = ax.transData.transform((dotted[0].get_xdata()[0], 0))[0]
    assert lines(ax)["FedAdam"].get_clip_box().x1 == pytest.approx(begins)


def test_lines_that_lie_on_each_other_share_a_label_and_no_two_labels_overlap(histories):
    ends = {"fedavg": 50.0, "fedprox": 50.2, "fedadam": 52.0, "fedyogi": 51.0, "scaffold": 10.0}
    first, runs = histories[0], []
    for name, end in ends.items():
        values = [0, *np.linspace(end / 2, end, 40)]
        runs.append(planted(first, name, values, diverged=7 if end == 10 else None))
    (ax,) = figures.learning_curves(runs, window=1)[0].axes
    shown = "FedAdam 52.0, FedYogi 51.0, FedAvg, FedProx 50.0, 50.2, SCAFFOLD diverged"
    assert ", ".join(labels(ax)) == shown
    heights = sorted(text.get_position()[1] for text in ax.texts if text.get_position()[0] > 1)
    assert np.diff(heights).min() > 0.04 and heights[-1] <= 1
    assert [line.get_marker() for line in ax.get_lines()].count("x") == 1
    many = [planted(histories[0], name, [0, 1, 2]) for name in list(style.LOOKS)[:9]]
    (ax,) = figures.learning_curves(many)[0].axes
    assert not labels(ax) and len(ax.get_legend().get_texts()) == 9


def test_a_curve_that_diverges_far_leaves_a_logarithmic_axis_to_the_others(histories):
    """Matplotlib's ticks overflow near the largest number, and the picture could not be saved."""
    well = planted(histories[0], "fedavg", [50.0, 5.0, 0.5])
    lost = planted(histories[0], "scaffold", [50.0, 1e150, 1e292], diverged=20)
    for runs, bottom, top in (([well, lost], 0.005, 0.05), ([lost], 1e90, 1e99)):
        figure, _ = figures.learning_curves(runs, percent=False, log_y=True, window=1)
        figure.canvas.draw()
        low, high = figure.axes[0].get_ylim()
        assert low < bottom and top < high < 1e120


def test_looks_are_told_apart():
    looks = list(style.LOOKS.values())
    assert len({look.label for look in looks}) == len(looks)
    assert len({(look.color, look.marker, str(look.linestyle)) for look in looks}) == len(looks)
    assert style.look("FedOpt") == style.look("FedOpt")  # of no look of its own
    looks = [(look.color, look.linestyle) for look in style.CLIENT_LOOKS.values()]
    assert len(set(looks)) == len({look.color for look in style.CLIENT_LOOKS.values()}) == 8
