import numpy as np
import pytest
import torch

import fedlib
from fedlib import randomness
from fedlib.datasets import CATALOGUE
from fedlib.tasks import PRESETS, defaults, images
from tests.refusals import refused


@pytest.mark.parametrize("share", [0.6, 0.8])
def test_synthetic_is_the_papers_population(share):
    task = fedlib.load_task("synthetic", preset="paper", train_share=share)
    sizes = task.evaluated["local"].sizes
    assert len(task.train) == 100 and sizes.sum() == 10376 and np.median(sizes) == 23
    assert (task.train.sizes == (share * sizes).astype(int)).all()
    assert (task.test.sizes == sizes - (0.8 * sizes).astype(int)).all()
    assert not set(task.train.index.tolist()) & set(task.test.index.tolist())
    settings = (task.rounds, task.batch_size, task.local_epochs, task.clients_per_round)
    assert settings == (1000, 10, 1, None)
    assert sum(p.numel() for p in task.model().parameters()) == 610
    message = r"train_share is 0.9 .allowed: in \(0, 0.8\]"
    refused(message, fedlib.load_task, "synthetic", train_share=0.9)


@pytest.mark.parametrize(
    ("name", "before"),
    [("synthetic", "keras"), ("fair_femnist", "keras"), ("fair_cifar10", "fednova")],
)
def test_initial_values_are_part_of_a_task(name, before, prepared):
    prepared("femnist", "cifar10")
    assert fedlib.load_task(name, preset="paper").options["init"] == "torch"
    small = {"preset": "paper", "width": 1 / 32} if name == "fair_cifar10" else {}
    models = []
    for init in ("torch", before):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            models.append(fedlib.load_task(name, init=init, **small).model())
    first = [next(iter(model.parameters())) for model in models]
    assert not torch.equal(*first)


def test_the_catalogue_says_which_tasks_use_a_data_set():
    assert {task for entry in CATALOGUE.values() for task in entry.tasks} <= {*fedlib.list_tasks()}
    for name in fedlib.list_tasks():
        for preset in PRESETS:
            data = defaults(name, preset).get("data")
            assert not data or name in CATALOGUE[data].tasks, (name, preset)


@pytest.mark.parametrize("name", [n for n in fedlib.list_tasks() if "data" in defaults(n)])
def test_without_its_data_a_task_says_which_and_how_to_get_them(name):
    """A stand-in would look like a result of the paper's."""
    for preset in ("laptop", "paper"):
        ways = rf"prepare \1\w*' \(about .*, or all .* 'fedlib data prepare --preset {preset}'"
        line = rf"^task {name}, preset {preset}: data set '(\w+)' .* not prepared: .*'fedlib data "
        refused(line + ways, fedlib.load_task, name, preset)
    said = "^task cifar10, preset paper: data set 'cifar100' "
    refused(said, fedlib.load_task, "cifar10", "paper", data="cifar100")
    built_in = {"data": "first_digits", "clients": 9, "test_clients": 5, "network": "mlp"}
    assert fedlib.load_task("cifar10", "paper", **built_in).stand_in
    said = "data set 'cifar10' .* is not prepared"
    refused(said, fedlib.load_task, "cifar10", "quick", data="cifar10")


def test_cifar10_partition_and_settings(prepared):
    prepared("cifar10")
    task = fedlib.load_task("cifar10", "paper", clients=20, examples_per_client=30, test_clients=6)
    parts = task.train.index.view(20, 30)
    draw = randomness.key(0, "train") % 2**31
    expected = fedlib.partition.dirichlet(task.train.y.numpy(), 20, 0.1, 30, draw)
    assert parts.tolist() == [part.tolist() for part in expected]
    assert task.test.sizes.tolist() == [100] * 6
    values = task.hyperparameters["fedadam"]
    assert values == pytest.approx({"client_lr": 10**-1.5, "server_lr": 0.01, "tau": 0.001})
    assert "tau" not in task.hyperparameters["fedavg"]
    assert task.hyperparameters["scaffold"] == task.hyperparameters["fedavg"]


def test_random_crop_and_flip_take_every_window_by_key_alone():
    x = torch.arange(32 * 32 * 3).view(1, 1, 32, 32, 3).expand(1, 4000, 32, 32, 3)
    keys = randomness.bits(torch.tensor([7]), 4000)
    out = images.random_crop_flip(x, 24, keys)
    assert out.shape == (1, 4000, 24, 24, 3)
    windows = {}
    for image in out[0]:
        first, last = int(image[0, 0, 0]) // 3, int(image[0, -1, 0]) // 3
        flipped = last < first
        top, left = divmod(min(first, last), 32)
        expected = x[0, 0, top : top + 24, left : left + 24]
        assert torch.equal(image, expected.flip(1) if flipped else expected)
        windows[(top, left, flipped)] = windows.get((top, left, flipped), 0) + 1
    assert len(windows) == 162
    assert max(windows.values()) < 25 + 6 * 5
    one = images.random_crop_flip(x[:, 5:6], 24, keys[:, 5:6])
    assert torch.equal(one[0, 0], out[0, 5])


def test_standardize_is_per_image_with_a_floor():
    x = torch.randint(0, 256, (3, 24, 24, 3), dtype=torch.uint8)
    x[2] = 7
    out = images.standardize(x)
    numbers = x[:2].double().numpy()
    axes = (1, 2, 3)
    expected = (numbers - numbers.mean(axes, keepdims=True)) / numbers.std(axes, keepdims=True)
    assert np.allclose(out[:2], expected, atol=1e-4)
    assert torch.equal(out[2], torch.zeros(24, 24, 3))
    assert torch.equal(images.centre_crop(x, 20), x[:, 2:22, 2:22])
    assert images.channels_first(x).shape == (3, 3, 24, 24)
