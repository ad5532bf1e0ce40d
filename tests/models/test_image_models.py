"""Image models with rows against the same networks written out with torch's functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib import randomness
from fedlib.errors import Error
from fedlib.models import (
    EMNISTCNN,
    MLP,
    VGG11,
    DeltaCNN,
    EMNISTAutoencoder,
    ResNet,
    ResNet18GN,
    Softmax,
)
from fedlib.models.batch_norm import EVALUATION_BATCH, BatchNorm2d
from fedlib.models.layers import Dropout2d, real_examples

Weights = dict[str, Tensor]
Oracle = Callable[[Weights, Tensor], Tensor]
# (R, G): one row; a configuration on several clients; several on several; several on one.
ROWS = [(1, 1), (3, 3), (6, 3), (4, 1)]


def dense(w: Weights, name: str, x: Tensor) -> Tensor:
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def mlp(w: Weights, x: Tensor) -> Tensor:
    return dense(w, "output", F.relu(dense(w, "hidden.1", F.relu(dense(w, "hidden.0", x)))))


def autoencoder(w: Weights, x: Tensor) -> Tensor:
    for layer in range(3):
        x = torch.sigmoid(dense(w, f"encoder.{layer}", x))
    x = dense(w, "encoder.3", x)
    for layer in range(4):
        x = torch.sigmoid(dense(w, f"decoder.{layer}", x))
    return x


def vgg11(w: Weights, x: Tensor) -> Tensor:
    convolutions = iter(sorted({int(n.split(".")[1]) for n in w if n.startswith("conv")}))
    for block in (1, 1, 2, 2, 2):
        for _ in range(block):
            at = f"convolutions.{next(convolutions)}"
            x = F.relu(F.conv2d(x, w[at + ".weight"], w[at + ".bias"], padding=1))
        x = F.max_pool2d(x, 2)
    assert x.shape[-2:] == (1, 1) and next(convolutions, None) is None
    x = F.relu(dense(w, "dense1", x.flatten(1)))
    return dense(w, "dense3", F.relu(dense(w, "dense2", x)))


def delta_cnn(w: Weights, x: Tensor) -> Tensor:
    for name in ("conv1", "conv2"):
        x = F.conv2d(x, w[name + ".weight"], w[name + ".bias"])
        x = F.relu(F.max_pool2d(x, 2))
    return dense(w, "dense2", F.relu(dense(w, "dense1", x.flatten(1))))


def resnet(counts: tuple[int, ...], kernels: tuple[int, ...], norm: str) -> Oracle:
    def normed(w: Weights, name: str, x: Tensor) -> Tensor:
        weight, bias = w[name + ".weight"], w[name + ".bias"]
        if norm == "group":
            return F.group_norm(x, 2, weight, bias)
        return F.batch_norm(x, None, None, weight, bias, training=True)

    def oracle(w: Weights, x: Tensor) -> Tensor:
        x = F.relu(normed(w, "norm", F.conv2d(x, w["conv.weight"], padding=1)))
        strides = [
            2 if stage and not number else 1
            for stage, count in enumerate(counts)
            for number in range(count)
        ]
        for block, stride in enumerate(strides):
            at, y = f"blocks.{block}.", x
            for layer, kernel in enumerate(kernels):
                step = stride if kernel == 3 else 1
                stride = 1 if kernel == 3 else stride
                weight = w[f"{at}convolutions.{layer}.weight"]
                y = F.conv2d(y, weight, stride=step, padding=kernel // 2)
                y = normed(w, f"{at}norms.{layer}", y)
                y = F.relu(y) if layer < len(kernels) - 1 else y
            if at + "shortcut.0.weight" in w:
                x = F.conv2d(x, w[at + "shortcut.0.weight"], stride=strides[block])
                x = normed(w, at + "shortcut.1", x)
            x = F.relu(x + y)
        return dense(w, "dense", x.mean((2, 3)))

    return oracle


# A maker, the oracle, the shape of an input, the numbers in an output.
MODELS: dict[str, tuple[Callable[[], nn.Module], Oracle, tuple[int, ...], int]] = {
    "mlp": (lambda: MLP(12, (7, 5), 4), mlp, (12,), 4),
    "autoencoder": (lambda: EMNISTAutoencoder(width=0.01), autoencoder, (784,), 784),
    "vgg11": (lambda: VGG11(width=1 / 64), vgg11, (3, 32, 32), 10),
    "delta_cnn": (lambda: DeltaCNN(width=0.3), delta_cnn, (1, 28, 28), 10),
    "resnet18 group": (
        lambda: ResNet(18, width=1 / 16),
        resnet((2, 2, 2, 2), (3, 3), "group"),
        (3, 16, 16),
        10,
    ),
    "resnet18 batch": (
        lambda: ResNet(18, width=1 / 16, norm="batch"),
        resnet((2, 2, 2, 2), (3, 3), "batch"),
        (3, 16, 16),
        10,
    ),
    "resnet50 batch": (
        lambda: ResNet(50, 5, width=1 / 32, norm="batch"),
        resnet((3, 4, 6, 3), (1, 3, 1), "batch"),
        (3, 16, 16),
        5,
    ),
}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def flat_rows(model: nn.Module, rows: int) -> tuple[Tensor, Weights]:
    """The model's parameters, disturbed differently in each row: a tensor [R, P], and its views."""
    base = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
    flat = (base + 0.05 * torch.randn(rows, len(base), dtype=torch.float64)).requires_grad_()
    parts = torch.split(flat, [p.numel() for p in model.parameters()], dim=1)
    named = zip(model.named_parameters(), parts, strict=True)
    return flat, {name: part.view(rows, *p.shape) for (name, p), part in named}


def call(model: nn.Module, views: Weights, x: Tensor) -> Tensor:
    """The model with its parameters replaced by views, as the engine does."""
    original = dict(model.named_parameters())
    put(model, views)
    y: Tensor = model(x)
    put(model, original)
    return y


def put(model: nn.Module, named: Weights) -> None:
    for name, value in named.items():
        owner, _, leaf = name.rpartition(".")
        model.get_submodule(owner)._parameters[leaf] = value  # type: ignore[assignment]


def without_dropout(model: nn.Module) -> nn.Module:
    """Training mode but for dropout, so that batch statistics are those of the whole batch."""
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    return model


@pytest.mark.parametrize(("rows", "groups"), ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_rows_equal_a_loop_over_the_written_out_network(name: str, rows: int, groups: int) -> None:
    make, oracle, shape, outputs = MODELS[name]
    model = without_dropout(make())
    flat, views = flat_rows(model, rows)
    x = torch.randn(groups, 3, *shape, dtype=torch.float64)
    expected = torch.stack(
        [
            oracle({key: value[row] for key, value in views.items()}, x[row // (rows // groups)])
            for row in range(rows)
        ]
    )
    assert expected.shape == (rows, 3, outputs)
    direction = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad((expected * direction).sum(), flat, retain_graph=True)

    got = call(model, views, x)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    (gradient,) = torch.autograd.grad((got * direction).sum(), flat)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)
    assert (gradient != 0).any(dim=1).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_an_ordinary_module(name: str) -> None:
    make, oracle, shape, _ = MODELS[name]
    model = without_dropout(make().double())
    x = torch.randn(4, *shape, dtype=torch.float64)
    expected = oracle(dict(model.named_parameters()), x)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-10)
    assert model.carries_rows


@pytest.mark.parametrize("name", ["vgg11", "delta_cnn"])
def test_dropout_is_a_clients_own_and_shared_by_its_configurations(name: str) -> None:
    make, _, shape, _ = MODELS[name]
    model = make()
    _, views = flat_rows(model, 4)
    x = torch.rand(2, 3, *shape, dtype=torch.float64)
    keys = torch.tensor([21, 22], dtype=torch.int64)
    with randomness.masks(keys):
        together = call(model, views, x)
    for row in range(4):
        with randomness.masks(keys[row // 2]):
            alone = call(model, {n: v[row] for n, v in views.items()}, x[row // 2])
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-10)
    with randomness.masks(keys + 2):
        assert not torch.allclose(together, call(model, views, x))


@pytest.mark.parametrize(
    ("model", "order"),
    [
        (DeltaCNN(), "Conv2d MaxPool2d Conv2d Dropout2d MaxPool2d Flatten Linear Dropout Linear"),
        (EMNISTCNN(width=0.1), "Conv2d Conv2d MaxPool2d Dropout Flatten Linear Dropout Linear"),
    ],
)
def test_layers_are_called_in_the_authors_order(model: nn.Module, order: str) -> None:
    called = []
    for layer in model.children():
        layer.register_forward_hook(lambda layer, *_: called.append(type(layer).__name__))
    model(torch.rand(2, 1, 28, 28))
    assert called == order.split()


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_parameter_counts_are_the_papers() -> None:
    assert count(EMNISTAutoencoder()) == 2_837_314
    assert count(MLP(784, (300, 100), 62)) == 271_862
    assert count(MLP(784, (128,), 62)) == 784 * 128 + 128 + 128 * 62 + 62 == 108_478
    assert count(Softmax(784, 62)) == 48_670
    assert count(VGG11()) == 9_750_922
    assert count(DeltaCNN()) == 21_840
    for norm in ("group", "batch"):
        assert count(ResNet(18, 10, norm=norm)) == 11_173_962
        assert count(ResNet(50, 10, norm=norm)) == 23_520_842
    # 90 more classes on 512 and on 2048 features
    assert count(ResNet(18, 100)) == 11_173_962 + 90 * 513
    assert count(ResNet(50, 100)) == 23_520_842 + 90 * 2049


def test_autoencoder_has_the_tables_layers() -> None:
    shapes = [tuple(p.shape) for n, p in EMNISTAutoencoder().named_parameters() if "weight" in n]
    sizes = [784, 1000, 500, 250, 30, 250, 500, 1000, 784]
    assert shapes == [(after, before) for before, after in pairwise(sizes)]


@pytest.mark.parametrize(
    ("model", "shape", "features"),
    [
        (MLP(width=0.5), (784,), 50),
        (DeltaCNN(), (1, 28, 28), 50),
        (EMNISTCNN(width=0.25), (1, 28, 28), 32),
        (VGG11(width=0.125), (3, 32, 32), 64),
        (ResNet18GN(width=0.125), (3, 24, 24), 64),
        (ResNet(18, width=0.125), (3, 32, 32), 64),
        (ResNet(50, width=0.0625), (3, 32, 32), 128),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_a_model_is_its_head_on_its_features(
    model: nn.Module, shape: tuple[int, ...], features: int
) -> None:
    model.eval()
    x = torch.rand(2, 3, *shape)
    found = model.features(x)
    assert found.shape == (2, 3, features)
    torch.testing.assert_close(model.head(found), model(x), rtol=0, atol=0)


def test_width_scales_hidden_layers_alone() -> None:
    assert count(MLP(784, (300, 100), 62, width=0.1)) == 784 * 30 + 30 + 30 * 10 + 10 + 10 * 62 + 62
    narrow = [tuple(p.shape) for p in ResNet(50, width=1 / 16, groups=4).blocks[0].parameters()]
    assert narrow[0] == (4, 4, 1, 1) and (16, 4, 1, 1) in narrow
    assert VGG11(3, width=0.25).dense3.weight.shape == (3, 128)
    assert EMNISTAutoencoder(0.1).encoder[-1].weight.shape == (3, 25)
    for make in (MLP, EMNISTAutoencoder, VGG11, DeltaCNN, ResNet):
        with pytest.raises(Error, match="width is 0"):
            make(width=0)


def test_unknown_depths_and_norms_are_refused() -> None:
    with pytest.raises(Error, match=r"unknown depth of ResNet.*34.*18, 50"):
        ResNet(34)
    with pytest.raises(Error, match="unknown norm of ResNet 'layer'"):
        ResNet(18, norm="layer")


def test_initial_values() -> None:
    for model in (MLP(), EMNISTAutoencoder()):
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                assert (parameter == 0).all()
            else:
                bound = math.sqrt(6 / sum(parameter.shape))
                assert 0.98 * bound < parameter.abs().max() <= bound
    for name, parameter in VGG11().named_parameters():
        if name.startswith("convolutions") and name.endswith("weight"):
            std = math.sqrt(2 / (9 * len(parameter)))
            assert parameter.std().item() == pytest.approx(std, rel=0.05)
        elif name.startswith("convolutions"):
            assert (parameter == 0).all()


# -------------------------------------------------------------------------------- batch statistics


def norm_rows(rows: int, channels: int) -> tuple[BatchNorm2d, list[Tensor]]:
    """A layer whose weight and bias have rows, and these two as leaves."""
    layer = BatchNorm2d(channels)
    leaves = [
        torch.randn(rows, channels, dtype=torch.float64, requires_grad=True) for _ in range(2)
    ]
    put(layer, dict(zip(("weight", "bias"), leaves, strict=True)))
    return layer, leaves


@pytest.mark.parametrize("layout", ["rows first", "as a convolution leaves it"])
@pytest.mark.parametrize(("rows", "groups"), [*ROWS, (6, 2)])
@pytest.mark.parametrize("padded", [False, True])
def test_batch_norm_is_torchs_on_the_real_examples(
    padded: bool, rows: int, groups: int, layout: str
) -> None:
    layer, leaves = norm_rows(rows, 3)
    x = torch.randn(groups, 5, 3, 4, 2, dtype=torch.float64)
    if layout != "rows first":
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    x.requires_grad_()
    real = [[5, 2, 3, 1][group % 4] if padded else 5 for group in range(groups)]
    mask = torch.tensor([[slot < own for slot in range(5)] for own in real])
    with real_examples(mask if padded else None):
        got = layer(x)
    directions, wanted, seen = [], [], []
    for row in range(rows):
        group = row // (rows // groups)
        part = x[group, : real[group]]
        weight, bias = (leaf[row] for leaf in leaves)
        expected = F.batch_norm(part, None, None, weight, bias, training=True)
        torch.testing.assert_close(got[row, : real[group]], expected, rtol=0, atol=1e-10)
        direction = torch.randn_like(expected)
        directions.append(direction)
        wanted.append((expected * direction).sum())
        seen.append((got[row, : real[group]] * direction).sum())
    inputs = [*leaves, x]
    expected_gradients = torch.autograd.grad(sum(wanted), inputs, retain_graph=True)
    for one, other in zip(torch.autograd.grad(sum(seen), inputs), expected_gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_batch_norm_of_padding_alone_stays_finite() -> None:
    layer, leaves = norm_rows(2, 3)
    x = torch.randn(2, 4, 3, 2, 2, dtype=torch.float64)
    with real_examples(torch.tensor([[True] * 4, [False] * 4])):
        y = layer(x)
    gradients = torch.autograd.grad(y[0].square().sum() + 0 * y[1].sum(), leaves)
    assert all(torch.isfinite(g).all() for g in (y, *gradients))


def test_batch_norm_evaluates_in_batches_of_a_fixed_size() -> None:
    layer = BatchNorm2d(3).double().eval()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    count = 2 * EVALUATION_BATCH + 7
    x = torch.randn(count, 3, 2, 2, dtype=torch.float64)
    expected = torch.cat(
        [
            F.batch_norm(part, None, None, layer.weight, layer.bias, training=True)
            for part in (x[:128], x[128:256], x[256:])
        ]
    )
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-10)
    torch.testing.assert_close(layer(x.unsqueeze(0))[0], expected, rtol=0, atol=1e-10)
    # so the images before a boundary do not depend on those after it, and nothing is remembered
    torch.testing.assert_close(layer(x[:EVALUATION_BATCH]), expected[:128], rtol=0, atol=1e-12)
    assert not list(layer.buffers())
    # The clients' whole data come padded: only the real ones count, piece by piece.
    mask = torch.arange(count) < 140
    with real_examples(mask):
        padded = layer(x)
    torch.testing.assert_close(padded[:128], expected[:128], rtol=0, atol=1e-10)
    rest = F.batch_norm(x[128:140], None, None, layer.weight, layer.bias, training=True)
    torch.testing.assert_close(padded[128:140], rest, rtol=0, atol=1e-10)
    assert torch.isfinite(padded).all()


def test_batch_norm_refuses_a_mask_that_does_not_fit() -> None:
    layer, _ = norm_rows(4, 3)
    x = torch.randn(2, 5, 3, 2, 2, dtype=torch.float64)
    for shape in ((3, 5), (2, 4)):
        with real_examples(torch.ones(shape, dtype=torch.bool)):
            with pytest.raises(Error, match="BatchNorm2d has an input of 4 rows of 5 examples"):
                layer(x)


def test_real_examples_end_with_their_block() -> None:
    outer, inner = torch.ones(1, 2, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool)
    with real_examples(outer):
        with real_examples(inner):
            assert real_examples.active() is inner
        with pytest.raises(ZeroDivisionError), real_examples(None):
            assert real_examples.active() is None
            1 / 0  # noqa: B018
        assert real_examples.active() is outer
    assert real_examples.active() is None


# ------------------------------------------------------------------------------ dropout of channels


def test_dropout2d_drops_whole_channels_by_key() -> None:
    layer = Dropout2d(0.5)
    keys = torch.tensor([11, 12], dtype=torch.int64)
    x = torch.rand(4, 30, 40, 3, 3) + 0.5  # two configurations on each of two clients
    with randomness.masks(keys):
        y = layer(x)
    kept = (y != 0).float()
    assert torch.equal(kept.amax((-2, -1)), kept.amin((-2, -1)))
    torch.testing.assert_close(y, 2 * x * kept)
    channels = kept[..., 0, 0]
    assert torch.equal(channels[0], channels[1]) and torch.equal(channels[2], channels[3])
    assert not torch.equal(channels[0], channels[2])
    share = channels[::2].mean().item()
    assert abs(share - 0.5) < 4 * math.sqrt(0.25 / channels[::2].numel())
    with randomness.masks(keys[1]):
        assert torch.equal(layer(x[3]), y[3])
    # A short batch has the mask of the long one's beginning, so padding changes nothing.
    with randomness.masks(keys):
        assert torch.equal(layer(x[:, :7]), y[:, :7])
    layer.eval()
    assert layer(x) is x
    with pytest.raises(Error, match="0 <= p < 1"):
        Dropout2d(-0.1)
