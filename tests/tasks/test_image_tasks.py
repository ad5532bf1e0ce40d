"""Image tasks: the papers' settings, partitions, transforms, and the same run on both backends."""

from functools import partial

import numpy as np
import pytest
import torch

import fedlib
from fedlib import datasets, papers, partition, randomness
from fedlib.tasks import images, settings
from tests import copies
from tests.refusals import refused

# ------------------------------------------------------------------------------- papers' settings


@pytest.fixture
def root(own_folders, prepared):
    """Small prepared copies of the data sets, all with the real ones' shapes."""
    prepared()
    return own_folders


# rounds, clients a round, batch size, local epochs; parameters of the network; reduced data.
PAPER = {
    "cifar10": ((4000, 10, 20, 1), 11_181_642, {"clients": 6, "test_clients": 2}),
    "cifar100": ((4000, 10, 20, 1), 11_227_812, {"clients": 6, "test_clients": 2}),
    "emnist_cr": ((1500, 10, 20, 1), 1_206_590, {}),
    "emnist_ae": ((3000, 10, 20, 1), 2_837_314, {}),
    "emnist_logistic": ((1000, 20, 20, 1), 48_670, {}),
    "emnist_mlp": ((1000, 20, 20, 10), 271_862, {}),
    "fair_femnist": ((500, None, 10, 1), 108_478, {}),
    "fair_cifar10": ((200, None, 32, 1), 9_750_922, {}),
    "mnist": ((500, 10, 64, 1), 21_840, {}),
    "fashion_mnist": ((1000, 10, 64, 1), 21_840, {}),
    "cifar10_resnet18": ((2000, 10, 64, 1), 11_173_962, {}),
    "cifar100_resnet18": ((2000, 10, 64, 1), 11_220_132, {}),
    "cifar100_resnet50": ((2000, 10, 64, 1), 23_705_252, {}),
}


def test_the_papers_settings_and_networks(root):
    for name, (numbers, parameters, reduced) in PAPER.items():
        task = fedlib.load_task(name, preset="paper", **reduced)
        own = (task.rounds, task.clients_per_round, task.batch_size, task.local_epochs)
        assert own == numbers, name
        assert sum(p.numel() for p in task.model().parameters()) == parameters, name
        assert not task.stand_in and task.fingerprint, name
        assert task.options.get("width", 1.0) == 1.0, name
    assert len(fedlib.load_task("fair_cifar10", preset="paper").train) == 16
    for name in ("mnist", "fashion_mnist", "cifar10_resnet18", "cifar100_resnet50"):
        delta = fedlib.load_task(name, preset="paper")
        assert len(delta.train) == 100
        assert (delta.train.sizes == 450).all() or "100" in name  # of 100 classes one too many
        assert len(delta.test) == 1 and delta.test.index.tolist() == list(range(600))


def test_adafedadams_values():
    for label, lr in (("Femnist", 0.01), ("Cifar10", 0.02), ("Sent140", 0.3), ("Synthetic", 0.01)):
        values = settings.adafedadam(label)
        assert {v["client_lr"] for v in values.values()} == {lr}
    adam = {"server_lr": 0.001, "beta1": 0.9, "beta2": 0.999}
    assert values["fedavg"]["server_lr"] == 1 and values["fedadam"].items() >= adam.items()
    assert values["adafedadam"].items() >= {**adam, "alpha": 1.0}.items()
    assert values["qfedavg"].items() >= {"q": 1.0, "L": 1.0}.items()


def test_mimes_values():
    for label in (*papers.table("mime", "table2_accuracy")["dataset"].unique(), "EMNIST MLP"):
        values = settings.mime(label)
        assert values["fedavg"]["server_lr"] == 1 and values["fedprox"]["mu"] == 0.1
        # (1 - beta) g + beta m at rate 1 is g + beta m at rate 1 - beta
        momentum = values["fedavgm"]
        assert momentum["server_lr"] == pytest.approx(1 - momentum["momentum"])
        assert values["mime"]["client_lr"] == settings.MIME_CLIENT_LR[label]["momentum"]
        assert values["mime"]["base"] == "momentum"
        assert set(settings.MIME_CLIENT_LR[label]) == {"sgd", "momentum", "adam", "adagrad"}


def test_delta_sgds_values():
    clients, values = settings.delta_sgd_clients(), settings.delta_sgd()
    rates = {name: own.get("client_lr") for name, own in clients.items()}
    assert rates.pop("sps") is None is rates.pop("delta_sgd")
    assert rates == {"sgd": 0.1, "sgdm": 0.1, "adam": 1e-3, "adagrad": 1e-2}
    assert clients["delta_sgd"] == {"delta": 0.1, "gamma": 2.0, "eta0": 0.2, "theta0": 1.0}
    assert values["fedprox"]["mu"] == 0.01
    assert values["moon"].items() >= {"mu": 1.0, "temperature": 0.5}.items()
    task = fedlib.load_task("mnist", network="paper")
    assert task.client_hyperparameters == clients and task.hyperparameters == values
    small = fedlib.load_task("mnist").hyperparameters
    assert small == {**values, "fedadam": {**values["fedadam"], "server_lr": 0.03}}


# --------------------------------------------------------------------------------------- partitions


def test_cifar100_is_a_pachinko_allocation(root):
    task = fedlib.load_task("cifar100", "paper", clients=9, examples_per_client=40, test_clients=5)
    fine = task.train.y.numpy()
    for split, clients, examples in (("train", 9, 40), ("test", 5, 100)):
        data, draw = getattr(task, split), randomness.key(0, split) % 2**31
        parts = partition.pachinko(fine // 5, fine, clients, examples, 0.1, 10.0, draw)
        assert data.index.view(clients, examples).tolist() == [part.tolist() for part in parts]
    assert task.options["alpha"] == 0.1 and task.options["beta"] == 10.0


def test_cifar100_prefers_the_authors_own_clients(own_folders):
    x = np.zeros((60, 32, 32, 3), np.uint8)
    folder = own_folders / "data"
    clients = np.repeat(np.arange(6), 10)
    more = {"train_client": clients, "test_client": clients}
    copies.pictures(folder, "fed_cifar100", x, np.arange(60), **more)
    task = fedlib.load_task("cifar100", "paper", clients=6, test_clients=3)
    assert task.options["data"] == "fed_cifar100" and "alpha" not in task.options
    assert task.train.y[task.train.index[task.train.starts]].tolist() == list(range(0, 60, 10))
    assert (task.test.sizes == 10).all() and len(task.test) == 3
    refused(r"clients is 7 .allowed: 1\.\.6", fedlib.load_task, "cifar100", "paper", clients=7)
    copies.pictures(folder, "mine", x, np.arange(60))
    refused("'mine' has no coarse labels", fedlib.load_task, "cifar100", data="mine")
    refused("data 'mine' are of another kind than its own", fedlib.load_task, "mnist", data="mine")


def test_fair_tasks_split_every_clients_examples(root):
    for name, options in (("fair_femnist", {}), ("fair_cifar10", {"examples": 500})):
        task = fedlib.load_task(name, preset="paper", **options)
        both = [set(data.index.tolist()) for data in (task.train, task.test)]
        assert not both[0] & both[1]
        sizes = task.train.sizes + task.test.sizes
        assert (task.test.sizes == [round(0.2 * n) for n in sizes]).all()
        # Femnist: what comes as training or test examples of a writer, 24 in all.
        assert len(both[0] | both[1]) == sizes.sum() == (1200 if name == "fair_femnist" else 500)
        assert len(task.train.ids) == (50 if name == "fair_femnist" else 16)
        assert task.clients_per_round is None
    writers = fedlib.load_task("fair_femnist", preset="paper")
    assert (writers.train.sizes + writers.test.sizes == 24).all()


def test_the_small_networks_of_the_fair_tasks_see_grey_pixels(prepared):
    silos, writers = fedlib.load_task("fair_cifar10"), fedlib.load_task("fair_femnist")
    assert silos.options["network"] == "mlp" and writers.options["pool"] == 2
    assert {values["client_lr"] for values in silos.hyperparameters.values()} == {0.04}
    x = silos.transform(silos.train.x[:3], None)
    np.testing.assert_allclose(x, silos.train.x[:3].flatten(1).numpy() / 255, rtol=1e-6)
    assert sum(p.numel() for p in silos.model().parameters()) == 128 * 32 + 32 + 32 * 10 + 10
    x = writers.train.x[:3]
    squares = x.numpy().reshape(3, 14, 2, 14, 2).mean((2, 4)) / 255
    np.testing.assert_allclose(writers.transform(x, None), squares.reshape(3, -1), rtol=1e-5)
    for options in ({"network": "cnn"}, {"network": ""}):
        refused("network", fedlib.load_task, "fair_cifar10", **options)
    refused("pool is 3", fedlib.load_task, "fair_femnist", pool=3)
    prepared("cifar10", "femnist")
    full = fedlib.load_task("fair_cifar10", preset="paper", examples=160)
    assert full.options["network"] == "vgg11"
    assert fedlib.load_task("fair_femnist", preset="paper").options["pool"] == 1


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "cifar10_resnet18"])
def test_auto_tuned_clients(name):
    task = fedlib.load_task(name, clients=20, test_examples=500)
    options = {"clients": 20, "sizes": 100, "alpha": 0.1, "author_split": True}
    assert task.options.items() >= options.items() and "draws" not in task.options
    assert (task.train.sizes == 90).all()
    # One client that holds the whole test set, or a sample of it.
    assert len(task.test) == 1 and len(set(task.test.index.tolist())) == task.test.sizes[0] == 500
    draws, y = [randomness.key(0, purpose) for purpose in ("clients", "sizes")], task.train.y
    varied = partition.uniform_sizes(20, 100, 500, draws[1])
    mixed = fedlib.load_task(name, clients=20, alpha=10.0)
    whole = fedlib.load_task(name, clients=20, sizes="100-500", author_split=False)
    cases = [(task, 0.1, 100, True), (mixed, 10.0, 100, True), (whole, 0.1, varied, False)]
    for made, alpha, sizes, split in cases:
        given = (y.numpy(), 20, alpha, sizes, draws[0])
        parts = partition.dirichlet_overlapping(*given, author_split=split)
        assert made.train.index.tolist() == np.concatenate(parts).tolist()


def test_bad_options(prepared):
    prepared("cifar10")
    resnet = {"name": "cifar10_resnet18", "network": "paper", "data": "cifar10"}
    cases = [
        ({"name": "mnist", "sizes": "100"}, "sizes is '100'.*'100-500'"),
        ({"name": "mnist", "draws": "mine"}, "draws is 'mine' .allowed: 'authors'"),
        ({"name": "mnist", "draws": "authors", "sizes": "5-9"}, "sizes is '5-9'.*one number"),
        ({**resnet, "norm": "layer"}, "unknown norm of ResNet 'layer'"),
        ({"name": "emnist_mlp", "data": "mnist"}, "task emnist_mlp: no writer of 'mnist' is in"),
    ]
    for request, message in cases:
        refused(message, lambda given=request: fedlib.load_task(**given).new_model())


# --------------------------------------------------------------------------------------- transforms


def test_floating_points_are_shares_of_255_or_whole_numbers(root):
    whole, data = fedlib.load_task("fair_femnist", "paper"), datasets.load("femnist")
    owners = {f"{split}_client": data.train_client for split in ("train", "test")}
    x = np.asarray(data.train_x, dtype=np.float32)
    for name, values in {"shares": x / 255, "whole": x, "odd": x - 1}.items():
        copies.pictures(root / "data", name, values, data.train_y, **owners)
    for name in ("shares", "whole"):
        task = fedlib.load_task("fair_femnist", "paper", data=name)
        assert torch.equal(task.train.x, whole.train.x)
    message = "'odd' have points from -1 to 254 .allowed"
    refused(message, fedlib.load_task, "fair_femnist", "paper", data="odd")


def test_each_handwriting_task_has_its_papers_polarity(root):
    backgrounds = {"emnist_cr": 1.0, "fair_femnist": 1.0}
    backgrounds |= dict.fromkeys(("emnist_ae", "emnist_logistic", "emnist_mlp"), 0.0)
    for name, background in backgrounds.items():
        for data in ("femnist", "emnist"):
            task = fedlib.load_task(name, "paper", data=data)
            for part in (task.train, task.test):
                x = task.transform(part.x[:9], None)
                assert x.dtype == torch.float32
                assert x.shape == ((9, 1, 28, 28) if name == "emnist_cr" else (9, 784))
                assert (x.reshape(9, 28, 28)[:, 0] == background).all(), name
                assert ((x >= 0) & (x <= 1)).all()


@pytest.mark.parametrize("name", ["emnist_cr", "emnist_ae"])
def test_the_small_networks_see_means_of_pixels(name):
    few = {"clients": 5, "cap": 7}
    large, small = (fedlib.load_task(name, network=kind, **few) for kind in ("paper", "small"))
    assert (small.train.sizes <= 7).all() and len(small.train) == 5
    x = large.train.x[:4].double().unfold(1, 4, 4).unfold(2, 4, 4).mean((-1, -2))
    x = 255 - x if name == "emnist_cr" else x  # ink is bright for both small networks
    seen, outputs = small.transform(small.train.x[:4], None), 62 if name == "emnist_cr" else 49
    assert seen.shape == (4, 49) and small.model()(seen).shape == (4, outputs)
    expected = x.flatten(1) / 255
    if name == "emnist_cr":
        deviation = expected.std(1, correction=0, keepdim=True)
        expected = (expected - expected.mean(1, keepdim=True)) / deviation
    assert float((seen - expected).abs().max()) < 0.02
    assert (large.options["network"], large.options["cap"]) == ("paper", 7)


def test_the_autoencoders_target_is_its_input():
    task = fedlib.load_task("emnist_ae")
    raw = task.train.x[:6].unsqueeze(0)
    targets = task.train.y[:6].unsqueeze(0)
    x = task.transform(raw, None)
    assert torch.equal(task.loss(x, targets), torch.zeros(1, 6))
    shifted = task.loss(x + 0.5, targets)
    torch.testing.assert_close(shifted, torch.full((1, 6), 0.25))
    torch.testing.assert_close(task.metrics["mse_x1000"](x + 0.5, targets), 1000 * shifted)
    assert task.reduction == "sum"
    assert fedlib.load_task("emnist_ae", reduction="mean").reduction == "mean"


@pytest.mark.usefixtures("root")
@pytest.mark.parametrize("name", ["cifar10_resnet18", "cifar100_resnet18", "fair_cifar10"])
def test_colours_are_shifted_and_scaled_by_channel(name):
    full = {"network": "paper", "data": name.split("_")[0]}
    full = {"preset": "paper", "examples": 160} if name == "fair_cifar10" else full
    task = fedlib.load_task(name, clients=3, width=1 / 32, **full)
    printed = {"cifar100_resnet18": ([0.507, 0.487, 0.441], [0.267, 0.256, 0.276])}.get(
        name, ([0.4914, 0.4822, 0.4465], [0.2023, 0.1994, 0.2010])
    )
    x = task.test.x[:5]
    expected = (x.double().numpy() / 255 - printed[0]) / printed[1]
    got = task.transform(x.unsqueeze(0), None)
    np.testing.assert_allclose(got[0].movedim(1, -1), expected, atol=1e-6)
    keys = randomness.bits(torch.tensor([1]), 5)
    augmented = task.transform(x.unsqueeze(0), keys)
    padded = torch.from_numpy(np.pad(x, ((0, 0), (4, 4), (4, 4), (0, 0))))
    windows = x if name == "fair_cifar10" else images.random_crop_flip(padded, 32, keys[0])
    assert torch.equal(augmented, task.transform(windows.unsqueeze(0), None))
    cropped = fedlib.load_task(name, augment=True, **full) if name == "fair_cifar10" else task
    assert isinstance(cropped.transform, partial) and cropped.transform.keywords["pad"] == 4


def test_small_problems_have_pixels_of_mean_0_and_deviation_1():
    """MNIST's pixels with MNIST's constants, digits with their own; what their networks take."""
    inputs = {"mnist": 49, "fashion_mnist": 49, "cifar10_resnet18": 128}
    for name, features in inputs.items():
        task = fedlib.load_task(name)
        x = task.transform(task.train.x[:500], None)
        assert x.shape == (500, features) and task.model()(x).shape == (500, 10)
        # The strokes of pooled digits are wide: brighter than MNIST's.
        assert abs(float(x.mean())) < 0.5 and 0.7 < float(x.std()) < 1.4, name
    spots = torch.zeros(1, 28, 28, dtype=torch.uint8)
    spots[0, :2, :4] = 255
    got = fedlib.load_task("fashion_mnist").transform(spots, None)[0] * 0.3081 + 0.1307
    assert got[0].item() == pytest.approx(0.5) and got[1:].abs().max() < 1e-6
    ends = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1).expand(2, 28, 28)
    got = fedlib.load_task("mnist", network="paper").transform(ends, None)
    assert got.shape == (2, 1, 28, 28)
    np.testing.assert_allclose(got[:, 0, 0, 0], [-0.1307 / 0.3081, 0.8693 / 0.3081], 1e-6)
