"""Batch statistics of real examples, and dropout of channels."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedlib import randomness
from fedlib.models.batch_norm import EVALUATION_BATCH, BatchNorm2d
from fedlib.models.layers import REAL, Dropout2d, real_examples
from fedlib.models.resnet import ResNet
from tests.models.oracles import ROWS, compare, normal, with_rows
from tests.refusals import refused


@pytest.mark.parametrize("layout", ["rows first", "as a convolution leaves it"])
@pytest.mark.parametrize(("rows", "groups"), [*ROWS, (6, 2)])
@pytest.mark.parametrize("padded", [False, True])
def test_batch_norm_is_torchs_on_the_real_examples(padded, rows, groups, layout):
    layer = BatchNorm2d(3)
    leaves = with_rows(layer, rows)
    x = normal(groups, 5, 3, 4, 2)
    if layout != "rows first":
        x = x.transpose(0, 1).contiguous().transpose(0, 1)
    x.requires_grad_()
    real = [[5, 2, 3, 1][group % 4] if padded else 5 for group in range(groups)]
    mask = torch.tensor([[slot < own for slot in range(5)] for own in real])
    with real_examples(mask if padded else None):
        got = layer(x)
    expected = torch.zeros_like(got)
    for row in range(rows):
        group = row // (rows // groups)
        part = x[group, : real[group]]
        weight, bias = (leaf[row] for leaf in leaves)
        expected[row, : len(part)] = F.batch_norm(part, None, None, weight, bias, training=True)
    counted = mask.repeat_interleave(rows // groups, 0)[..., None, None, None]
    compare(got * counted, expected, [*leaves, x])


def test_batch_norm_of_padding_alone_stays_finite():
    layer, x = BatchNorm2d(3), normal(2, 4, 3, 2, 2)
    leaves = with_rows(layer, 2)
    with real_examples(torch.tensor([[True] * 4, [False] * 4])):
        y = layer(x)
    gradients = torch.autograd.grad(y[0].square().sum() + 0 * y[1].sum(), leaves)
    assert all(torch.isfinite(g).all() for g in (y, *gradients))


def test_batch_norm_evaluates_in_batches_of_a_fixed_size():
    layer = BatchNorm2d(3).double().eval()
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    count = 2 * EVALUATION_BATCH + 7
    x = torch.randn(count, 3, 2, 2, dtype=torch.float64)
    scales = layer.weight, layer.bias
    expected = torch.cat([F.batch_norm(part, None, None, *scales, True) for part in x.split(128)])
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
    rest = F.batch_norm(x[128:140], None, None, *scales, training=True)
    torch.testing.assert_close(padded[128:140], rest, rtol=0, atol=1e-10)
    assert torch.isfinite(padded).all()


def test_real_examples_end_with_their_block_however_it_ends():
    outer = torch.ones(1, 2, dtype=torch.bool)
    with real_examples(outer):
        with pytest.raises(ZeroDivisionError), real_examples(None):
            assert REAL.get() is 1 / 0
        assert REAL.get() is outer


# ------------------------------------------------------------------------------ dropout of channels


def test_dropout2d_drops_whole_channels_by_key():
    layer = Dropout2d(0.25)
    keys = torch.tensor([11, 12], dtype=torch.int64)
    x = torch.rand(4, 200, 500, 2, 2) + 0.5  # two configurations on each of two clients
    with randomness.masks(keys):
        y = layer(x)
    kept = (y != 0).float()
    assert torch.equal(kept.amax((-2, -1)), kept.amin((-2, -1)))
    torch.testing.assert_close(y, x * kept / 0.75)
    assert torch.equal(kept[0], kept[1]) and not torch.equal(kept[0], kept[2])
    assert abs(kept.mean().item() - 0.75) < 4 * math.sqrt(0.75 * 0.25 / 200_000)
    # A short batch has the mask of the long one's beginning, so padding changes nothing.
    with randomness.masks(keys):
        assert torch.equal(layer(x[:, :7]), y[:, :7])
    refused("0 <= p < 1", Dropout2d, -0.1)


# ------------------------------------------------------------------------------ running statistics


def test_the_authors_resnets_track_stem_and_shortcuts_and_all_of_resnet_50():
    tracked = {
        depth: [
            name
            for name, layer in ResNet(depth, width=1 / 32, norm="tracked").named_modules()
            if getattr(layer, "moving", ())
        ]
        for depth in (18, 50)
    }
    assert tracked[18] == ["norm", *(f"blocks.{block}.shortcut.1" for block in (2, 4, 6))]
    assert len(tracked[50]) == 1 + 3 * (3 + 4 + 6 + 3) + 4
    assert not list(ResNet(50, width=1 / 32, norm="batch").buffers())
