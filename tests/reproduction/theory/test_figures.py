"""Drawings of the theory notebooks 01, 02, 03 and 05: what is drawn is what was given."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

import fedlib
from fedlib.figures import style
from fedlib.reproduction import draw
from fedlib.reproduction.theory import adaptivity, certainty, drift, step_sizes
from fedlib.results import Store


@pytest.fixture
def paths():
    """Three rounds of two clients with two local steps, the server at the mean of their ends."""
    walked = np.random.default_rng(0).standard_normal((3, 2, 3, 2)).cumsum(2)
    walked[1:, :, 0] = walked[:-1, :, -1].mean(1)[:, None]
    walked[0, :, 0] = 0.0
    return walked


def test_local_paths_draws_clients_and_server(paths):
    figure, data = drift.local_paths(paths, optimum=[1.0, 2.0], minimisers=np.eye(2), shown=2)
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    np.testing.assert_array_equal(lines["client 1, local steps"].get_xydata(), paths[0, 1])
    server = np.array([*paths[:, 0, 0], paths[2, :, -1].mean(0)])
    np.testing.assert_array_equal(lines["server, round by round"].get_xydata(), server)
    np.testing.assert_array_equal(lines["minimiser of client 1"].get_xydata(), [[0.0, 1.0]])
    np.testing.assert_array_equal(lines["optimum"].get_xydata(), [[1.0, 2.0]])
    drawn = data[data["path"] == "server"]
    np.testing.assert_array_equal(drawn[["x1", "x2"]], server)
    second = data.query("path == '1' and round == 1")
    np.testing.assert_array_equal(second[["x1", "x2"]], paths[1, 1])
    assert set(data.query("path != 'server'")["round"]) == {0, 1}


def test_levels_are_those_of_the_mean_objective(paths):
    hessian = np.diag([1.0, 4.0])
    figure, _ = drift.local_paths(paths, optimum=[0.5, 0.0], hessian=hessian)
    (contour,) = figure.axes[0].collections
    for level, line in zip(contour.levels, contour.get_paths(), strict=True):
        inside = line.vertices
        values = 0.5 * ((inside - [0.5, 0.0]) ** 2 @ np.diag(hessian))
        np.testing.assert_allclose(values, level, rtol=0.05, atol=0.02)


def test_animation_has_a_frame_per_local_step(paths, tmp_path):
    made = drift.animate_paths({"A": paths, "B": paths}, "theory/moving", root=tmp_path)
    assert made == tmp_path / "theory" / "moving.gif"
    with Image.open(made) as movie:
        assert movie.n_frames == 3 * 3
        assert movie.size == (520, 280)


def test_mistakes_in_paths_are_named(paths, tmp_path):
    with pytest.raises(fedlib.Error, match=r"paths have shape \(2, 3, 2\)"):
        drift.local_paths(paths[0])
    with pytest.raises(fedlib.Error, match="need one shape"):
        drift.animate_paths({"A": paths, "B": paths[1:]}, "theory/moving", root=tmp_path)
    with pytest.raises(fedlib.Error, match="need one shape"):
        drift.animate_paths({}, "theory/moving", root=tmp_path)


def test_drift_size_shows_its_frames():
    ends = pd.DataFrame(
        {
            "client_lr": [0.1, 0.1, 0.5, 0.5],
            "local_steps": [1, 4, 1, 4],
            "clients_from_start": [1.0, 2.0, 3.0, 4.0],
            "clients_from_path": [0.5, 0.6, 0.7, 0.8],
            "mean_from_path": [0.0, 0.2, 1e-16, 0.3],
        }
    )
    distances = ends[["client_lr", "local_steps"]].assign(mu=0.0, distance=[0.0, 0.1, 0.0, 0.4])
    distances.loc[4] = [0.1, 4, 0.3, 0.05]
    figure = drift.drift_size(ends, distances)
    start, path, fixed, spring = figure.axes
    assert [list(line.get_ydata()) for line in start.get_lines()] == [[1, 2], [3, 4]]
    assert [list(line.get_ydata()) for line in fixed.get_lines()] == [[0, 0.1], [0, 0.4]]
    assert list(spring.get_lines()[0].get_ydata()) == [0.05]
    dashed = [line.get_ydata() for line in path.get_lines() if line.get_linestyle() == "--"]
    np.testing.assert_array_equal(dashed, [[np.nan, 0.2], [np.nan, 0.3]])
    assert [text.get_text() for text in start.get_legend().get_texts()][1] == "$\\eta_l$ = 0.5"


def test_drift_corrected_is_in_the_catalogue_and_draws_the_squared_gradient(tmp_path):
    A = np.array([np.diag([1.0, 0.1]), np.diag([0.2, 1.0])])
    task = fedlib.quadratic_task(A, np.eye(2), name="client_drift", test="gradient")
    store = Store(tmp_path / "runs", published=[])
    requests = [{"algorithm": name} for name in ("fedavg", "mime")]
    runs = store.runs(task, requests, rounds=5, dtype="float64")
    drawn = draw.draw("theory/drift_corrected", runs, store=store)
    assert isinstance(drawn.figure, Figure) and drawn.figure.axes[0].get_yscale() == "log"
    mime = drawn.data.query("algorithm == 'mime'")["mean"]
    np.testing.assert_array_equal(mime, runs[1].series("squared_gradient"))
    assert draw.redraw(["theory/drift_corrected"], store=store) == [drawn.path]


def quadratic_runs(name, rounds=3, **values):
    """FedAvg and FedAdam on two equal quadratics in one dimension, from 1 towards 0."""
    task = fedlib.quadratic_task([[[1.0]]] * 2, [[0.0]] * 2, x0=[1.0], name=name)
    overrides = {"client_lr": 0.5, "local_steps": 1, **values}
    return [
        fedlib.run(task, algorithm, rounds=rounds, dtype="float64", overrides=overrides)
        for algorithm in ("fedavg", "fedadam")
    ]


def test_server_adaptivity_has_a_panel_for_each_problem_that_was_run():
    sparse, dense = quadratic_runs("sparse_features"), quadratic_runs("dense_features")
    figure, data = adaptivity.server_adaptivity([*dense, *sparse])
    assert [ax.get_title() for ax in figure.axes] == list(adaptivity.PANELS.values())
    assert list(data["task"].unique()) == ["sparse_features", "dense_features"]
    drawn = {line.get_label(): line for line in figure.axes[0].get_lines()}
    losses = drawn[style.look("fedavg").label].get_ydata()
    np.testing.assert_allclose(losses, sparse[0].series("loss"), rtol=1e-12)
    np.testing.assert_allclose(losses, 0.5 * 0.25 ** np.arange(4), rtol=1e-12)
    assert len(adaptivity.server_adaptivity(dense)[0].axes) == 1
    with pytest.raises(fedlib.Error, match="give runs of sparse_features or dense_features"):
        adaptivity.server_adaptivity(quadratic_runs("other"))


def test_convergence_rates_are_those_of_the_path():
    run = quadratic_runs("noisy_quadratics")[0]
    table = adaptivity.convergence_rates([run])
    row = table.iloc[0]
    assert (row["clients"], row["local_steps"], row["rounds"], row["work"]) == (2, 1, 3, 6)
    # x halves in every round, and the gradient is x; the last point does not count.
    np.testing.assert_allclose(row["mean"], (1 + 1 / 4 + 1 / 16) / 3, rtol=1e-12)
    np.testing.assert_allclose(row["least"], 1 / 16, rtol=1e-12)


def test_convergence_rates_need_every_round_and_equal_steps():
    task = fedlib.quadratic_task([[[1.0]]] * 2, [[0.0]] * 2, x0=[1.0])
    rare = fedlib.run(task, "fedavg", rounds=4, eval_every=2, overrides={"local_steps": 1})
    uneven = fedlib.run(task, "fedavg", rounds=2, overrides={"local_steps": [1, 2]})
    for run in (rare, uneven):
        with pytest.raises(fedlib.Error, match="evaluation per round and one number"):
            adaptivity.convergence_rates([run])


def test_fedopt_rate_draws_every_run_under_the_line():
    runs = [run for T in (2, 8) for run in quadratic_runs("noisy_quadratics", rounds=T)]
    figure, data = adaptivity.fedopt_rate(runs)
    assert len(data) == 4
    for ax, column in zip(figure.axes, ("mean", "least"), strict=True):
        line = next(line for line in ax.get_lines() if line.get_label() == "slope -1/2")
        work, bound = line.get_xdata(), line.get_ydata()
        np.testing.assert_allclose(np.diff(np.log(bound)) / np.diff(np.log(work)), -0.5)
        above = bound[0] * np.sqrt(work[0] / data["work"])
        assert (data[column] <= above * (1 + 1e-12)).all()
    with pytest.raises(fedlib.Error, match="no runs to draw"):
        adaptivity.fedopt_rate([])


def test_degree_of_adaptivity_divides_by_the_root():
    degree = pd.DataFrame({"a_b": [0.1, 0.2]}, index=[1e-3, 1.0])
    memory = pd.DataFrame({"fedadam": [4.0, 9.0], "signal": [1.0, 1.0]})
    figure = adaptivity.degree_of_adaptivity(degree, pd.Series({"a_b": 0.3}), memory)
    left, right = figure.axes
    assert [list(line.get_ydata()) for line in left.get_lines()] == [[0.1, 0.2], [0.3, 0.3]]
    assert [list(line.get_ydata()) for line in right.get_lines()] == [[2.0, 3.0], [1.0, 1.0]]
    assert left.get_lines()[0].get_label() == "a b"


def test_step_sizes_draws_both_conditions_and_the_step():
    path = pd.DataFrame({"local": [np.inf, 0.1], "growth": [0.2, 0.21], "eta": [0.2, 0.1]})
    figure = step_sizes.step_sizes({"one": path, "two": path})
    assert [ax.get_title() for ax in figure.axes] == ["one", "two"]
    drawn = [list(line.get_ydata()) for line in figure.axes[1].get_lines()]
    assert drawn == [[np.inf, 0.1], [0.2, 0.21], [0.2, 0.1]]
    low, high = figure.axes[0].get_ylim()
    assert low < 0.1 and 0.21 < high < np.inf


def test_step_sizes_names_the_missing_column():
    with pytest.raises(fedlib.Error, match="'one' have no column 'growth'"):
        step_sizes.step_sizes({"one": pd.DataFrame({"local": [1.0], "eta": [1.0]})})
    with pytest.raises(fedlib.Error, match="no step sizes"):
        step_sizes.step_sizes({})


def test_auto_tuned_cuts_what_diverged_and_leaves_the_floor_zero_out():
    by_scale = pd.DataFrame({"SGD": [0.1, np.inf]}, index=pd.Index([1.0, 10.0], name="scale"))
    by_floor = pd.DataFrame({"SPS": [0.0, 0.5]}, index=pd.Index([0.0, 1.0], name="floor"))
    values = {"shared": np.array([[2.0, 4.0], [1.0, 2.0]])}
    left, middle, right = step_sizes.auto_tuned(by_scale, by_floor, values).axes
    assert list(left.get_lines()[0].get_ydata()) == [0.1, 1e3]
    assert list(middle.get_lines()[0].get_xdata()) == [1.0]
    assert list(right.get_lines()[0].get_ydata()) == [1.0, 0.5]
    assert (left.get_xlabel(), middle.get_xlabel()) == ("scale", "floor")


def test_accumulated_counts_gradients():
    losses = pd.DataFrame({1: [1.0, 0.5, 0.2], 5: [1.0, 0.4, 0.1]})
    left, right = certainty.accumulated(losses).axes
    assert [line.get_label() for line in left.get_lines()] == ["Adam (N = 1)", "N = 5"]
    assert list(right.get_lines()[1].get_xdata()) == [5, 10]
    assert list(right.get_lines()[1].get_ydata()) == [0.4, 0.1]


def test_fairness_and_certainty_names_the_alphas():
    bias = pd.DataFrame({"fedavg": [0.3, 0.2]}, index=[0.01, 0.1])
    grown = pd.DataFrame({0.1: [1.0, 1.6]}, index=[1, 2])
    exchange = pd.DataFrame(
        {
            "algorithm": ["adafedadam", "adafedadam", "fedavg"],
            "alpha": [0.0, 2.0, np.nan],
            "error": [0.1, 0.2, 0.3],
            "error_rsd": [1.5, 1.0, 0.5],
        }
    )
    left, middle, right = certainty.fairness_and_certainty(bias, grown, exchange).axes
    assert list(left.get_lines()[0].get_ydata()) == [0.3, 0.2]
    assert list(middle.get_lines()[0].get_ydata()) == [1.0, 1.6]
    assert [text.get_text() for text in right.texts] == ["0", "2"]
    assert [line.get_label() for line in right.get_lines()] == ["AdaFedAdam", "FedAvg"]
