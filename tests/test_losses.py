"""Cross-entropy and its gradient; the losses of sequences, tags and images: tests/tasks."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedlib import losses


def test_outputs_without_an_axis_of_classes_are_no_scores():
    counts = torch.arange(9)
    assert not losses.of_classes(torch.zeros(4), counts)
    assert losses.of_classes(torch.zeros(4, 10), counts)
    assert losses.of_classes(torch.zeros(4, 5, 10), counts.expand(3, 9)[:, :5])


@pytest.mark.parametrize("classes", [2, 10, losses.SHORT - 1, losses.SHORT, 62])
@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_cross_entropy_and_its_gradient_equal_torchs(classes, scale):
    generator = torch.Generator().manual_seed(classes)
    logits = torch.randn(4, classes, 5, generator=generator, dtype=torch.float64)
    logits = scale * logits.transpose(1, 2)  # a view that is not contiguous
    targets = torch.randint(classes, (4, 5), generator=generator)
    weights = torch.rand(4, 5, generator=generator, dtype=torch.float64)
    ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    a = losses.cross_entropy(ours, targets)
    b = F.cross_entropy(theirs.transpose(1, 2), targets, reduction="none")
    assert torch.allclose(a, b, atol=1e-12, rtol=1e-12)
    (grad_a,) = torch.autograd.grad(a, ours, weights)
    (grad_b,) = torch.autograd.grad(b, theirs, weights)
    assert torch.allclose(grad_a, grad_b, atol=1e-12, rtol=1e-12)


def test_a_loss_that_has_been_used_in_float32_keeps_its_float64_weights():
    weight = torch.tensor([0.1, 0.7], dtype=torch.float64)
    outputs, targets = torch.randn(1, 6, 2, dtype=torch.float64), torch.arange(6).view(1, 6) % 2
    loss, untouched = (losses.OfTorch(nn.CrossEntropyLoss(weight=weight)) for _ in range(2))
    loss(outputs.float(), targets)
    assert torch.equal(loss(outputs, targets), untouched(outputs, targets))
    loss.loss.weight.mul_(2)  # and takes a change
    assert torch.equal(loss.counted(targets[0]), 2 * untouched.counted(targets[0]))
    assert torch.equal(loss(outputs, targets), untouched(outputs, targets))


TOKENS = torch.randn(5, 3, 2, generator=torch.Generator().manual_seed(0))
LABELS, WEIGHTS = torch.tensor([[0, 1], [2, 2], [1, 0], [0, 0], [2, 1]]), torch.tensor([1.0, 2, 4])
REDUCED = {
    "a mean over the batch": (
        nn.KLDivLoss(reduction="batchmean"),
        TOKENS.log_softmax(1),
        TOKENS.flip(0).softmax(1),
    ),
    "a sum over tokens": (nn.CrossEntropyLoss(WEIGHTS, reduction="sum"), TOKENS, LABELS),
    "an ignored label beyond the weights": (
        nn.CrossEntropyLoss(WEIGHTS, ignore_index=255),
        TOKENS,
        LABELS.where(LABELS != 1, 255),
    ),
    "one token": (nn.CrossEntropyLoss(WEIGHTS), TOKENS[..., :1].mT, LABELS[:, :1]),
}


@pytest.mark.parametrize("name", REDUCED)
def test_examples_losses_add_up_to_torchs(name):
    given, outputs, targets = REDUCED[name]
    loss = losses.OfTorch(given)
    loss.compared(outputs, targets)  # accepts them
    each, counted = loss(outputs[None], targets[None])[0], loss.counted(targets)
    whole = each.sum() if loss.total else each.mean()
    whole = whole if counted is None else (each * counted).sum() / counted.sum()
    # In torch the classes are always first.
    torchs = given(outputs.mT if name == "one token" else outputs, targets)
    torch.testing.assert_close(whole, torchs)
