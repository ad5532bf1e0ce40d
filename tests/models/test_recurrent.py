"""The embedding and the LSTM with rows against torch's, a NumPy loop, and Keras' initial values."""

import math

import pytest
import torch

from fedlib.models import recurrent
from fedlib.models.recurrent import LSTM, Embedding
from fedlib.process import threads
from tests.models.oracles import ROWS, compare, normal, with_rows
from tests.refusals import refused

BATCH, STEPS, INPUTS, UNITS = 3, 5, 4, 2


@pytest.fixture(params=["torch's kernel", "batched steps"])
def program(request, monkeypatch):
    """Both ways an LSTM is computed, wherever the tests run."""
    apart = request.param == "torch's kernel"

    def one_by_one(x, weight_hh, mask):
        return apart and (mask is None or not recurrent._has_gaps(mask))

    monkeypatch.setattr(recurrent, "_one_by_one", one_by_one)
    return str(request.param)


def written_out(parameters, x, mask):
    """The definition with Keras' masks, for one model: ``x [B, T, D]``, ``mask [B, T]``."""
    weight_ih, weight_hh, *biases = parameters
    bias = sum(biases)
    h = c = x.new_zeros(len(x), UNITS)
    outputs = []
    for t in range(x.shape[1]):
        i, f, g, o = (x[:, t] @ weight_ih.T + h @ weight_hh.T + bias).chunk(4, -1)
        new_c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        new_h = torch.sigmoid(o) * torch.tanh(new_c)
        keep = mask[:, t : t + 1]
        c, h = torch.where(keep, new_c, c), torch.where(keep, new_h, h)
        outputs.append(h)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("layout", ["gaps", "ends", "nothing counts", "two biases"])
@pytest.mark.parametrize(("rows", "groups"), ROWS)
def test_masked_steps_carry_state_and_output_on(program, layout, rows, groups):
    layer = LSTM(INPUTS, UNITS, two_biases=layout == "two biases")
    leaves = with_rows(layer, rows)
    x = normal(groups, BATCH, STEPS, INPUTS).requires_grad_()
    if layout == "two biases":
        mask = torch.ones(groups, BATCH, STEPS, dtype=torch.bool)
    elif layout == "gaps":
        mask = torch.rand(groups, BATCH, STEPS) < 0.5
        mask[0, 0] = torch.tensor([False, True, False, False, True])
    else:
        lengths = torch.randint(0, STEPS, (groups, BATCH, 1))
        lengths[0, :2, 0] = torch.tensor([0, 3])
        mask = torch.arange(STEPS) < lengths
        if layout == "nothing counts":
            mask[0, 1:] = False
    share = rows // groups
    expected = torch.stack(
        [
            written_out([p[row] for p in leaves], x[row // share], mask[row // share])
            for row in range(rows)
        ]
    )
    if layout == "nothing counts":
        assert not layer(x, mask)[:share].any()
        return
    compare(layer(x, mask), expected, [*leaves, x])
    if groups < rows:  # a mask of R rows
        same = layer(x, mask.repeat_interleave(share, 0))
        torch.testing.assert_close(same, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("program", ["torch's kernel"], indirect=True)
def test_rows_on_two_threads_equal_rows_on_one(program):
    """And a graph can be kept."""
    layer = LSTM(INPUTS, UNITS)
    leaves = with_rows(layer, 6)
    x = normal(3, BATCH, STEPS, INPUTS)
    with threads(2, others=False):
        loss = layer(x).square().sum()
        many = torch.autograd.grad(loss, leaves, retain_graph=True)
        assert all(map(torch.equal, many, torch.autograd.grad(loss, leaves)))
        assert torch.get_num_threads() == 2
    one = torch.autograd.grad(layer(x).square().sum(), leaves)
    torch.testing.assert_close(many, one, rtol=0, atol=1e-12)


def test_float32_agrees_whichever_program_is_chosen(monkeypatch):
    """The fused kernel on a layer large enough for it, against float64."""
    rows, units = 2, 40
    layer = LSTM(INPUTS, units)
    leaves = with_rows(layer, rows)
    x, mask = normal(2, BATCH, 20, INPUTS), torch.arange(20) < torch.tensor([[20], [11], [0]])
    mask = mask.expand(2, -1, -1)
    expected = layer(x, mask)
    for name, leaf in zip(("weight_ih", "weight_hh", "bias"), leaves, strict=True):
        layer._parameters[name] = leaf.detach().float().requires_grad_()
    chosen = []
    kernel = recurrent.torch_kernel
    monkeypatch.setattr(recurrent, "torch_kernel", lambda *a: chosen.append(1) or kernel(*a))
    got = layer(x.float(), mask)
    torch.testing.assert_close(got.double(), expected, rtol=0, atol=1e-4)
    wanted = torch.autograd.grad(expected.sum(), leaves)
    gradients = torch.autograd.grad(got.sum(), list(layer.parameters()))
    for one, other in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-3, atol=1e-3)
    assert bool(chosen) == torch.backends.mkldnn.is_available()


def test_initial_values_are_keras():
    inputs, units = 60, 50
    plain, he = LSTM(inputs, units), LSTM(inputs, units, kernel="he_normal")
    bound = math.sqrt(6 / (inputs + 4 * units))  # the gates are one kernel of 4 * units outputs
    assert 0.99 * bound < plain.weight_ih.abs().max() <= bound
    assert he.weight_ih.std().item() == pytest.approx(math.sqrt(2 / inputs), rel=0.03)
    forget = torch.zeros(4 * units)
    forget[units : 2 * units] = 1
    for layer in (plain, he):
        product = layer.weight_hh.T @ layer.weight_hh
        torch.testing.assert_close(product, torch.eye(units), rtol=0, atol=1e-5)
        assert torch.equal(layer.bias, forget)
        assert layer.bias_hh is None
    second = LSTM(inputs, units, two_biases=True)
    assert second.bias_hh is not None and not second.bias_hh.any()
    torchs = LSTM(inputs, units, kernel="torch", two_biases=True)
    for parameter in torchs.parameters():
        assert 0.9 / math.sqrt(units) < parameter.abs().max() <= 1 / math.sqrt(units)
    assert len(list(torchs.parameters())) == 4


def test_embedding_without_rows():
    assert (Embedding(2000, 3).weight.abs() <= 0.05).all()
    assert Embedding(2000, 3).weight.std().item() == pytest.approx(0.05 / math.sqrt(3), rel=0.05)
    values = normal(7, 3)
    frozen = Embedding(7, 3, values, frozen=True)
    assert not frozen.weight.requires_grad and Embedding(7, 3, values).weight.requires_grad
    ids = torch.randint(7, (2, BATCH, STEPS), dtype=torch.int16)
    assert torch.equal(frozen(ids), values[ids.long()])


def test_errors_name_the_layer_and_what_to_do():
    refused("'uniform' .allowed: glorot_uniform, he_normal, torch", LSTM, 2, 3, kernel="uniform")
    words = Embedding(7, 4)
    with_rows(words, 6)
    ids = torch.zeros(4, BATCH, STEPS, dtype=torch.int64)
    refused(r"Embedding has weights of 6 rows and an input of shape \(4,", words, ids)
