"""Every architecture written out with torch's functions, and models with rows as in the engine.

An oracle takes one model's weights by name and inputs ``[B, ...]``.
"""

import itertools
import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from fedlib import models
from fedlib.models import EMNISTCNN, EMNISTAutoencoder, ResNet18GN, ShakespeareLSTM, SmallCNN

# (R, G): one row; a configuration on several clients; several on several; several on one.
ROWS = [(1, 1), (3, 3), (6, 3), (4, 1)]
BATCH, STEPS = 4, 6
VECTORS = torch.linspace(-1, 1, 11 * 5).view(11, 5)
TINY = {"vocab": 11, "positions": 8, "dim": 6, "layers": 2, "heads": 2, "hidden": 10}


def dense(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def linear(w, x):
    return dense(w, "linear", x)


def emnist_cnn(w, x):
    x = F.relu(F.conv2d(x, w["conv1.weight"], w["conv1.bias"]))
    x = F.relu(F.conv2d(x, w["conv2.weight"], w["conv2.bias"]))
    x = F.max_pool2d(x, 2).flatten(1)
    return dense(w, "dense2", F.relu(dense(w, "dense1", x)))


def resnet18_gn(w, x):
    def norm(name, value):
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
    return dense(w, "dense", x)


def mlp(w, x):
    return dense(w, "output", F.relu(dense(w, "hidden.1", F.relu(dense(w, "hidden.0", x)))))


def autoencoder(w, x):
    for layer in range(3):
        x = torch.sigmoid(dense(w, f"encoder.{layer}", x))
    x = dense(w, "encoder.3", x)
    for layer in range(4):
        x = torch.sigmoid(dense(w, f"decoder.{layer}", x))
    return x


def vgg11(w, x):
    convolutions = iter(sorted({int(n.split(".")[1]) for n in w if n.startswith("conv")}))
    for block in (1, 1, 2, 2, 2):
        for _ in range(block):
            at = f"convolutions.{next(convolutions)}"
            x = F.relu(F.conv2d(x, w[at + ".weight"], w[at + ".bias"], padding=1))
        x = F.max_pool2d(x, 2)
    assert x.shape[-2:] == (1, 1) and next(convolutions, None) is None
    x = F.relu(dense(w, "dense1", x.flatten(1)))
    return dense(w, "dense3", F.relu(dense(w, "dense2", x)))


def delta_cnn(w, x):
    for name in ("conv1", "conv2"):
        x = F.conv2d(x, w[name + ".weight"], w[name + ".bias"])
        x = F.relu(F.max_pool2d(x, 2))
    return dense(w, "dense2", F.relu(dense(w, "dense1", x.flatten(1))))


def small_cnn(w, x):
    for name in ("conv1", "conv2"):
        x = F.max_pool2d(F.relu(F.conv2d(x, w[name + ".weight"], w[name + ".bias"], padding=1)), 2)
    return dense(w, "dense", F.relu(dense(w, "dense1", x.flatten(1))))


# How many blocks a stage has, and the kernels of a block, by the depth of a ResNet.
BLOCKS = {18: ((2, 2, 2, 2), (3, 3)), 50: ((3, 4, 6, 3), (1, 3, 1))}


def resnet(depth, norm):
    counts, kernels = BLOCKS[depth]

    def normed(w, name, x):
        weight, bias = w[name + ".weight"], w[name + ".bias"]
        if norm == "group":
            return F.group_norm(x, 2, weight, bias)
        return F.batch_norm(x, None, None, weight, bias, training=True)

    def oracle(w, x):
        x = F.relu(normed(w, "norm", F.conv2d(x, w["conv.weight"], padding=1)))
        strides = [1] * sum(counts)
        for first in itertools.accumulate(counts[:-1]):
            strides[first] = 2
        for block, stride in enumerate(strides):
            at, y = f"blocks.{block}.", x
            for layer, kernel in enumerate(kernels):
                step = stride if kernel == 3 else 1
                stride = 1 if kernel == 3 else stride
                weight = w[f"{at}convolutions.{layer}.weight"]
                y = F.conv2d(y, weight, stride=step, padding=kernel // 2)
                y = normed(w, f"{at}norms.{layer}", y)
                y = F.relu(y) if layer < len(kernels) - 1 else y
            if at + "shortcut.0.weight" in w:
                x = F.conv2d(x, w[at + "shortcut.0.weight"], stride=strides[block])
                x = normed(w, at + "shortcut.1", x)
            x = F.relu(x + y)
        return dense(w, "dense", x.mean((2, 3)))

    return oracle


def lstm(w, name, x):
    """torch.nn.LSTM with one bias vector or two."""
    module = nn.LSTM(x.shape[-1], w[name + ".weight_hh"].shape[-1], batch_first=True).double()
    own = {f"weight_{part}_l0": w[f"{name}.weight_{part}"] for part in ("ih", "hh")}
    own["bias_ih_l0"] = w[name + ".bias"]
    own["bias_hh_l0"] = w.get(name + ".bias_hh", torch.zeros_like(w[name + ".bias"]))
    return torch.func.functional_call(module, own, (x,))[0]


def text_by_text(w, names, x):
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


def shakespeare(w, x):
    return dense(w, "dense", text_by_text(w, ["lstm1", "lstm2"], x))


def next_word(w, x):
    return dense(w, "dense2", dense(w, "dense1", text_by_text(w, ["lstm"], x)))


def sent140(w, x):
    y = lstm(w, "lstm2", lstm(w, "lstm1", F.embedding(x.long(), VECTORS.double())))
    return dense(w, "dense", y[:, -1])


def distilbert(w, x):
    """torch.nn.TransformerEncoderLayer, which norms after its sums too."""
    y = w["words.weight"][x.long()] + w["positions.weight"][: x.shape[-1]]
    y = F.layer_norm(y, y.shape[-1:], w["norm.weight"], w["norm.bias"], 1e-12)
    for block in range(2):
        at = f"blocks.{block}."
        layer = nn.TransformerEncoderLayer(6, 2, 10, 0.0, "gelu", 1e-12, batch_first=True).double()
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
    return dense(w, "classifier", F.relu(dense(w, "pre_classifier", y[:, 0])))


def numbers(*shape):
    """Inputs of a shape, for G rows."""
    return lambda groups: torch.randn(groups, BATCH, *shape, dtype=torch.float64)


def texts(groups):
    """int16 ``[G, 4, 6]`` with padding at the ends; one text is all padding but its first token."""
    x = torch.randint(1, 11, (groups, BATCH, STEPS), dtype=torch.int16)
    x[:, 1, 4:] = 0
    x[:, 2, 1:] = 0
    return x


def small_resnet(depth, norm, width, features):
    make = partial(models.ResNet, depth, 10, width=width, norm=norm)
    return make, resnet(depth, norm), numbers(3, 16, 16), (10,), features


# A maker, the oracle, inputs for G rows, the shape of an output, the size of a feature or 0.
MODELS = {
    "softmax": (models.Softmax, linear, numbers(60), (10,), 0),
    "tags": (lambda: models.TagModel(7, 5), linear, numbers(7), (5,), 0),
    "mlp": (lambda: models.MLP(12, (14, 10), 4, width=0.5), mlp, numbers(12), (4,), 5),
    "autoencoder": (lambda: EMNISTAutoencoder(width=0.05), autoencoder, numbers(784), (784,), 2),
    "emnist_cnn": (lambda: EMNISTCNN(width=0.125), emnist_cnn, numbers(1, 28, 28), (62,), 16),
    "delta_cnn": (lambda: models.DeltaCNN(width=0.3), delta_cnn, numbers(1, 28, 28), (10,), 15),
    "small_cnn": (lambda: SmallCNN(3, (9, 6), 5, 0.25), small_cnn, numbers(3, 9, 6), (5,), 16),
    "vgg11": (lambda: models.VGG11(width=1 / 64), vgg11, numbers(3, 32, 32), (10,), 8),
    "resnet18_gn": (lambda: ResNet18GN(width=0.0625), resnet18_gn, numbers(3, 24, 24), (10,), 32),
    "resnet18 group": small_resnet(18, "group", 1 / 16, 32),
    "resnet18 batch": small_resnet(18, "batch", 1 / 16, 32),
    "resnet50 batch": small_resnet(50, "batch", 1 / 32, 64),
    "shakespeare": (lambda: ShakespeareLSTM(11, width=0.02), shakespeare, texts, (STEPS, 11), 5),
    "next word": (lambda: models.NextWordLSTM(7, width=0.02), next_word, texts, (STEPS, 11), 2),
    "sent140": (lambda: models.Sent140LSTM(VECTORS, width=0.05), sent140, texts, (2,), 5),
    "distilbert": (lambda: models.DistilBERT(3, **TINY), distilbert, texts, (3,), 6),
}


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def count(model):
    return sum(p.numel() for p in trained(model).values())


def flat_rows(model, rows):
    """The trained parameters, disturbed differently in each row: a tensor [R, P], and its views."""
    own = trained(model)
    base = torch.cat([p.detach().flatten() for p in own.values()]).double()
    flat = (base + 0.05 * torch.randn(rows, len(base), dtype=torch.float64)).requires_grad_()
    parts = flat.split([p.numel() for p in own.values()], dim=1)
    named = zip(own.items(), parts, strict=True)
    return flat, {name: part.view(rows, *p.shape) for (name, p), part in named}


def call(model, views, x):
    """The model with its trained parameters replaced by views, as the engine does."""
    original = trained(model)
    put(model, views)
    y = model(x)
    put(model, original)
    return y


def put(model, named):
    for name, value in named.items():
        owner, _, leaf = name.rpartition(".")
        model.get_submodule(owner)._parameters[leaf] = value


def without_dropout(model):
    """Float64, in training mode but for dropout, so that batch statistics are the batch's."""
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    return model.double()


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def with_rows(module, rows):
    """Give a module random parameters with rows, as strided views of one tensor; return them."""
    shapes = {name: p.shape for name, p in module.named_parameters()}
    sizes = [math.prod(shape) for shape in shapes.values()]
    parts = normal(rows, sum(sizes)).split(sizes, 1)
    leaves = []
    for part, (name, shape) in zip(parts, shapes.items(), strict=True):
        leaves.append(part.view(rows, *shape).requires_grad_())
        module._parameters[name] = leaves[-1]
    return leaves


def compare(got, expected, leaves):
    """Values and gradients agree."""
    assert got.shape == expected.shape
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    direction = torch.randn_like(expected)
    wanted = torch.autograd.grad((expected * direction).sum(), leaves)
    gradients = torch.autograd.grad((got * direction).sum(), leaves)
    torch.testing.assert_close(gradients, wanted, rtol=0, atol=1e-10)
    assert all((one != 0).any() for one in gradients)
