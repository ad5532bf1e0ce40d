"""Every choice for BatchNorm, against torch's own layers; torchvision's networks by rows."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fedlib
from fedlib.models import replace_batch_norm
from tests.engine.reference import assert_rows_agree
from tests.refusals import refused


def test_group_norm_keeps_scale_and_shift():
    old = nn.BatchNorm1d(6)
    nn.init.normal_(old.weight)
    new = replace_batch_norm(old, by="group")
    expected = nn.GroupNorm(2, 6)  # 2 is the largest divisor of 6 and of 32
    expected.load_state_dict({"weight": old.weight, "bias": old.bias})
    x = torch.randn(4, 6, 5)
    assert torch.equal(new(x), expected(x))


def test_batch_statistics_are_torchs_in_training_mode():
    x = torch.randn(5, 4, 3, 3)
    new = replace_batch_norm(nn.BatchNorm2d(4), by="batch").eval()
    torch.testing.assert_close(new(x), nn.BatchNorm2d(4).train()(x))


def test_what_a_choice_does_not_cover_is_one_line():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    refused(r"1 \(BatchNorm1d\).*use by='group'", replace_batch_norm, net, by="running")
    refused("give a module, not its class", replace_batch_norm, nn.Linear, by="group")
    refused("did you mean 'group'", replace_batch_norm, net, by="groups")


@pytest.mark.parametrize(
    ("name", "choice"), [("shufflenet_v2_x0_5", "running"), ("mobilenet_v3_small", "group")]
)
def test_torchvisions_networks_train_alike(name, choice):
    models = pytest.importorskip("torchvision.models")

    def model():
        return replace_batch_norm(getattr(models, name)(num_classes=2), by=choice)

    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    data = fedlib.ClientData(x, torch.tensor([0, 1, 1, 0]), [[0, 1], [2, 3]])
    task = fedlib.Task("images", model, data, data, batch_size=2)
    assert_rows_agree(task, rounds=1, overrides={"client_lr": 0.01})


@pytest.mark.parametrize("width", [3, 8, 32, 64])
def test_of_flat_features_it_is_layer_normalisation(width):
    x = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    new = replace_batch_norm(nn.BatchNorm1d(width), by="group")
    torch.testing.assert_close(new(x), F.layer_norm(x, (width,)))
    assert new(x[:1]).std() > 0.5 and new(torch.randn(2, width, 4)).std() > 0.5


def convolutions(norm, dims):
    conv = {0: nn.Linear, 1: nn.Conv1d, 2: nn.Conv2d}[dims]
    first = (
        conv(4, 8) if dims == 0 else nn.Sequential(nn.Unflatten(1, (1, *[2] * dims)), conv(1, 8, 1))
    )
    return nn.Sequential(first, norm, nn.Flatten(), nn.Linear(8 * 2**dims, 2))


LAYERS = {
    "flat": (lambda **given: nn.BatchNorm1d(8, **given), 0),
    "series": (lambda **given: nn.BatchNorm1d(8, **given), 1),
    "images": (lambda **given: nn.BatchNorm2d(8, **given), 2),
    "synchronised": (lambda **given: nn.SyncBatchNorm(8, **given), 2),
}


@pytest.mark.parametrize("given", [{}, {"track_running_stats": False}, {"momentum": 0.2}], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_what_a_refusal_advises_trains(name, given):
    make, dims = LAYERS[name]
    x = torch.randn(9, max(4 if dims == 0 else 2**dims, 1))
    data = fedlib.ClientData(x, torch.arange(9) % 2, [range(5), range(5, 9)])
    settings = {"clients_per_round": None, "batch_size": 4}  # a last batch of one

    def model():
        return convolutions(make(**given), dims)

    def run(made):
        return fedlib.run(fedlib.Task("m", made, data, data, **settings), "fedavg", rounds=2)

    try:
        run(model)
        advised = []
    except fedlib.Error as error:
        advised = re.findall("by='([a-z]+)'", str(error))
        assert advised
    for by in advised:
        try:
            replace_batch_norm(model(), by)
        except fedlib.Error as error:  # it says which one is right
            assert by != "group" and "use by='group'" in str(error) and given == {"momentum": 0.2}
            continue
        assert run(lambda by=by: replace_batch_norm(model(), by)).diverged is None
