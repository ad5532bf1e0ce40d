"""Delta-SGD's Figure 7: computed without runs, by the rule that the library's clients follow."""

import numpy as np
import pytest
import torch

import fedlib
from fedlib import figures
from fedlib.reproduction.delta_sgd import step_size_paths
from fedlib.results import Store


@pytest.fixture(scope="module")
def paths():
    return step_size_paths.softmax_paths()


def test_the_step_is_the_lower_condition(paths):
    assert {title: len(path) for title, path in paths.items()} == {
        "full gradients": 100,
        "federated, in batches": 300,
    }
    for path in paths.values():
        np.testing.assert_allclose(path["eta"], path[["local", "growth"]].min(axis=1), atol=2e-8)
        share = (path["growth"] < path["local"]).mean()
        assert 0.4 < share < 0.95, "either condition binds"


def test_every_round_starts_anew(paths):
    first = paths["federated, in batches"].iloc[::10]
    np.testing.assert_allclose(first["eta"], 0.2 * np.sqrt(1.1))
    assert np.isinf(first["local"]).all()


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


def test_the_gradient_is_autograds():
    draw = torch.Generator().manual_seed(3)
    w = torch.randn(4, 6, generator=draw, dtype=torch.float64, requires_grad=True)
    x = torch.randn(9, 6, generator=draw, dtype=torch.float64)
    y = torch.randint(4, (9,), generator=draw)
    (expected,) = torch.autograd.grad(torch.nn.functional.cross_entropy(x @ w.T, y), w)
    ours = step_size_paths.cross_entropy_gradient(w.detach(), x, y)
    torch.testing.assert_close(ours, expected)


def test_the_catalogue_draws_it_from_an_empty_store(tmp_path):
    store = Store(tmp_path / "runs", published=())
    drawn = figures.draw("delta_sgd/figure_7", store=store, root=tmp_path / "figures")
    assert [ax.get_title() for ax in drawn.figure.axes] == drawn.data["panel"].unique().tolist()
    assert list(drawn.data) == ["panel", "step", "local", "growth", "eta"]
    (redrawn,) = figures.redraw(["delta_sgd/figure_7"], store=store, root=tmp_path / "figures")
    assert redrawn == drawn.path and redrawn.is_file()
