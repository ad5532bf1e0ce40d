"""Layers with rows against a loop of torch's own modules, and Keras' padding and initialisers."""

import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedlib import randomness
from fedlib.models import convolution, layers
from fedlib.models.recurrent import LSTM
from tests.models.oracles import ROWS, compare, normal, with_rows
from tests.refusals import refused


@pytest.mark.parametrize("size", [(6, 8), (7, 5)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_pooling_is_torchs_with_and_without_gradients(size, layout):
    x = torch.randn(4, 3, *size).to(memory_format=layout)
    x[0, 0, 1, 1] = math.nan
    expected = nn.functional.max_pool2d(x, 2)
    for differentiated in (False, True):
        pooled = layers.MaxPool2d(2)(x.clone().requires_grad_(differentiated))
        torch.testing.assert_close(pooled, expected, rtol=0, atol=0, equal_nan=True)
        assert pooled.is_contiguous(memory_format=layout)


@pytest.mark.parametrize("frozen", [[], ["weight"], ["bias"]])
def test_a_norm_of_constant_images_has_gradients(frozen):
    """As behind a frozen layer; torch 2.11's ends the process in this memory layout."""
    norm, x = layers.GroupNorm(2, 4), torch.randn(5, 4, 6, 6)
    for name in frozen:
        norm.get_parameter(name).requires_grad_(False)
    expected = {"weight": F.group_norm(x, 2).sum((0, 2, 3)), "bias": torch.full((4,), 180.0)}
    norm(x.to(memory_format=torch.channels_last)).sum().backward()
    for name, parameter in norm.named_parameters():
        assert (parameter.grad is None) == (name in frozen)
        if name not in frozen:
            torch.testing.assert_close(parameter.grad, expected[name], atol=1e-4, rtol=0)


# TensorFlow's documentation: out = ceil(in / stride), total = (out - 1) * stride + kernel - in.
@pytest.mark.parametrize(
    ("size", "kernel", "stride", "before", "after"),
    [(24, 7, 2, 2, 3), (12, 3, 2, 0, 1), (5, 3, 2, 1, 1), (7, 2, 3, 0, 1), (8, 5, 2, 1, 2)],
)
def test_same_padding_is_tensorflows(size, kernel, stride, before, after):
    image = normal(2, 3, size, size)
    for value in (0.0, -math.inf):
        padded = layers.same_padding(image, kernel, stride, value)
        assert torch.equal(padded, F.pad(image, (before, after) * 2, value=value))


def dropped(layer, keys, x, calls=1):
    with randomness.masks(keys):
        for _ in range(calls):
            y = layer(x)
    return y


def test_dropout_masks_follow_their_keys():
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


def test_dropout_outside_training_and_outside_masks():
    """What share is kept: test_batch_norm, of channels, which are dropped in the same way."""
    x = torch.ones(1, 1000)
    layer = layers.Dropout(0.5)
    torch.manual_seed(0)
    ours = layer(x)
    torch.manual_seed(0)
    assert torch.equal(ours, F.dropout(x, 0.5))
    layer.eval()
    assert layer(x) is x
    refused("0 <= p < 1", layers.Dropout, 1.0)


def test_he_normal_is_cut_as_keras_cuts_it_and_has_the_stated_deviation():
    weight = layers.he_normal_(torch.empty(128, 64, 3, 3))
    std = math.sqrt(2 / (9 * 64))
    assert weight.std().item() == pytest.approx(std, rel=0.01)
    cut = 2 * std / 0.87962566
    assert 0.99 * cut < weight.abs().max() <= cut


def test_errors_name_the_layer_and_what_to_do():
    for layer, shape in ((layers.Linear(3, 2), (4, 3)), (LSTM(3, 2), (2, 4, 3))):
        with_rows(layer, 6)
        kind = type(layer).__name__
        for wrong in (shape, (4, *shape)):
            refused(
                f"{kind} has weights of 6 rows .* {re.escape(str(wrong))}", layer, normal(*wrong)
            )
    refused("padding is 'valid'", layers.Conv2d, 1, 1, 3, padding="valid")
    refused("width", layers.scaled, 32, 0.0)


# Convolutions on a CPU, which takes late layers in its own way: images, weights, stride, padding.
CONVOLUTIONS = {
    "late": ((2, 256, 3, 3), (256, 256, 3, 3), (1, 1), (1, 1)),
    "late, strided": ((2, 128, 5, 4), (256, 128, 3, 3), (2, 2), (1, 1)),
    "late, not square": ((1, 300, 3, 4), (128, 300, 2, 3), (1, 2), (0, 1)),
    "late, one point": ((2, 256, 1, 1), (256, 256, 3, 3), (1, 1), (1, 1)),
    "late, 1x1": ((2, 300, 2, 2), (400, 300, 1, 1), (1, 1), (0, 0)),
    "early": ((2, 3, 12, 12), (8, 3, 3, 3), (1, 1), (1, 1)),
}


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions_on_a_cpu_are_torchs(kind):
    shape, weights, *how = CONVOLUTIONS[kind]
    leaves = [normal(*size).requires_grad_() for size in (shape, weights, weights[:1])]
    assert convolution._late(*leaves[:2], *how) == kind.startswith("late")
    for frozen in (None, 0, 1):  # a frozen weight or input has no gradient
        for place, leaf in enumerate(leaves):
            leaf.requires_grad_(place != frozen)
        trained = [leaf for leaf in leaves if leaf.requires_grad]
        ours, theirs = (function(*leaves, *how) for function in (convolution.on_cpu, F.conv2d))
        compare(ours, theirs, trained)


@pytest.mark.parametrize(("rows", "groups"), [*ROWS, (6, 2)])
@pytest.mark.parametrize("bias", [True, False])
def test_rows_convolve_by_products_as_torch_does_one_by_one(rows, groups, bias, monkeypatch):
    """As on a GPU, where there are more rows than one."""
    monkeypatch.setattr(convolution, "by_products", lambda *_: True)
    layer = layers.Conv2d(3, 4, (3, 2), stride=(2, 1), padding=(1, 0), bias=bias)
    leaves, x = with_rows(layer, rows), normal(groups, 5, 3, 7, 6).requires_grad_()
    inputs = x.repeat_interleave(rows // groups, 0)
    stride, padding = layer._strides_and_padding()
    each = [
        F.conv2d(a, *w, stride=stride, padding=padding)
        for a, *w in zip(inputs, *leaves, strict=True)
    ]
    compare(layer(x), torch.stack(each), [x, *leaves])
