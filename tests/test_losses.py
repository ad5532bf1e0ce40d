from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from fedlib.losses import SHORT, correct, cross_entropy


@pytest.mark.parametrize("classes", [2, 10, SHORT - 1, SHORT, 62])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_cross_entropy_and_its_gradient_equal_torchs(classes: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(classes)
    logits = scale * torch.randn(4, 5, classes, generator=generator, dtype=torch.float64)
    targets = torch.randint(classes, (4, 5), generator=generator)
    weights = torch.rand(4, 5, generator=generator, dtype=torch.float64)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    a = cross_entropy(ours, targets)
    b = F.cross_entropy(theirs.flatten(0, 1), targets.flatten(), reduction="none").view(4, 5)
    assert torch.allclose(a, b, atol=1e-12, rtol=1e-12)
    (grad_a,) = torch.autograd.grad(a, ours, weights)
    (grad_b,) = torch.autograd.grad(b, theirs, weights)
    assert torch.allclose(grad_a, grad_b, atol=1e-12, rtol=1e-12)


def test_cross_entropy_of_logits_that_are_a_transposed_view() -> None:
    logits = torch.randn(3, 10, 5).transpose(1, 2)
    targets = torch.randint(10, (3, 5))
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    assert torch.allclose(cross_entropy(logits, targets).flatten(), expected, atol=1e-6)


def test_correct_is_one_at_the_largest_output() -> None:
    outputs = torch.tensor([[[0.1, 0.9], [0.8, 0.2]]])
    assert correct(outputs, torch.tensor([[1, 1]])).tolist() == [[1.0, 0.0]]
