"""Figures of client drift: they show the paths and numbers that they are given."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from PIL import Image

import fedlib
from fedlib import figures
from fedlib.reproduction.theory import drift
from fedlib.results import Store


@pytest.fixture
def paths():
    """Three rounds of two clients with two local steps, the server at the mean of their ends."""
    draw = np.random.default_rng(0)
    walked = draw.standard_normal((3, 2, 3, 2)).cumsum(2)
    walked[1:, :, 0] = walked[:-1, :, -1].mean(1)[:, None]
    walked[0, :, 0] = 0.0
    return walked


def test_local_paths_draws_clients_and_server(paths):
    figure, data = figures.local_paths(paths, optimum=[1.0, 2.0], minimisers=np.eye(2), shown=2)
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    np.testing.assert_array_equal(lines["client 1, local steps"].get_xydata(), paths[0, 1])
    server = np.array([*paths[:, 0, 0], paths[2, :, -1].mean(0)])
    np.testing.assert_array_equal(lines["server, round by round"].get_xydata(), server)
    np.testing.assert_array_equal(lines["minimiser of client 1"].get_xydata(), [[0.0, 1.0]])
    np.testing.assert_array_equal(lines["optimum"].get_xydata(), [[1.0, 2.0]])
    drawn = data[data["path"] == "server"]
    np.testing.assert_array_equal(drawn[["x1", "x2"]], server)
    own = data.query("path == '1' and round == 1")
    np.testing.assert_array_equal(own[["x1", "x2"]], paths[1, 1])
    assert set(data.query("path != 'server'")["round"]) == {0, 1}


def test_levels_are_those_of_the_mean_objective(paths):
    hessian = np.diag([1.0, 4.0])
    figure, _ = figures.local_paths(paths, optimum=[0.5, 0.0], hessian=hessian)
    (contour,) = figure.axes[0].collections
    for level, line in zip(contour.levels, contour.get_paths(), strict=True):
        inside = line.vertices
        values = 0.5 * ((inside - [0.5, 0.0]) ** 2 @ np.diag(hessian))
        np.testing.assert_allclose(values, level, rtol=0.05, atol=0.02)


def test_animation_has_a_frame_per_local_step(paths, tmp_path):
    made = figures.animate_paths({"A": paths, "B": paths}, "theory/moving", root=tmp_path)
    assert made == tmp_path / "theory" / "moving.gif"
    with Image.open(made) as movie:
        assert movie.n_frames == 3 * 3
        assert movie.size == (520, 280)


def test_mistakes_in_paths_are_named(paths, tmp_path):
    with pytest.raises(fedlib.Error, match=r"paths have shape \(2, 3, 2\)"):
        figures.local_paths(paths[0])
    with pytest.raises(fedlib.Error, match="need one shape"):
        figures.animate_paths({"A": paths, "B": paths[1:]}, "theory/moving", root=tmp_path)
    with pytest.raises(fedlib.Error, match="need one shape"):
        figures.animate_paths({}, "theory/moving", root=tmp_path)


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
    rests = ends[["client_lr", "local_steps"]].assign(mu=0.0, distance=[0.0, 0.1, 0.0, 0.4])
    rests.loc[4] = [0.1, 4, 0.3, 0.05]
    figure = figures.drift_size(ends, rests)
    start, path, rest, spring = figure.axes
    assert [list(line.get_ydata()) for line in start.get_lines()] == [[1, 2], [3, 4]]
    assert [list(line.get_ydata()) for line in rest.get_lines()] == [[0, 0.1], [0, 0.4]]
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
    drawn = figures.draw("theory/drift_corrected", runs, store=store)
    assert isinstance(drawn.figure, Figure) and drawn.figure.axes[0].get_yscale() == "log"
    mime = drawn.data.query("algorithm == 'mime'")["mean"]
    np.testing.assert_array_equal(mime, runs[1].series("squared_gradient"))
    assert figures.redraw(["theory/drift_corrected"], store=store) == [drawn.path]


def test_server_path_needs_no_more_than_the_clients_ends(paths):
    assert drift.server_path(paths).shape == (4, 2)
    np.testing.assert_allclose(drift.server_path(paths)[1], paths[0, :, -1].mean(0))
