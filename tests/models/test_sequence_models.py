"""Models of texts against the same networks built of torch's own layers, row by row."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fedlib
from fedlib import randomness
from fedlib.errors import Error
from fedlib.losses import sequence_cross_entropy
from fedlib.models import DistilBERT, NextWordLSTM, Sent140LSTM, ShakespeareLSTM, TagModel
from fedlib.models.attention import SelfAttention
from fedlib.models.distilbert import published_name

Weights = dict[str, Tensor]
ROWS = [(1, 1), (3, 3), (6, 3), (4, 1)]
BATCH, STEPS = 4, 6
VECTORS = torch.linspace(-1, 1, 11 * 5).view(11, 5)
TINY = {"vocab": 11, "positions": 8, "dim": 6, "layers": 2, "heads": 2, "hidden": 10}


def lstm(w: Weights, name: str, x: Tensor) -> Tensor:
    """torch.nn.LSTM with one bias vector or two."""
    module = nn.LSTM(x.shape[-1], w[name + ".weight_hh"].shape[-1], batch_first=True).double()
    own = {f"weight_{part}_l0": w[f"{name}.weight_{part}"] for part in ("ih", "hh")}
    own["bias_ih_l0"] = w[name + ".bias"]
    own["bias_hh_l0"] = w.get(name + ".bias_hh", torch.zeros_like(w[name + ".bias"]))
    y: Tensor = torch.func.functional_call(module, own, (x,))[0]
    return y


def text_by_text(w: Weights, names: list[str], x: Tensor) -> Tensor:
    """LSTMs on the tokens before the padding; what follows repeats the last output (or zero)."""
    outputs = []
    for ids in x:
        length = int((ids != 0).sum())
        y = F.embedding(ids[None, :length].long(), w["embedding.weight"])
        for name in names:
            y = lstm(w, name, y) if length else y.new_zeros(1, 0, len(w[name + ".bias"]) // 4)
        last = y[0, -1:] if length else y.new_zeros(1, y.shape[-1])
        outputs.append(torch.cat([y[0], last.expand(len(ids) - length, -1)]))
    return torch.stack(outputs)


def shakespeare(w: Weights, x: Tensor) -> Tensor:
    return text_by_text(w, ["lstm1", "lstm2"], x) @ w["dense.weight"].T + w["dense.bias"]


def next_word(w: Weights, x: Tensor) -> Tensor:
    h = text_by_text(w, ["lstm"], x) @ w["dense1.weight"].T + w["dense1.bias"]
    return h @ w["dense2.weight"].T + w["dense2.bias"]


def sent140(w: Weights, x: Tensor) -> Tensor:
    y = lstm(w, "lstm2", lstm(w, "lstm1", F.embedding(x.long(), VECTORS.double())))
    return y[:, -1] @ w["dense.weight"].T + w["dense.bias"]


def tags(w: Weights, x: Tensor) -> Tensor:
    return x @ w["linear.weight"].T + w["linear.bias"]


def distilbert(w: Weights, x: Tensor) -> Tensor:
    """torch.nn.TransformerEncoderLayer, which norms after its sums too."""
    y = w["words.weight"][x.long()] + w["positions.weight"][: x.shape[-1]]
    y = F.layer_norm(y, y.shape[-1:], w["norm.weight"], w["norm.bias"], 1e-12)
    for block in range(2):
        at = f"blocks.{block}."
        layer = nn.TransformerEncoderLayer(
            6, 2, 10, 0.0, "gelu", 1e-12, batch_first=True, dtype=torch.float64
        )
        three = [at + f"attention.{part}." for part in ("query", "key", "value")]
        own = {
            "self_attn.in_proj_weight": torch.cat([w[name + "weight"] for name in three]),
            "self_attn.in_proj_bias": torch.cat([w[name + "bias"] for name in three]),
        }
        for theirs, mine in (
            ("self_attn.out_proj.", "attention.output."),
            ("linear1.", "dense1."),
            ("linear2.", "dense2."),
            ("norm1.", "norm1."),
            ("norm2.", "norm2."),
        ):
            for kind in ("weight", "bias"):
                own[theirs + kind] = w[at + mine + kind]
        y = torch.func.functional_call(layer, own, (y,), {"src_key_padding_mask": x == 0})
    y = F.relu(y[:, 0] @ w["pre_classifier.weight"].T + w["pre_classifier.bias"])
    return y @ w["classifier.weight"].T + w["classifier.bias"]


def texts(groups: int) -> Tensor:
    """int16 ``[G, 4, 6]`` with padding at the ends; one text is all padding but its first token."""
    x = torch.randint(1, 11, (groups, BATCH, STEPS), dtype=torch.int16)
    x[:, 1, 4:] = 0
    x[:, 2, 1:] = 0
    return x


def bags(groups: int) -> Tensor:
    return torch.rand(groups, BATCH, 7, dtype=torch.float64)


Oracle = Callable[[Weights, Tensor], Tensor]
MODELS: dict[str, tuple[Callable[[], nn.Module], Oracle, Callable[[int], Tensor]]] = {
    "shakespeare": (lambda: ShakespeareLSTM(11, width=0.02), shakespeare, texts),
    "next word": (lambda: NextWordLSTM(7, width=0.02), next_word, texts),
    "sent140": (lambda: Sent140LSTM(VECTORS, width=0.05), sent140, texts),
    "tags": (lambda: TagModel(7, 5), tags, bags),
    "distilbert": (lambda: DistilBERT(3, **TINY), distilbert, texts),
}
SHAPES = {
    "shakespeare": (STEPS, 11),
    "next word": (STEPS, 11),
    "sent140": (2,),
    "tags": (5,),
    "distilbert": (3,),
}


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def trained(model: nn.Module) -> dict[str, nn.Parameter]:
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def flat_rows(model: nn.Module, rows: int) -> tuple[Tensor, Weights]:
    """The trained parameters, disturbed differently in each row: a tensor [R, P], and its views."""
    own = trained(model)
    base = torch.cat([p.detach().flatten() for p in own.values()]).double()
    flat = (base + 0.3 * torch.randn(rows, len(base), dtype=torch.float64)).requires_grad_()
    parts = flat.split([p.numel() for p in own.values()], dim=1)
    named = zip(own.items(), parts, strict=True)
    return flat, {name: part.view(rows, *p.shape) for (name, p), part in named}


def call(model: nn.Module, views: Weights, x: Tensor) -> Tensor:
    """The model with its trained parameters replaced by views, as the engine does."""
    original = trained(model)
    for source in (views, original):
        if source is original:
            y: Tensor = model(x)
        for name, value in source.items():
            owner, _, leaf = name.rpartition(".")
            model.get_submodule(owner)._parameters[leaf] = value  # type: ignore[assignment]
    return y


@pytest.mark.parametrize(("rows", "groups"), ROWS)
@pytest.mark.parametrize("name", MODELS)
def test_rows_equal_a_loop_over_the_network_built_by_torch(
    name: str, rows: int, groups: int
) -> None:
    make, oracle, inputs = MODELS[name]
    model = make().double().eval()
    flat, views = flat_rows(model, rows)
    x = inputs(groups)
    expected = torch.stack(
        [
            oracle({key: value[row] for key, value in views.items()}, x[row // (rows // groups)])
            for row in range(rows)
        ]
    )
    assert expected.shape == (rows, BATCH, *SHAPES[name])
    direction = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad((expected * direction).sum(), flat)

    got = call(model, views, x)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    (gradient,) = torch.autograd.grad((got * direction).sum(), flat)
    torch.testing.assert_close(gradient, wanted, rtol=1e-10, atol=1e-10)
    assert (gradient != 0).any(dim=1).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_an_ordinary_module(name: str) -> None:
    make, oracle, inputs = MODELS[name]
    model = make().double().eval()
    x = inputs(1)[0]
    expected = oracle(dict(model.named_parameters()), x)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-10)
    assert model.carries_rows
    if hasattr(model, "features"):
        z = model.features(x)
        assert z.shape[:-1] == expected.shape[:-1]
        assert torch.equal(model.head(z), model(x))


def count(model: nn.Module) -> int:
    return sum(p.numel() for p in trained(model).values())


def test_parameter_counts_are_the_papers() -> None:
    assert count(ShakespeareLSTM()) == 820_522
    assert count(NextWordLSTM()) == 4_050_748
    assert count(Sent140LSTM(torch.zeros(50, 300))) == 241_802
    assert count(TagModel()) == 5_000_500
    # Table 5 and Table 6 of FedOpt, layer by layer.
    layers = dict(ShakespeareLSTM().named_children())
    assert [count(layer) for layer in layers.values()] == [720, 271_360, 525_312, 23_130]
    layers = dict(NextWordLSTM().named_children())
    assert [count(layer) for layer in layers.values()] == [960_384, 2_055_560, 64_416, 970_388]


def test_parameter_counts_of_distilbert_at_full_size() -> None:
    with torch.device("meta"):
        assert count(DistilBERT(classes=4)) == 66_956_548
        assert count(DistilBERT(classes=14)) == 66_964_238


def test_width_scales_the_hidden_sizes() -> None:
    narrow = ShakespeareLSTM(width=0.25)
    assert narrow.embedding.weight.shape == (90, 2) and narrow.lstm2.units == 64
    words = NextWordLSTM(100, width=0.1)
    assert words.embedding.weight.shape == (104, 10) and words.lstm.units == 67
    assert words.dense1.out_features == 10 and words.dense2.out_features == 104
    assert Sent140LSTM(VECTORS, width=0.5).lstm1.weight_ih.shape == (200, 5)
    bert = DistilBERT(vocab=9, width=0.25, layers=1)
    assert bert.words.weight.shape == (9, 192) and bert.blocks[0].attention.heads == 3
    assert bert.blocks[0].dense1.out_features == 768
    for make in (ShakespeareLSTM, NextWordLSTM, DistilBERT):
        with pytest.raises(Error, match="width"):
            make(width=-1.0)


def test_initial_values() -> None:
    model = ShakespeareLSTM(width=0.5)
    assert model.lstm2.weight_ih.std().item() == pytest.approx((2 / 128) ** 0.5, rel=0.02)
    assert model.lstm1.bias.sum() == 128  # the forget gates'
    assert model.embedding.weight.abs().max() <= 0.05
    assert not model.dense.bias.any()
    sent = Sent140LSTM(VECTORS)
    assert torch.equal(sent.embedding.weight, VECTORS)
    assert sent.lstm2.bias_hh is not None and 0.09 < sent.lstm2.bias_hh.abs().max() <= 0.1
    bert = DistilBERT(vocab=500, width=0.25, layers=1)
    for name, parameter in bert.named_parameters():
        if name.endswith("bias"):
            assert not parameter.any(), name
        elif "norm" in name:
            assert (parameter == 1).all(), name
        else:
            assert parameter.std().item() == pytest.approx(0.02, rel=0.05), name
    assert not bert.words.weight[0].any() and bert.words.weight[1].any()


@pytest.mark.parametrize("name", ["shakespeare", "next word", "distilbert"])
def test_padding_changes_nothing_before_it(name: str) -> None:
    model = MODELS[name][0]().double().eval()
    short = torch.randint(1, 11, (3, 4))
    long = F.pad(short, (0, 2))
    if name == "distilbert":
        torch.testing.assert_close(model(long), model(short), rtol=0, atol=1e-12)
        return
    y = model(long)
    torch.testing.assert_close(y[:, :4], model(short), rtol=0, atol=1e-12)
    assert torch.equal(y[:, 4], y[:, 3]) and torch.equal(y[:, 5], y[:, 3])
    # An empty text leaves the LSTMs' outputs at their zeros, so no bias of theirs shows.
    empty = model.features(torch.zeros(1, 4, dtype=torch.int64))
    assert not empty.any()


def test_distilbert_of_an_empty_text_is_finite() -> None:
    model = DistilBERT(3, **TINY).double()
    x = torch.zeros(2, 4, dtype=torch.int64)
    for training in (True, False):
        y = model.train(training)(x)
        gradients = torch.autograd.grad(y.sum(), list(model.parameters()), allow_unused=True)
        assert torch.isfinite(y).all()
        assert all(torch.isfinite(g).all() for g in gradients if g is not None)


def test_attention_dropout_drops_weights_and_keeps_the_mean() -> None:
    """With equal scores and values of one the output is the mean of the kept weights."""
    layer = SelfAttention(2, 1, dropout=0.25).double()
    for name, parameter in layer.named_parameters():
        parameter.data.zero_()
        if name == "value.bias":
            parameter.data.fill_(1.0)
        elif name == "output.weight":
            parameter.data.copy_(torch.eye(2))
    x = torch.zeros(200, 8, 2, dtype=torch.float64)
    with randomness.masks(torch.tensor(3)):
        y = layer(x)
    kept = y[..., 0] * 8 * 0.75
    torch.testing.assert_close(kept, kept.round(), rtol=0, atol=1e-3)
    assert set(kept.round().unique().tolist()) >= {4.0, 5.0, 6.0, 7.0, 8.0}
    assert y.mean().item() == pytest.approx(1.0, abs=0.02)
    torch.testing.assert_close(layer.eval()(x), torch.ones_like(x), rtol=0, atol=1e-12)


def test_dropout_is_a_rows_own_and_shared_by_a_clients_configurations() -> None:
    model = DistilBERT(3, **TINY).double()
    _, views = flat_rows(model, 4)
    x = texts(2)
    keys = torch.tensor([21, 22], dtype=torch.int64)
    with randomness.masks(keys):
        together = call(model, views, x)
    for row in range(4):
        with randomness.masks(keys[row // 2]):
            alone = call(model, {n: v[row] for n, v in views.items()}, x[row // 2])
        torch.testing.assert_close(together[row], alone, rtol=0, atol=1e-10)
    with randomness.masks(keys + 2):
        assert not torch.allclose(together, call(model, views, x))
    assert not torch.allclose(together, call(model.eval(), views, x))


def test_training_without_dropout_equals_evaluation() -> None:
    """The attention is written out while it trains, and torch's own otherwise."""
    model = DistilBERT(3, **TINY, dropout=1e-9, head_dropout=0.0).double()
    _, views = flat_rows(model, 4)
    x = texts(2)
    keys = torch.tensor([21, 22], dtype=torch.int64)
    with randomness.masks(keys):
        torch.testing.assert_close(
            call(model, views, x), call(model.eval(), views, x), rtol=0, atol=1e-7
        )


def test_errors_say_what_is_allowed() -> None:
    with pytest.raises(Error, match=r"number of heads is 4; allowed: a divisor of the size 6"):
        SelfAttention(6, 4)
    with pytest.raises(Error, match=r"number of tokens in a text is 9; allowed: 1\.\.8"):
        DistilBERT(3, **TINY)(torch.ones(1, 9, dtype=torch.int64))


def test_without_transformers_there_are_no_pretrained_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(Error, match=r"need the package transformers; pip install 'fedlib\[text\]'"):
        DistilBERT(3, **TINY).load_pretrained()


# What follows needs the extra "text".


def published(tmp_path: Path, **changes: Any) -> Any:
    """A small random model of transformers, saved to ``tmp_path``."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=11,
        max_position_embeddings=8,
        dim=6,
        n_layers=2,
        n_heads=2,
        hidden_dim=10,
        num_labels=3,
        **changes,
    )
    model = transformers.DistilBertForSequenceClassification(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    model.save_pretrained(tmp_path)
    return model.double().eval()


def test_distilbert_equals_transformers_own(tmp_path: Path) -> None:
    theirs = published(tmp_path)
    model = DistilBERT(3, **TINY).load_pretrained(str(tmp_path)).double().eval()
    for layer in ("pre_classifier", "classifier"):
        getattr(model, layer).load_state_dict(getattr(theirs, layer).state_dict())
    x = texts(1)[0].long()
    expected = theirs(input_ids=x, attention_mask=(x != 0).long()).logits
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(expected)
    wanted = dict(theirs.named_parameters())
    gradients = torch.autograd.grad((expected * direction).sum(), list(wanted.values()))
    wanted = dict(zip(wanted, gradients, strict=True))
    own = dict(model.named_parameters())
    got = torch.autograd.grad((model(x) * direction).sum(), list(own.values()))
    assert len(own) == len(wanted)
    for name, gradient in zip(own, got, strict=True):
        head = name.startswith(("pre_classifier.", "classifier."))
        other = wanted[name if head else f"distilbert.{published_name(name)}"]
        torch.testing.assert_close(gradient, other, rtol=0, atol=1e-10)


def test_full_size_counts_are_transformers_own() -> None:
    transformers = pytest.importorskip("transformers")
    for classes in (4, 14):
        with torch.device("meta"):
            theirs = transformers.DistilBertForSequenceClassification(
                transformers.DistilBertConfig(num_labels=classes)
            )
            ours = DistilBERT(classes)
        assert count(ours) == sum(p.numel() for p in theirs.parameters())


def test_weights_that_are_missing_or_of_another_size_are_refused(tmp_path: Path) -> None:
    published(tmp_path / "small")
    with pytest.raises(
        Error, match=r"word_embeddings.weight is of shape \(11, 6\), but this model"
    ):
        DistilBERT(3, **{**TINY, "vocab": 12}).load_pretrained(str(tmp_path / "small"))
    with pytest.raises(Error, match=r"transformer.layer.2.* is missing"):
        DistilBERT(3, **{**TINY, "layers": 3}).load_pretrained(str(tmp_path / "small"))
    with pytest.raises(Error, match="neither on this disk nor could they be downloaded"):
        DistilBERT(3, **TINY).load_pretrained(str(tmp_path / "nowhere"))


# The engine, end to end.


def token_task(name: str) -> fedlib.Task:
    """Five clients of unequal numbers of int16 texts."""
    make, _, inputs = MODELS[name]
    x = torch.cat([inputs(5).flatten(0, 1), inputs(1)[0]])
    y = x.roll(-1, -1) if len(SHAPES[name]) == 2 else x[:, 0].long() % 2
    parts = [
        np.arange(start, start + size) for start, size in ((0, 7), (7, 2), (9, 4), (13, 6), (19, 5))
    ]
    data = fedlib.ClientData(x, y, parts)
    loss = {"loss": sequence_cross_entropy, "metrics": {}} if len(SHAPES[name]) == 2 else {}
    return fedlib.Task("texts", make, data, data, batch_size=3, clients_per_round=4, **loss)


@pytest.mark.parametrize("name", ["shakespeare", "next word", "sent140", "distilbert"])
def test_backends_agree_on_a_task_of_texts(name: str) -> None:
    task = token_task(name)
    runs = [
        fedlib.run(
            task,
            "fedavg",
            rounds=2,
            seed=1,
            dtype="float64",
            backend=backend,
            overrides={"client_lr": 0.5},
        )
        for backend in ("vectorized", "reference")
    ]
    a, b = (run.frame["value"].to_numpy() for run in runs)
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    for key, value in runs[0].params.items():
        torch.testing.assert_close(value, runs[1].params[key], rtol=0, atol=1e-10)
    losses = runs[0].series("loss")
    assert abs(losses.iloc[-1] - losses.iloc[0]) > 1e-4
    if name == "sent140":
        assert torch.equal(runs[0].params["embedding.weight"], VECTORS.double())
