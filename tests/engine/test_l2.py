"""The task's L2 term: added to the training objective of weights, not to the reported loss."""

import dataclasses

import pytest
from torch import nn

import fedlib
from fedlib.engine import configure
from tests.engine.reference import assert_rows_agree
from tests.engine.test_running_statistics import SETTINGS, task


def ordinary():
    """Layers for torch.func.vmap."""
    layers = nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    return nn.Sequential(*layers, nn.Linear(4, 2))


def test_the_reported_loss_is_without_it():
    """With learning rate 0 the model never moves."""
    losses = [
        fedlib.run(task(l2=l2), "fedavg", overrides={"client_lr": 0}, **SETTINGS).series(
            "loss", "train"
        )
        for l2 in (0.0, 0.5)
    ]
    assert losses[0].equals(losses[1])


@pytest.mark.parametrize(
    ("algorithm", "overrides"),
    [("mime", {}), ("adafedadam", {}), ("qfedavg", {}), ("fedavg", {"client_optimizer": "sps"})],
)
@pytest.mark.parametrize(("model", "reduction"), [(None, "mean"), (None, "sum"), (ordinary, "sum")])
def test_backends_agree_in_short_batches(algorithm, overrides, model, reduction):
    problem = task(batch_size=4, l2=0.03, reduction=reduction)
    problem = dataclasses.replace(problem, model=model or problem.model)
    assert_rows_agree(problem, algorithm, overrides=overrides, **SETTINGS)


def test_it_is_part_of_a_run_and_off_by_default():
    digests = [configure(task(l2=l2), "fedavg")[0].digest for l2 in (0.0, 0.1, 0.2)]
    assert len(set(digests)) == 3
    small = {"clients": 4, "test_clients": 1, "width": 1 / 32}
    usual, weighed = (fedlib.load_task("cifar10", **small, **o) for o in ({}, {"l2": 1e-4}))
    assert usual.l2 == usual.options["l2"] == 0.0
    assert weighed.l2 == weighed.options["l2"] == 1e-4
    with pytest.raises(fedlib.Error, match="l2 is -1"):
        task(l2=-1.0)
