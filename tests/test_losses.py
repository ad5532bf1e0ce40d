import pytest
import torch
import torch.nn.functional as F

from fedlib import losses


@pytest.mark.parametrize("classes", [2, 10, losses.SHORT - 1, losses.SHORT, 62])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_cross_entropy_and_its_gradient_equal_torchs(classes, scale):
    generator = torch.Generator().manual_seed(classes)
    logits = scale * torch.randn(4, 5, classes, generator=generator, dtype=torch.float64)
    targets = torch.randint(classes, (4, 5), generator=generator)
    weights = torch.rand(4, 5, generator=generator, dtype=torch.float64)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    a = losses.cross_entropy(ours, targets)
    b = F.cross_entropy(theirs.flatten(0, 1), targets.flatten(), reduction="none").view(4, 5)
    assert torch.allclose(a, b, atol=1e-12, rtol=1e-12)
    (grad_a,) = torch.autograd.grad(a, ours, weights)
    (grad_b,) = torch.autograd.grad(b, theirs, weights)
    assert torch.allclose(grad_a, grad_b, atol=1e-12, rtol=1e-12)


def test_cross_entropy_of_logits_that_are_a_transposed_view():
    logits = torch.randn(3, 10, 5).transpose(1, 2)
    targets = torch.randint(10, (3, 5))
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    assert torch.allclose(losses.cross_entropy(logits, targets).flatten(), expected, atol=1e-6)


def test_sequence_cross_entropy_averages_over_padding_too():
    outputs = torch.randn(2, 3, 4, 7, dtype=torch.float64)
    targets = torch.randint(7, (2, 3, 4), dtype=torch.int16)
    ours = losses.sequence_cross_entropy(outputs, targets)
    for r in range(2):
        for b in range(3):
            expected = F.cross_entropy(outputs[r, b], targets[r, b].long())
            assert float(ours[r, b]) == pytest.approx(float(expected), abs=1e-12)


def test_autoencoder_and_tag_losses_equal_torchs():
    outputs, targets = torch.randn(2, 3, 5), torch.rand(2, 3, 5).round()
    assert torch.allclose(
        losses.binary_cross_entropy(outputs, targets.to(torch.int16)),
        F.binary_cross_entropy_with_logits(outputs, targets, reduction="none").mean(-1),
    )
    expected = F.mse_loss(outputs, targets, reduction="none").mean(-1)
    assert torch.allclose(losses.squared_error(outputs, targets), expected)


def test_recall_at_5_counts_true_tags_among_the_five_largest():
    outputs = torch.arange(8.0).view(1, 1, 8)  # the five largest are 3..7
    targets = torch.tensor([[[1, 0, 0, 1, 0, 0, 0, 1]]])
    above, below = losses.recall_at_5(outputs, targets)
    assert (above.item(), below.item()) == (2.0, 3.0)
