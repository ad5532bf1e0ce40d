"""AdaFedAdam's figures: the method against the library, densities and fronts against arithmetic."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fedlib
from fedlib.figures import style
from fedlib.reproduction.adafedadam import figures, method
from fedlib.results.files import describe
from tests.figures.conftest import as_task
from tests.refusals import refused

FIVE = ("fedavg", "fedadam", "qfedavg", "fednova", "adafedadam")


@pytest.fixture(scope="module")
def histories(synthetic):
    """With what the store notes of a run's task."""
    made = [fedlib.run(synthetic, name, rounds=2) for name in FIVE]
    return [
        replace(history, meta={**history.meta, **describe(synthetic, history)}) for history in made
    ]


# ------------------------------------------------------------------------------- Figure 1


def server(algorithm, rounds, **values):
    """Where fedlib's server is, [2]."""
    b = np.einsum("kij,kj->ki", method.CURVATURES, method.MINIMISERS)
    task = fedlib.quadratic_task(method.CURVATURES, b, list(method.SHARES), list(method.START))
    overrides = {
        **{"client_lr": method.CLIENT_LR, "local_steps": method.STEPS},
        **{"server_lr": method.SERVER_LR, "beta1": method.BETAS[0], "beta2": method.BETAS[1]},
        **values,
    }
    settings = {"rounds": rounds, "overrides": overrides, "dtype": "float64"}
    return fedlib.run(task, algorithm, eval_every=rounds, **settings).params["x"].numpy()


@pytest.mark.parametrize(
    ("algorithm", "values"), [("adafedadam", {"alpha": 0.0}), ("fedadam", {"tau": 1e-8})]
)
def test_the_drawn_servers_are_the_librarys(algorithm, values):
    walked = method.server_path(algorithm)
    for rounds in (1, 25):
        np.testing.assert_allclose(walked[rounds], server(algorithm, rounds, **values), atol=1e-6)


# ------------------------------------------------------------------------------- Figure 2


def test_a_density_is_one_and_sits_where_the_clients_are(histories):
    figure, data = figures.client_density(histories[:1])
    values = 100 * histories[0].clients.query("metric == 'accuracy' and examples > 0")["value"]
    at, density = data["value"].to_numpy(), data["density"].to_numpy()
    assert np.trapezoid(density, at) == pytest.approx(1, abs=1e-3)

    def bell(x):
        return np.exp(-(x**2) / 50) / np.sqrt(50 * np.pi)

    x = 37.5
    expected = np.mean([bell(x - v) + bell(x + v) + bell(200 - v - x) for v in values])
    assert density[at == x][0] == pytest.approx(expected)
    np.testing.assert_array_equal(figure.axes[0].get_lines()[0].get_ydata(), density)
    # The clients' values of a run that diverged are those of an earlier round.
    lost = replace(histories[1], meta={**histories[1].meta, "diverged": 3})
    assert figures.client_density([lost, histories[0]])[1].equals(data)
    refused("no runs to draw", figures.client_density, [lost])


def test_figure_2_has_printed_values_beside_runs_at_the_papers_settings(histories):
    full = [as_task(history, preset="paper", options={"clients": 100}) for history in histories]
    left, middle, _ = figures.adafedadam_figure_2(full)[0].axes
    for ax, printed in ((left, "93.0"), (middle, "83.2")):
        color = style.ink(style.look("fednova").color)
        (label,) = [t.get_text() for t in ax.texts if t.get_color() == color]
        assert printed in label.split("[")[1]
    few = [as_task(history, preset="paper") for history in histories]  # on 10 of 100 clients
    left = figures.adafedadam_figure_2(few)[0].axes[0]
    assert not any("[" in t.get_text() for t in left.texts)


# ------------------------------------------------------------------------------- Figure 3


def made(history, error, rsd, alpha=None):
    """A history whose last evaluations have this error and RSD."""
    frame = history.frame.copy()
    for metric, value in (("accuracy", 1 - error), ("accuracy_std_weighted", rsd * error)):
        frame.loc[(frame["metric"] == metric) & (frame["split"] == "test"), "value"] = value
    config = history.config
    if alpha is not None:
        config = replace(config, method={**config.method, "alpha": alpha})
    return replace(history, frame=frame, config=config)


@pytest.fixture
def front(histories):
    """AdaFedAdam at (10 %, 2) and (20 %, 1); others behind, at the edge, and before the front."""
    by = dict(zip(FIVE, histories, strict=True))
    return [
        made(by["adafedadam"], 0.1, 2.0, alpha=1.0),
        made(by["adafedadam"], 0.2, 1.0, alpha=4.0),
        made(by["fedavg"], 0.3, 1.5),
        made(by["fednova"], 0.2, 1.0),
        made(by["fedadam"], 0.15, 1.5),
        made(by["qfedavg"], 0.12, 2.1),
    ]


def test_what_a_front_dominates(front):
    table = figures.tradeoff(front).set_index("algorithm")
    np.testing.assert_allclose(table.loc["adafedadam", "error"], [10, 20])
    np.testing.assert_allclose(table.loc["adafedadam", "rsd"], [2, 1])
    assert list(table.loc["adafedadam", "setting"]) == [1, 4]
    dominated = table["dominated"].drop("adafedadam").to_dict()
    assert dominated == {"fedavg": True, "fednova": False, "fedadam": False, "qfedavg": True}
    # Table 5's 92.97 and 8.06.
    assert table.loc["fednova", "printed_error"] == pytest.approx(7.03)
    assert table.loc["fednova", "printed_rsd"] == pytest.approx(8.06 / 7.03)


def test_figure_3s_titles_hold_in_the_runs(front):
    def titles(runs):
        return [ax.get_title("left") for ax in figures.adafedadam_figure_3(runs)[0].axes[:2]]

    assert titles(front) == ["2 of 4 others are dominated", "A larger α buys fairness with error"]
    better = [front[0], made(front[1], 0.2, 2.5), front[5]]  # a larger alpha is worse in both
    assert titles(better) == ["Every other method is dominated", "Error and RSD by α"]
    assert titles(front[:1]) == ["AdaFedAdam's error and RSD", "Error and RSD by α"]


def test_figure_3_is_of_all_local_data_where_all_runs_have_them(front):
    def with_local(history):
        local = history.frame.query("split == 'test'").assign(split="local")
        accuracy = local["metric"] == "accuracy"
        local.loc[accuracy, "value"] = (1 + local.loc[accuracy, "value"]) / 2  # half the error
        return replace(history, frame=pd.concat([history.frame, local]))

    local = [with_local(history) for history in front]
    for runs, errors, words in (
        (local, [5, 10], "all local data"),
        (local[:-1] + front[-1:], [10, 20], "test error"),
    ):
        figure, data = figures.adafedadam_figure_3(runs)
        ours = data.query("panel == 'front' and algorithm == 'adafedadam'")
        np.testing.assert_allclose(ours["error"], errors)
        assert words in figure.axes[0].get_xlabel()


# -------------------------------------------------------------------------------- Table 4


def test_table_4_stands_beside_the_tasks(prepared):
    prepared("femnist")
    _, table = figures.table_4()
    table = table.set_index("setup")
    assert list(table["clients, printed"]) == [3500, 16, 697, 100]
    assert table.loc["Synthetic", ["clients, ours", "training + test examples"]].to_list() == [
        100,
        "6,187 + 2,112",
    ]
    assert table.loc["Synthetic", "model, ours"] == "Softmax, 610 parameters"
    assert table.loc["Femnist", "model, ours"] == "MLP, 108,478 parameters"
    assert table.loc["Femnist", ["clients, ours", "data"]].to_list() == [50, "FEMNIST"]
    assert table.loc["Cifar10", ["clients, ours", "data"]].to_list() == ["", "not prepared"]
