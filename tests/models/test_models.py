"""All architectures: with rows and without against their oracles, sizes and initial values."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from fedlib import models, randomness
from fedlib.models import (
    EMNISTCNN,
    MLP,
    VGG11,
    DeltaCNN,
    DistilBERT,
    ResNet,
    ResNet18GN,
    Softmax,
    convolution,
)
from tests.models.oracles import MODELS, ROWS, VECTORS, call, count, flat_rows, without_dropout
from tests.refusals import refused


@pytest.mark.parametrize(("rows", "groups"), ROWS)
@pytest.mark.parametrize(
    ("name", "apart"), [*((name, False) for name in MODELS), ("emnist_cnn", True)]
)
def test_rows_equal_a_loop_over_the_written_out_network(name, apart, rows, groups, monkeypatch):
    """Rows' convolutions as one, and where a CPU is faster so, one after the other."""
    monkeypatch.setattr(convolution, "PRODUCTS", 1 if apart else math.inf)
    make, oracle, inputs, outputs, _ = MODELS[name]
    model = without_dropout(make())
    flat, views = flat_rows(model, rows)
    x = inputs(groups)
    expected = torch.stack(
        [
            oracle({key: value[row] for key, value in views.items()}, x[row // (rows // groups)])
            for row in range(rows)
        ]
    )
    assert expected.shape == (rows, x.shape[1], *outputs)
    direction = torch.randn_like(expected)
    (wanted,) = torch.autograd.grad((expected * direction).sum(), flat, retain_graph=True)

    got = call(model, views, x)
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-10)
    (gradient,) = torch.autograd.grad((got * direction).sum(), flat)
    torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)
    assert (gradient != 0).any(dim=1).all()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_an_ordinary_module_and_its_head_on_its_features(name):
    make, oracle, inputs, _, features = MODELS[name]
    model = without_dropout(make())
    x = inputs(1)[0]
    expected = oracle(dict(model.named_parameters()), x)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-10)
    assert model.carries_rows and hasattr(model, "features") == bool(features)
    if features:
        z = model.features(x)
        assert z.shape == (*(expected.shape[:-1]), features)
        assert torch.equal(model.head(z), model(x))


@pytest.mark.parametrize("name", ["emnist_cnn", "delta_cnn", "vgg11", "distilbert"])
def test_dropout_is_a_clients_own_and_shared_by_its_configurations(name):
    make, _, inputs, _, _ = MODELS[name]
    model = make().double()
    _, views = flat_rows(model, 4)
    x = inputs(2)
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


@pytest.mark.parametrize(
    ("model", "order"),
    [
        (DeltaCNN(), "Conv2d MaxPool2d Conv2d Dropout2d MaxPool2d Flatten Linear Dropout Linear"),
        (EMNISTCNN(width=0.1), "Conv2d Conv2d MaxPool2d Dropout Flatten Linear Dropout Linear"),
    ],
)
def test_layers_are_called_in_the_authors_order(model, order):
    called = []
    for layer in model.children():
        layer.register_forward_hook(lambda layer, *_: called.append(type(layer).__name__))
    model(torch.rand(2, 1, 28, 28))
    assert called == order.split()


def test_parameter_counts_are_the_papers():
    """Those of images and of Synthetic: tests/tasks."""
    assert count(models.Sent140LSTM(torch.zeros(50, 300))) == 241_802
    assert count(models.TagModel()) == 5_000_500
    # Table 5 and Table 6 of FedOpt, layer by layer.
    layers = dict(models.ShakespeareLSTM().named_children())
    assert [count(layer) for layer in layers.values()] == [720, 271_360, 525_312, 23_130]
    layers = dict(models.NextWordLSTM().named_children())
    assert [count(layer) for layer in layers.values()] == [960_384, 2_055_560, 64_416, 970_388]
    with torch.device("meta"):
        assert count(DistilBERT(classes=4)) == 66_956_548
        assert count(DistilBERT(classes=14)) == 66_964_238


def test_width_scales_hidden_layers_alone():
    narrow = EMNISTCNN(classes=10, width=0.25)
    assert count(narrow) == (9 * 8 + 8) + (9 * 8 * 16 + 16) + (2304 * 32 + 32) + (32 * 10 + 10)
    model = ResNet18GN(width=0.05, groups=4)  # in multiples of the groups
    channels = [layer.num_channels for layer in model.modules() if isinstance(layer, nn.GroupNorm)]
    assert sorted(set(channels)) == [4, 8, 12, 24]
    words = models.NextWordLSTM(100, width=0.1)
    assert words.embedding.weight.shape == (104, 10) and words.lstm.units == 67
    bert = DistilBERT(vocab=9, width=0.25, layers=1)
    assert bert.words.weight.shape == (9, 192) and bert.blocks[0].attention.heads == 3


def glorot(weight):
    receptive = weight[0, 0].numel()
    bound = math.sqrt(6 / (receptive * sum(weight.shape[:2])))
    return bool(0.95 * bound < weight.abs().max() <= bound)


def deviates(std):
    return lambda weight: weight.std().item() == pytest.approx(std(weight), rel=0.05)


HE = deviates(lambda weight: math.sqrt(2 / weight[0].numel()))
# How weights begin, by how their names do; biases are 0, scales of norms 1.
INITIAL = [
    (ResNet18GN, {"dense": deviates(lambda _: 0.01), "": HE}),
    (EMNISTCNN, {"dense1": glorot, "conv2": glorot}),
    (MLP, {"": glorot}),
    (models.EMNISTAutoencoder, {"": glorot}),
    (partial(models.ShakespeareLSTM, width=0.5), {"lstm2.weight_ih": HE}),
    (VGG11, {"conv": deviates(lambda weight: math.sqrt(2 / (9 * len(weight))))}),
    (partial(DistilBERT, vocab=500, width=0.25, layers=1), {"": deviates(lambda _: 0.02)}),
]


@pytest.mark.parametrize(("make", "rules"), INITIAL)
def test_initial_values(make, rules):
    for name, parameter in make().named_parameters():
        rule = next((rule for start, rule in rules.items() if name.startswith(start)), None)
        if "norm" in name or "shortcut.1" in name or name.endswith("bias"):
            bias = name.endswith("bias")
            assert rule is None or (parameter == (0 if bias else 1)).all(), name
        elif rule is not None:
            assert rule(parameter), name


AS_TORCH = [partial(Softmax, 60, 10), partial(MLP, 784, (128,), 62), VGG11]


@pytest.mark.parametrize("make", AS_TORCH)
def test_initial_values_as_torchs_own_layers(make):
    """Drawn in the same order from one generator, they are the same numbers as torch's layers'."""
    torch.manual_seed(5)
    model = make(init="torch")
    torch.manual_seed(5)
    for module in model.modules():
        if not isinstance(module, (nn.Linear, nn.Conv2d)):
            continue
        if isinstance(module, nn.Linear):
            plain = nn.Linear(module.in_features, module.out_features)
        else:
            plain = nn.Conv2d(module.in_channels, module.out_channels, 3)
        for (name, own), theirs in zip(module.named_parameters(), plain.parameters(), strict=True):
            assert torch.equal(own, theirs), name


REFUSED = [
    (lambda: ResNet(34), r"unknown depth of ResNet.*34.*18, 50"),
    (lambda: ResNet(18, norm="layer"), "unknown norm of ResNet 'layer'"),
    (lambda: Softmax(init="tf"), "init is 'tf' .allowed: 'keras' or 'torch'"),
    (lambda: VGG11(init="keras"), "init is 'keras' .allowed: 'fednova' or 'torch'"),
    (lambda: models.SmallCNN(1, (3, 8), 2), "size of an image is .3, 8. .allowed: 4 points"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_cannot_be_made_is_refused(make, message):
    refused(message, make)


def test_initial_values_of_text_models():
    sent = models.Sent140LSTM(VECTORS)
    assert torch.equal(sent.embedding.weight, VECTORS)
    assert sent.lstm2.bias_hh is not None and 0.09 < sent.lstm2.bias_hh.abs().max() <= 0.1
    bert = DistilBERT(vocab=9, width=0.25, layers=1)
    assert not bert.words.weight[0].any() and bert.words.weight[1].any()
