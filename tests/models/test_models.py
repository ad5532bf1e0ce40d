"""Models with rows against the same networks written out with torch.nn.functional, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib import randomness
from fedlib.errors import Error
from fedlib.models import EMNISTCNN, ResNet18GN, Softmax

Weights = dict[str, Tensor]
ROWS = [(1, 1), (3, 3), (6, 3), (4, 1)]


def softmax(w: Weights, x: Tensor) -> Tensor:
    return x @ w["linear.weight"].T + w["linear.bias"]


def emnist_cnn(w: Weights, x: Tensor) -> Tensor:
    x = F.relu(F.conv2d(x, w["conv1.weight"], w["conv1.bias"]))
    x = F.relu(F.conv2d(x, w["conv2.weight"], w["conv2.bias"]))
    x = F.max_pool2d(x, 2).flatten(1)
    x = F.relu(x @ w["dense1.weight"].T + w["dense1.bias"])
    return x @ w["dense2.weight"].T + w["dense2.bias"]


def resnet18_gn(w: Weights, x: Tensor) -> Tensor:
    def norm(name: str, value: Tensor) -> Tensor:
        return F.group_norm(value, 2, w[name + ".weight"], w[name + ".bias"], 1e-3)

    x = F.conv2d(F.pad(x, (2, 3, 2, 3)), w["conv.weight"], stride=2)
    x = F.relu(norm("norm1", x))
    x = F.max_pool2d(F.pad(x, (0, 1, 0, 1)), 3, 2)  # zeros: what comes in is not negative
    assert x.shape[-2:] == (6, 6)
    for block in range(8):
        at = f"blocks.{block}."
        y = x if block == 0 else F.relu(norm(at + "norm1", x))
        y = F.conv2d(y, w[at + "conv1.weight"], padding=1)
        y = F.conv2d(F.relu(norm(at + "norm2", y)), w[at + "conv2.weight"], padding=1)
        if block in (2, 4, 6):
            x = norm(at + "shortcut.1", F.conv2d(x, w[at + "shortcut.0.weight"]))
        x = x + y
        assert x.shape[-2:] == (6, 6)
    x = F.relu(norm("norm2", x)).mean((2, 3))
    return x @ w["dense.weight"].T + w["dense.bias"]


Oracle = Callable[[Weights, Tensor], Tensor]
MODELS: dict[str, tuple[Callable[[], nn.Module], Oracle, tuple[int, ...], int]] = {
    "softmax": (Softmax, softmax, (60,), 10),
    "emnist_cnn": (lambda: EMNISTCNN(width=0.125), emnist_cnn, (1, 28, 28), 62),
    "resnet18_gn": (lambda: ResNet18GN(width=0.0625), resnet18_gn, (3, 24, 24), 10),
}


def split(model: nn.Module, flat: Tensor) -> Weights:
    """A tensor [R, P] as strided views in the parameters' shapes, with rows."""
    parts = torch.split(flat, [p.numel() for p in model.parameters()], dim=1)
    named = zip(model.named_parameters(), parts, strict=True)
    return {name: part.view(len(flat), *p.shape) for (name, p), part in named}


def flat_rows(model: nn.Module, rows: int) -> tuple[Tensor, Weights]:
    """The model's parameters, disturbed differently in each row: a tensor [R, P], and its views."""
    base = torch.cat([p.detach().flatten() for p in model.parameters()]).double()
    noise = torch.randn(rows, len(base), dtype=torch.float64)
    flat = (base + 0.05 * noise).requires_grad_()
    return flat, split(model, flat)


def call(model: nn.Module, views: Weights, x: Tensor) -> Tensor:
    """The model with its parameters replaced by views, as the engine does."""
    original = dict(model.named_parameters())
    for source in (views, original):
        if source is original:
            y: Tensor = model(x)
        for name, value in source.items():
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._parameters[leaf] = value  # type: ignore[assignment]
    return y


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize(("rows", "groups"), ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_rows_equal_a_loop_over_the_written_out_network(name: str, rows: int, groups: int) -> None:
    make, oracle, shape, classes = MODELS[name]
    model = make().eval()
    flat, views = flat_rows(model, rows)
    x = torch.randn(groups, 3, *shape, dtype=torch.float64)
    expected = torch.stack(
        [
            oracle({key: value[row] for key, value in views.items()}, x[row // (rows // groups)])
            for row in range(rows)
        ]
    )
    assert expected.shape == (rows, 3, classes)
    direction = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad((expected * direction).sum(), flat, retain_graph=True)

    got = call(model, views, x)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad((got * direction).sum(), flat)
    torch.testing.assert_close(gradient, wanted, rtol=1e-10, atol=1e-10)
    assert (gradient != 0).any(dim=1).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_an_ordinary_module(name: str) -> None:
    make, oracle, shape, _ = MODELS[name]
    model = make().double().eval()
    x = torch.randn(4, *shape, dtype=torch.float64)
    expected = oracle(dict(model.named_parameters()), x)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-10)
    assert model.carries_rows


def test_dropout_is_a_rows_own_and_shared_by_a_clients_configurations() -> None:
    model = EMNISTCNN(width=0.125)
    _, views = flat_rows(model, 4)
    x = torch.rand(2, 3, 1, 28, 28, dtype=torch.float64)
    keys = torch.tensor([21, 22], dtype=torch.int64)
    with randomness.masks(keys):
        together = call(model, views, x)
    for row in range(4):
        with randomness.masks(keys[row // 2]):
            alone = call(model, {n: v[row] for n, v in views.items()}, x[row // 2])
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-10)
    with randomness.masks(keys + 2):
        assert not torch.allclose(together, call(model, views, x))


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_parameter_counts_are_the_papers() -> None:
    assert count(Softmax()) == 610
    assert count(EMNISTCNN()) == 1_206_590
    assert count(ResNet18GN(classes=10)) == 11_181_642
    assert count(ResNet18GN(classes=100)) == 11_227_812


def test_width_scales_channels_in_multiples_of_the_groups() -> None:
    model = ResNet18GN(width=0.05, groups=4)
    channels = [layer.num_channels for layer in model.modules() if isinstance(layer, nn.GroupNorm)]
    assert sorted(set(channels)) == [4, 8, 12, 24]
    assert model(torch.rand(2, 3, 24, 24)).shape == (2, 10)
    narrow = EMNISTCNN(classes=10, width=0.25)
    assert count(narrow) == (9 * 8 + 8) + (9 * 8 * 16 + 16) + (2304 * 32 + 32) + (32 * 10 + 10)
    with pytest.raises(Error, match="width"):
        EMNISTCNN(width=-1.0)


def test_initial_values() -> None:
    model = ResNet18GN()
    for name, parameter in model.named_parameters():
        if "norm" in name or "shortcut.1" in name or name.endswith("bias"):
            assert (parameter == (0 if name.endswith("bias") else 1)).all(), name
        else:
            fan_in = parameter[0].numel()
            std = 0.01 if name == "dense.weight" else math.sqrt(2 / fan_in)
            assert parameter.std().item() == pytest.approx(std, rel=0.05), name
    cnn = EMNISTCNN()
    assert all((p == 0).all() for n, p in cnn.named_parameters() if n.endswith("bias"))
    bound = math.sqrt(6 / (9216 + 128))
    assert 0.999 * bound < cnn.dense1.weight.abs().max() <= bound


def test_initialisation_repeats_with_torchs_seed() -> None:
    first = EMNISTCNN(width=0.125)
    torch.manual_seed(0)
    second = EMNISTCNN(width=0.125)
    torch.manual_seed(1)
    third = EMNISTCNN(width=0.125)
    assert torch.equal(first.conv1.weight, second.conv1.weight)
    assert not torch.equal(first.conv1.weight, third.conv1.weight)


@pytest.mark.parametrize("name", MODELS)
def test_one_step_lowers_every_rows_loss(name: str) -> None:
    make, _, shape, classes = MODELS[name]
    model = make().eval()
    flat, views = flat_rows(model, 4)
    x = torch.randn(2, 8, *shape, dtype=torch.float64)
    y = torch.randint(classes, (2, 8)).repeat_interleave(2, dim=0)

    def losses(values: Weights) -> Tensor:
        logits = call(model, values, x)
        return (
            F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="none").view(4, 8).mean(1)
        )

    before = losses(views)
    (gradient,) = torch.autograd.grad(before.sum(), flat)
    step = 1e-3 / gradient.norm(dim=1, keepdim=True)
    after = losses(split(model, (flat - step * gradient).detach()))
    # To first order a step of length s along -g / |g| lowers the loss by s |g|.
    assert (after < before - 0.5e-3 * gradient.norm(dim=1)).all()
