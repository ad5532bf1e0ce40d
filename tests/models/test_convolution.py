"""Convolutions on a CPU, whatever way they take, are torch's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from fedlib.models import convolution

# What each kind of layer is: images, weights, stride, padding.
KINDS = {
    "late": ((2, 256, 3, 3), (256, 256, 3, 3), (1, 1), (1, 1)),
    "late, strided": ((2, 128, 5, 4), (256, 128, 3, 3), (2, 2), (1, 1)),
    "late, not square": ((1, 300, 3, 4), (128, 300, 2, 3), (1, 2), (0, 1)),
    "late, one point": ((2, 256, 1, 1), (256, 256, 3, 3), (1, 1), (1, 1)),
    "late, 1x1": ((2, 300, 2, 2), (400, 300, 1, 1), (1, 1), (0, 0)),
    "early": ((2, 3, 12, 12), (8, 3, 3, 3), (1, 1), (1, 1)),
}


def gradients(function: object, x: Tensor, weight: Tensor, bias: Tensor) -> list[Tensor]:
    leaves = [each.clone().requires_grad_() for each in (x, weight, bias)]
    y = function(*leaves)  # type: ignore[operator]
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), leaves)]


def made(kind: str, dtype: torch.dtype) -> tuple[list[Tensor], tuple[int, int], tuple[int, int]]:
    shape, weights, stride, padding = KINDS[kind]
    draw = torch.Generator().manual_seed(0)
    sizes = (shape, weights, weights[:1])
    tensors = [torch.randn(*size, generator=draw).to(dtype) for size in sizes]
    return tensors, stride, padding


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_and_gradients_are_those_of_torch(kind: str) -> None:
    tensors, stride, padding = made(kind, torch.float64)
    assert convolution._late(*tensors[:2], stride, padding) == kind.startswith("late")
    ours = gradients(lambda x, w, b: convolution.on_cpu(x, w, b, stride, padding), *tensors)
    theirs = gradients(lambda x, w, b: F.conv2d(x, w, b, stride, padding), *tensors)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-10)


def test_a_frozen_weight_or_input_has_no_gradient() -> None:
    (x, weight, bias), stride, padding = made("late", torch.float64)
    for trained in (x, weight):
        trained.requires_grad_()
        y = convolution.on_cpu(x, weight, bias, stride, padding)
        (found,) = torch.autograd.grad(y.square().sum(), [trained])
        trained.requires_grad_(False)
        leaf = trained.clone().requires_grad_()
        given = (leaf, weight) if trained is x else (x, leaf)
        exact = F.conv2d(*given, bias, stride, padding).square().sum()
        torch.testing.assert_close(found, torch.autograd.grad(exact, [leaf])[0])
