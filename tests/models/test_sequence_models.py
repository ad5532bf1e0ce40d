"""Texts: padding, DistilBERT's parts and published weights, and training on tokens."""

import sys

import pytest
import torch

from fedlib import randomness
from fedlib.models import AttentionClassifier, DistilBERT
from fedlib.models.attention import SelfAttention
from tests.models.oracles import TINY, call, flat_rows, texts
from tests.refusals import refused


def test_distilbert_of_an_empty_text_is_finite():
    model = DistilBERT(3, **TINY).double()
    x = torch.zeros(2, 4, dtype=torch.int64)
    for training in (True, False):
        y = model.train(training)(x)
        gradients = torch.autograd.grad(y.sum(), list(model.parameters()), allow_unused=True)
        assert torch.isfinite(y).all()
        assert all(torch.isfinite(g).all() for g in gradients if g is not None)


def test_attention_dropout_drops_weights_and_keeps_the_mean():
    """With equal scores and values of one the output is the mean of the kept weights."""
    layer = SelfAttention(2, 1, dropout=0.25).double()
    for name, parameter in layer.named_parameters():
        parameter.data.zero_()
        if name == "value.bias":
            parameter.data.fill_(1.0)
        elif name == "output.weight":
            parameter.data.copy_(torch.eye(2))
    x = torch.zeros(200, 8, 2, dtype=torch.float64)
    everything = torch.ones(200, 8, dtype=torch.bool)
    with randomness.masks(torch.tensor(3)):
        y = layer(x, everything)
    kept = y[..., 0] * 8 * 0.75
    torch.testing.assert_close(kept, kept.round(), rtol=0, atol=1e-3)
    assert set(kept.round().unique().tolist()) >= {4.0, 5.0, 6.0, 7.0, 8.0}
    assert y.mean().item() == pytest.approx(1.0, abs=0.02)
    y = layer.eval()(x, everything)
    torch.testing.assert_close(y, torch.ones_like(x), rtol=0, atol=1e-12)


def test_training_without_dropout_equals_evaluation():
    """The attention is written out while it trains, and torch's own otherwise."""
    model = DistilBERT(3, **TINY, dropout=1e-9, head_dropout=0.0).double()
    _, views = flat_rows(model, 4)
    x = texts(2)
    with randomness.masks(torch.tensor([21, 22])):
        trains, evaluates = call(model, views, x), call(model.eval(), views, x)
    torch.testing.assert_close(trains, evaluates, rtol=0, atol=1e-7)


def test_errors_say_what_is_allowed():
    refused("number of heads is 4 .allowed: a divisor of the size 6", SelfAttention, 6, 4)
    text = torch.ones(1, 9, dtype=torch.int64)
    refused(r"number of tokens in a text is 9 .allowed: 1\.\.8", DistilBERT(3, **TINY), text)


def test_without_transformers_there_are_no_pretrained_weights(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = r"need the package transformers: pip install 'fedlib\[text\]'"
    refused(message, DistilBERT(3, **TINY).load_pretrained)


# What follows needs the extra "text".


def published(tmp_path):
    """A small random model of transformers, saved to ``tmp_path``."""
    transformers = pytest.importorskip("transformers")
    tiny = {"vocab_size": 11, "max_position_embeddings": 8, "dim": 6, "num_labels": 3}
    tiny |= {"n_layers": 2, "n_heads": 2, "hidden_dim": 10}
    config = transformers.DistilBertConfig(**tiny)
    model = transformers.DistilBertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    return model.double().eval()


def test_distilbert_equals_transformers_own(tmp_path):
    theirs = published(tmp_path)
    model = DistilBERT(3, **TINY).load_pretrained(str(tmp_path)).double().eval()
    for layer in ("pre_classifier", "classifier"):
        getattr(model, layer).load_state_dict(getattr(theirs, layer).state_dict())
    x = texts(1)[0].long()
    expected = theirs(input_ids=x, attention_mask=(x != 0).long()).logits
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-10)


def test_weights_that_are_missing_or_of_another_size_are_refused(tmp_path):
    published(tmp_path / "small")
    for folder, other, message in (
        ("small", {"vocab": 12}, r"word_embeddings.weight is of shape \(11, 6\), but this"),
        ("small", {"layers": 3}, r"transformer.layer.2.* is missing"),
        ("nowhere", {}, "taking the weights .* fails: OSError"),
    ):
        refused(message, DistilBERT(3, **TINY | other).load_pretrained, str(tmp_path / folder))


# The engine, end to end.


def test_the_attention_classifier_adds_up_the_words_and_not_the_padding():
    model = AttentionClassifier(3, vocab=9, positions=6, size=4).double()
    text = torch.tensor([[5, 2, 7, 0, 0, 0]])
    short = model(text[:, :3])
    assert torch.allclose(model(text), short, rtol=0, atol=1e-12)
    assert not torch.allclose(model(torch.tensor([[5, 2, 7, 8, 0, 0]])), short)
    with torch.no_grad():
        for layer in (model.attention.output.weight, model.attention.output.bias):
            layer.zero_()
    vectors = model.words.weight[text[0, :3]] + model.positions.weight[:3]
    expected = model.dense(torch.relu(model.dense1(vectors.sum(0))))
    assert torch.allclose(model(text)[0], expected, rtol=0, atol=1e-12)
