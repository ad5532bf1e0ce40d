"""Layers with rows against a loop of torch's own modules, and Keras' padding and initialisers."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedlib import randomness
from fedlib.errors import Error
from fedlib.models import convolution, layers
from tests.models.oracles import put

# (R, G): one row; one configuration on several clients; several configurations on several clients;
# and several configurations on one client.
ROWS = [(1, 1), (3, 3), (6, 3), (6, 2), (4, 1)]
Oracle = Callable[[], nn.Module]


def row_parameters(
    module: nn.Module, rows: int, strided: bool
) -> tuple[dict[str, Tensor], list[Tensor]]:
    """Random parameters with rows, by name, and the leaves that gradients are taken of."""
    shapes = {name: p.shape for name, p in module.named_parameters()}
    if not strided:
        named = {
            name: torch.randn(rows, *shape, dtype=torch.float64, requires_grad=True)
            for name, shape in shapes.items()
        }
        return named, list(named.values())
    sizes = [math.prod(shape) for shape in shapes.values()]
    flat = torch.randn(rows, sum(sizes), dtype=torch.float64, requires_grad=True)
    parts = torch.split(flat, sizes, dim=1)
    named = {
        name: part.view(rows, *shape)
        for part, (name, shape) in zip(parts, shapes.items(), strict=True)
    }
    return named, [flat]


def loop(oracle: Oracle, named: dict[str, Tensor], rows: int, x: Tensor) -> Tensor:
    """Each row through its own torch module."""
    outputs = []
    for row in range(rows):
        parameters = {name: value[row] for name, value in named.items()}
        module = oracle().double()
        outputs.append(
            torch.func.functional_call(module, parameters, (x[row // (rows // len(x))],))
        )
    return torch.stack(outputs)


LAYERS: dict[str, tuple[Callable[[], nn.Module], Oracle, tuple[int, ...]]] = {
    "linear": (lambda: layers.Linear(7, 3), lambda: nn.Linear(7, 3), (5, 7)),
    "linear without bias": (
        lambda: layers.Linear(7, 3, bias=False),
        lambda: nn.Linear(7, 3, bias=False),
        (5, 7),
    ),
    "linear over time": (lambda: layers.Linear(7, 3), lambda: nn.Linear(7, 3), (5, 4, 7)),
    "linear over two axes": (lambda: layers.Linear(7, 3), lambda: nn.Linear(7, 3), (2, 4, 3, 7)),
    "linear, batch of one": (lambda: layers.Linear(7, 3), lambda: nn.Linear(7, 3), (1, 7)),
    "conv": (lambda: layers.Conv2d(2, 4, 3), lambda: nn.Conv2d(2, 4, 3), (5, 2, 6, 7)),
    "conv, stride and padding": (
        lambda: layers.Conv2d(2, 4, 3, stride=2, padding=1, bias=False),
        lambda: nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False),
        (5, 2, 6, 7),
    ),
    "conv, same": (
        lambda: layers.Conv2d(2, 4, (3, 5), padding="same"),
        lambda: nn.Conv2d(2, 4, (3, 5), padding="same"),
        (3, 2, 6, 7),
    ),
    "conv, same with stride": (
        lambda: layers.Conv2d(2, 4, 7, stride=2, padding="same"),
        lambda: nn.Sequential(nn.ZeroPad2d((2, 3, 2, 3)), nn.Conv2d(2, 4, 7, stride=2)),
        (2, 2, 24, 24),
    ),
    "layer norm": (lambda: layers.LayerNorm(6, 1e-3), lambda: nn.LayerNorm(6, 1e-3), (5, 6)),
    "layer norm over time": (lambda: layers.LayerNorm(6), lambda: nn.LayerNorm(6), (5, 4, 6)),
    "group norm": (
        lambda: layers.GroupNorm(2, 6, eps=1e-3),
        lambda: nn.GroupNorm(2, 6, eps=1e-3),
        (5, 6, 3, 4),
    ),
}


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize(("rows", "groups"), ROWS)
@pytest.mark.parametrize(
    ("name", "apart"),
    [*((name, False) for name in LAYERS), *((name, True) for name in LAYERS if "conv" in name)],
)
def test_rows_equal_a_loop_of_torch_modules(
    name: str, rows: int, groups: int, strided: bool, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convolution, "PRODUCTS", 1 if apart else math.inf)
    torch.manual_seed(1)
    make, oracle, shape = LAYERS[name]
    if name == "conv, same with stride":
        names = {"weight": "1.weight", "bias": "1.bias"}
    else:
        names = {"weight": "weight", "bias": "bias"}
    layer = make()
    named, leaves = row_parameters(layer, rows, strided)
    x = torch.randn(groups, *shape, dtype=torch.float64, requires_grad=True)
    expected = loop(oracle, {names[key]: value for key, value in named.items()}, rows, x)
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), [*leaves, x], retain_graph=True)

    put(layer, named)
    got = layer(x)
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    gradients = torch.autograd.grad((got * direction).sum(), [*leaves, x])
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [(6, 8), (7, 5)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_is_torchs_with_and_without_gradients(
    size: tuple[int, int], layout: torch.memory_format
) -> None:
    torch.manual_seed(3)
    x = torch.randn(4, 3, *size).to(memory_format=layout)
    x[0, 0, 1, 1] = math.nan
    expected = nn.functional.max_pool2d(x, 2)
    for differentiated in (False, True):
        pooled = layers.MaxPool2d(2)(x.clone().requires_grad_(differentiated))
        torch.testing.assert_close(pooled, expected, rtol=0, atol=0, equal_nan=True)
        assert pooled.is_contiguous(memory_format=layout)


@pytest.mark.parametrize(
    ("images", "weight", "apart"),
    [
        ((10, 64, 1, 28, 28), (10, 10, 1, 5, 5), True),  # MNIST's first convolution
        ((10, 64, 10, 12, 12), (10, 20, 10, 5, 5), True),
        ((10, 64, 8, 12, 12), (10, 16, 8, 5, 5), False),  # whole blocks of channels
        ((10, 10, 1, 8, 8), (10, 8, 1, 3, 3), False),  # scikit-learn's digits: little work
    ],
)
def test_rows_go_one_by_one_where_groups_are_slow(
    images: tuple[int, ...], weight: tuple[int, ...], apart: bool
) -> None:
    assert convolution.better_apart(torch.empty(images), torch.empty(weight)) == apart
    on_another_device = (torch.empty(size, device="meta") for size in (images, weight))
    assert not convolution.better_apart(*on_another_device)


@pytest.mark.parametrize("name", LAYERS)
def test_without_rows_a_layer_is_torchs_own_and_serves_all_rows_of_the_input(name: str) -> None:
    torch.manual_seed(2)
    make, oracle, shape = LAYERS[name]
    layer, reference = make().double(), oracle().double()
    for mine, other in zip(layer.parameters(), reference.parameters(), strict=True):
        mine.data.copy_(other.data.normal_())
    x = torch.randn(3, *shape, dtype=torch.float64)
    expected = torch.stack([reference(row) for row in x])
    torch.testing.assert_close(layer(x[0]), expected[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layout", ["rows first", "as a convolution leaves it"])
def test_layers_without_parameters_treat_each_image_alone(layout: str) -> None:
    torch.manual_seed(3)
    x = torch.randn(3, 4, 2, 6, 6, dtype=torch.float64)
    if layout != "rows first":
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    cases: list[tuple[nn.Module, Callable[[Tensor], Tensor]]] = [
        (layers.MaxPool2d(2), nn.MaxPool2d(2)),
        (layers.MaxPool2d(3, stride=1), nn.MaxPool2d(3, stride=1)),
        (layers.GlobalAvgPool2d(), lambda image: nn.AdaptiveAvgPool2d(1)(image).flatten(1)),
        (layers.Flatten(), nn.Flatten()),
    ]
    for layer, reference in cases:
        expected = torch.stack([reference(row) for row in x])
        torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(layer(x[1]), expected[1], rtol=0, atol=1e-12)


# TensorFlow's documentation: out = ceil(in / stride), total = (out - 1) * stride + kernel - in.
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "after", "out"),
    [
        (24, 7, 2, 2, 3, 12),
        (12, 3, 2, 0, 1, 6),
        (6, 3, 1, 1, 1, 6),
        (6, 1, 1, 0, 0, 6),
        (5, 2, 1, 0, 1, 5),
        (5, 3, 2, 1, 1, 3),
        (7, 2, 3, 0, 1, 3),
        (4, 1, 3, 0, 0, 2),
    ],
)
def test_same_padding_sizes(
    size: int, kernel: int, stride: int, before: int, after: int, out: int
) -> None:
    x = torch.ones(2, 1, size, size)
    padded = layers.same_padding(x, kernel, stride)
    assert padded.shape[-2:] == (size + before + after,) * 2
    inside = padded[..., before : before + size, before : before + size]
    assert torch.equal(inside, x)
    assert padded.sum() == x.sum()
    convolution = layers.Conv2d(1, 1, kernel, stride=stride, padding="same")
    assert convolution(x).shape[-2:] == (out, out)
    assert layers.MaxPool2d(kernel, stride, same=True)(x).shape[-2:] == (out, out)


def test_same_convolution_and_pooling_equal_their_definition() -> None:
    rng = np.random.default_rng(4)
    image, kernel = rng.normal(size=(8, 8)), rng.normal(size=(5, 5))
    # Stride 2 on 8 points with 5: 4 come out, (4 - 1) * 2 + 5 - 8 = 3 are added, 1 of them before.
    convolved, pooled = np.zeros((4, 4)), np.full((4, 4), -np.inf)
    for row, column, i, j in np.ndindex(4, 4, 5, 5):
        y, x = row * 2 + i - 1, column * 2 + j - 1
        if 0 <= y < 8 and 0 <= x < 8:
            convolved[row, column] += image[y, x] * kernel[i, j]
            pooled[row, column] = max(pooled[row, column], image[y, x])
    layer = layers.Conv2d(1, 1, 5, stride=2, padding="same", bias=False).double()
    layer.weight.data.copy_(torch.from_numpy(kernel))
    images = torch.from_numpy(image)[None, None]
    np.testing.assert_allclose(layer(images)[0, 0].detach().numpy(), convolved, atol=1e-12)
    pool = layers.MaxPool2d(5, 2, same=True)
    np.testing.assert_array_equal(pool(images)[0, 0].numpy(), pooled)
    # Padding must not win the maximum over negative values either.
    assert pool(images - 100).max() < -90


def dropped(layer: nn.Module, keys: Tensor, x: Tensor, calls: int = 1) -> Tensor:
    with randomness.masks(keys):
        for _ in range(calls):
            y: Tensor = layer(x)
    return y


def test_dropout_masks_follow_their_keys() -> None:
    layer = layers.Dropout(0.25)
    keys = torch.tensor([11, 12], dtype=torch.int64)
    x = torch.ones(6, 50, 40)  # three configurations on each of two clients
    y = dropped(layer, keys, x)
    assert torch.equal(y, dropped(layer, keys, x))
    for row in (1, 2):
        assert torch.equal(y[0], y[row])
        assert torch.equal(y[3], y[3 + row])
    assert not torch.equal(y[0], y[3])
    assert not torch.equal(y, dropped(layer, keys, x, calls=2))
    assert not torch.equal(y, dropped(layer, keys + 5, x))
    # A client's mask does not depend on who is computed beside it, nor on the row axis.
    assert torch.equal(dropped(layer, keys[1:], x[:1])[0], y[3])
    assert torch.equal(dropped(layer, keys[1], x[0]), y[3])
    # nor on the layout in memory
    image = torch.ones(5, 6, 4, 10, 10).transpose(0, 1)
    mixed = dropped(layer, keys, image)
    assert torch.equal(mixed, dropped(layer, keys, image.contiguous()))


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5])
def test_dropout_keeps_the_right_fraction_and_the_mean(p: float) -> None:
    n = 100_000
    y = dropped(layers.Dropout(p), torch.tensor([5], dtype=torch.int64), torch.ones(1, n))
    kept = (y != 0).float().mean().item()
    assert abs(kept - (1 - p)) < 4 * math.sqrt(p * (1 - p) / n)
    torch.testing.assert_close(y[y != 0], torch.full_like(y[y != 0], 1 / (1 - p)))


def test_dropout_outside_training_and_outside_masks() -> None:
    x = torch.ones(1, 1000)
    layer = layers.Dropout(0.5)
    with torch.random.fork_rng():
        torch.manual_seed(6)
        assert 300 < (layer(x) == 0).sum() < 700
    layer.eval()
    assert layer(x) is x
    with pytest.raises(Error, match="0 <= p < 1"):
        layers.Dropout(1.0)


def test_initialisers_have_keras_distributions() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        weight = layers.glorot_uniform_(torch.empty(64, 32, 3, 3))
        bound = math.sqrt(6 / (9 * 32 + 9 * 64))
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.02)
        weight = layers.he_normal_(torch.empty(128, 64, 3, 3))
    std = math.sqrt(2 / (9 * 64))
    assert weight.std().item() == pytest.approx(std, rel=0.01)
    cut = 2 * std / 0.87962566
    assert 0.99 * cut < weight.abs().max() <= cut
    assert abs(weight.mean().item()) < 4 * std / math.sqrt(weight.numel())


def test_errors_name_the_layer_and_what_to_do() -> None:
    for layer, shape in (
        (layers.Linear(3, 2), (4, 3)),
        (layers.Conv2d(3, 2, 1), (4, 3, 5, 5)),
        (layers.GroupNorm(1, 3), (4, 3, 5, 5)),
    ):
        put(layer, {n: p.detach().expand(6, *p.shape) for n, p in layer.named_parameters()})
        with pytest.raises(Error, match="without rows"):
            layer(torch.ones(shape))
        with pytest.raises(Error, match=r"6 rows .* 4 rows"):
            layer(torch.ones(4, *shape))
    with pytest.raises(Error, match="padding is 'valid'"):
        layers.Conv2d(1, 1, 3, padding="valid")
    with pytest.raises(Error, match="width"):
        layers.scaled(32, 0.0)


def test_scaled_counts_are_multiples() -> None:
    assert layers.scaled(64, 1.0, 2) == 64
    assert layers.scaled(64, 0.1, 4) == 8  # 6.4, the nearest multiple of 4
    assert layers.scaled(32, 0.001, 2) == 2
    assert layers.scaled(10, 0.25) == 2


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize(
    ("examples", "outputs", "dtype"),
    [(64, 512, torch.bfloat16), (20, 512, torch.float32), (64, 8, torch.float32)],
)
def test_autocast_takes_dense_layers_to_bfloat16_where_it_saves_time(
    rows: int, examples: int, outputs: int, dtype: torch.dtype
) -> None:
    # More examples or weights in other rows do not count.
    leading = (rows,) if rows else ()
    layer = layers.Linear(256, outputs)
    named = {
        name: torch.randn(*leading, *own.shape) * 0.1 for name, own in layer.named_parameters()
    }
    put(layer, named)
    x = torch.randn(*leading, examples, 256)
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        again = layers.linear(layer, x.bfloat16(), named["weight"])
    assert y.dtype == again.dtype == dtype
    exact = x @ named["weight"].transpose(-1, -2) + named["bias"].unsqueeze(-2)
    tolerance = 0.02 if dtype == torch.bfloat16 else 1e-5
    assert (y.float() - exact).norm() < tolerance * exact.norm()
