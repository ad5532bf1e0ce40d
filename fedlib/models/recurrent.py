"""Layers for sequences of tokens that support rows: an embedding and an LSTM.

An LSTM over rows has two implementations that give the same numbers. In float32 on a CPU each row
can go through torch's fused kernel, one thread per row. This keeps a row's weights in the core's
cache, while a step of all rows at once reads all weights from memory. Otherwise a step of all rows
is one batched product. This also serves small layers (fewer calls), masks with gaps, and float64,
for which torch has no fused kernel.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fedlib.errors import require
from fedlib.models.layers import _groups, he_normal_, linear
from fedlib.process import one_core_each

Result = TypeVar("Result")
# Extra cost of a row alone, of a step of all rows, and of a multiplication in such a step, compared
# with the other way: milliseconds on one AVX-512 core with 1 to 60 rows of 16 to 256 units.
ROW, STEP, PRODUCT = 0.4, 0.07, 3e-7
KERNELS = ("glorot_uniform", "he_normal", "torch")


class Embedding(nn.Module):
    """A vector for each token: weight ``[V, D]`` or ``[R, V, D]``.

    It starts as Keras' Embedding does, from U(-0.05, 0.05). Token 0 is a token like any other here.
    Only the mask of later layers makes it padding.

    Args:
        tokens, size: V and D.
        weight: initial values ``[V, D]``.
        frozen: do not train the weight. The engine then makes no rows of it, and this layer's
            output keeps the G rows of its input.

    Input integers 0..V-1 ``[..., T]`` of any integer type, output ``[..., T, D]``. With rows
    ``[G, B, T]`` becomes ``[R, B, T, D]``.
    """

    def __init__(
        self, tokens: int, size: int, weight: Tensor | None = None, frozen: bool = False
    ) -> None:
        super().__init__()
        if weight is None:
            weight = nn.init.uniform_(torch.empty(tokens, size), -0.05, 0.05)
        values = weight if frozen else weight.clone()  # a frozen one may be large, and is only read
        self.weight = nn.Parameter(values, requires_grad=not frozen)

    def forward(self, ids: Tensor) -> Tensor:
        weight, ids = self.weight, ids.long()
        if weight.dim() == 2:
            return F.embedding(ids, weight)
        groups, rows = _groups(self, weight, ids, 3), weight.shape[0]
        if rows == 1:
            return F.embedding(ids, weight.squeeze(0))
        row = torch.arange(rows, device=ids.device).view(-1, *(1,) * (ids.dim() - 1))
        return weight[row, ids.repeat_interleave(rows // groups, 0)]


class LSTM(nn.Module):
    """One layer of long short-term memory, or R of them. It returns the outputs of all steps.

    The parameters are ``weight_ih [4H, D]``, ``weight_hh [4H, H]`` and ``bias [4H]`` (with rows
    ``[R, ...]``). The gates are in torch's and Keras' order: input, forget, cell, output. Keras and
    the papers count one bias. Torch adds two, here ``bias`` and ``bias_hh``.

    Initial values are those of Keras: ``weight_ih`` as ``kernel`` says, with the four gates as one
    kernel, ``weight_hh`` with orthonormal columns, the forget gate's bias 1 and the others 0. State
    and output start at zero.

    Args:
        inputs, units: D and H.
        kernel: "glorot_uniform", "he_normal", or "torch" for torch's initial values instead, which
            are U(-1/sqrt(H), 1/sqrt(H)) for all parameters.
        two_biases: have torch's second bias.
    """

    def __init__(
        self, inputs: int, units: int, kernel: str = "glorot_uniform", two_biases: bool = False
    ) -> None:
        super().__init__()
        require(kernel in KERNELS, "kernel", kernel, ", ".join(KERNELS))
        self.units = units
        self.weight_ih = nn.Parameter(torch.empty(4 * units, inputs))
        self.weight_hh = nn.Parameter(torch.empty(4 * units, units))
        self.bias = nn.Parameter(torch.zeros(4 * units))
        self.bias_hh = nn.Parameter(torch.zeros(4 * units)) if two_biases else None
        if kernel == "torch":
            bound = 1 / math.sqrt(units)
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -bound, bound)
        else:
            (he_normal_ if kernel == "he_normal" else nn.init.xavier_uniform_)(self.weight_ih)
            nn.init.orthogonal_(self.weight_hh)
            nn.init.ones_(self.bias[units : 2 * units])

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Outputs ``[..., B, T, H]`` of inputs ``[..., B, T, D]``.

        Args:
            x: ``[B, T, D]``, or ``[G, B, T, D]`` with rows.
            mask: bool ``[..., B, T]`` with G or R rows. False skips a step: the state and the
                output of the step before are repeated, as in Keras.
        """
        if self.weight_hh.dim() == 3:
            _groups(self, self.weight_hh, x, 4)
            if mask is not None:
                mask = mask.repeat_interleave(self.weight_hh.shape[0] // mask.shape[0], 0)
            return self._rows(x, mask)
        leading = x.shape[:-2]
        y = self._rows(
            x.reshape(1, -1, *x.shape[-2:]),
            None if mask is None else mask.reshape(1, -1, x.shape[-2]),
        )
        return y.reshape(*leading, *y.shape[-2:])

    def _rows(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """``x [G, B, T, D]`` and ``mask [R, B, T]`` to ``[R, B, T, H]``."""
        weight_ih, weight_hh, bias, bias_hh = (
            p if p is None or self.weight_hh.dim() == 3 else p.unsqueeze(0)
            for p in (self.weight_ih, self.weight_hh, self.bias, self.bias_hh)
        )
        assert weight_ih is not None and weight_hh is not None and bias is not None
        if _one_by_one(x, weight_hh, mask):
            second = torch.zeros_like(bias) if bias_hh is None else bias_hh
            y = torch_kernel(x, weight_ih, weight_hh, bias, second)
            return y if mask is None else _carry_last(y, mask)
        both = bias if bias_hh is None else bias + bias_hh
        return batched_steps(linear(self, x, weight_ih, both), weight_hh, mask)


def _one_by_one(x: Tensor, weight_hh: Tensor, mask: Tensor | None) -> bool:
    """Whether torch's kernel, row by row, is possible and faster."""
    onednn = x.device.type == "cpu" and torch.backends.mkldnn.is_available()
    if not onednn or x.dtype != torch.float32:
        return False
    (rows, _, units), (_, batch, steps, _) = weight_hh.shape, x.shape
    alone = ROW * rows / torch.get_num_threads()
    together = STEP * steps + PRODUCT * rows * batch * steps * units**2
    return alone < together and (mask is None or not _has_gaps(mask))


def _has_gaps(mask: Tensor) -> bool:
    """Whether a step that counts follows a step that does not."""
    return bool((mask[..., 1:] & ~mask[..., :-1]).any())


def _carry_last(y: Tensor, mask: Tensor) -> Tensor:
    """Fill masked steps at the end with the output of the last step that counts, or zero."""
    if mask.all():
        return y
    counted = mask.sum(-1)
    place = (counted - 1).clamp_min(0)[..., None, None]
    last = y.gather(-2, place.expand(*place.shape[:-1], y.shape[-1]))
    last = last * (counted > 0)[..., None, None]
    return torch.where(mask.unsqueeze(-1), y, last)


def _each_row(work: Callable[[int], Result], rows: int) -> list[Result]:
    """``work(row)`` for each row, on all of torch's threads at once if there are several."""
    threads = torch.get_num_threads()
    if rows == 1 or threads == 1:
        return [work(row) for row in range(rows)]
    return list(one_core_each(threads).map(work, range(rows)))


def _one_row(x: Tensor, *weights: Tensor) -> Tensor:
    """``[B, T, D]`` to ``[B, T, H]``, starting at zero."""
    start = x.new_zeros(1, len(x), weights[1].shape[-1])
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, True, False, True)[0]


class _TorchKernel(torch.autograd.Function):
    """Each row's forward and backward pass by torch, with a separate graph in its own thread."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, tracked: bool, *weights: Tensor) -> Tensor:
        rows = len(weights[0])
        share = rows // len(x)
        needed = (ctx.needs_input_grad[0], *ctx.needs_input_grad[2:])

        def work(row: int) -> tuple[list[Tensor], Tensor]:
            inputs = [x[row // share], *(weight[row] for weight in weights)]
            leaves = [t.detach().requires_grad_(n) for t, n in zip(inputs, needed, strict=True)]
            with torch.set_grad_enabled(tracked):
                y = _one_row(*leaves)
            return [leaf for leaf in leaves if leaf.requires_grad], y

        graphs = _each_row(work, rows)
        if tracked:
            ctx.graphs, ctx.needed, ctx.share = graphs, needed, share
        return torch.stack([y.detach() for _, y in graphs])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        def work(row: int) -> tuple[Tensor, ...]:
            leaves, y = ctx.graphs[row]
            # The graph is kept as long as the outer graph, and freed with it.
            return torch.autograd.grad(y, leaves, grads[0][row], retain_graph=True)

        by_leaf = iter(zip(*_each_row(work, len(ctx.graphs)), strict=True))
        x, *weights = (torch.stack(next(by_leaf)) if needed else None for needed in ctx.needed)
        if x is not None and ctx.share > 1:
            x = x.unflatten(0, (-1, ctx.share)).sum(1)
        return x, None, *weights


def torch_kernel(x: Tensor, *weights: Tensor) -> Tensor:
    """LSTMs of R rows by torch's kernel, row by row: ``[G, B, T, D]`` to ``[R, B, T, H]``.

    ``weights`` are ``[R, 4H, D]``, ``[R, 4H, H]`` and two biases ``[R, 4H]``.
    """
    if len(weights[0]) == 1:
        return _one_row(x.squeeze(0), *(weight.squeeze(0) for weight in weights)).unsqueeze(0)
    return _TorchKernel.apply(x, torch.is_grad_enabled(), *weights)


class _BatchedSteps(torch.autograd.Function):
    """The recurrence of R LSTMs, time first. The weight gradient is one product over all steps."""

    @staticmethod
    def forward(ctx: Any, projected: Tensor, weight: Tensor, mask: Tensor | None) -> Tensor:
        steps, rows, batch, _ = projected.shape
        units = weight.shape[-1]
        gates = torch.empty_like(projected)
        cells = projected.new_zeros(steps + 1, rows, batch, units)
        outputs = projected.new_zeros(steps + 1, rows, batch, units)
        for t in range(steps):
            sums = torch.baddbmm(projected[t], outputs[t], weight.mT)
            torch.sigmoid(sums, out=gates[t])
            i, f, g, o = gates[t].chunk(4, -1)
            torch.tanh(sums[..., 2 * units : 3 * units], out=g)
            torch.addcmul(f * cells[t], i, g, out=cells[t + 1])
            torch.mul(o, cells[t + 1].tanh(), out=outputs[t + 1])
            if mask is not None:
                for carried in (cells, outputs):
                    torch.where(mask[t], carried[t + 1], carried[t], out=carried[t + 1])
        ctx.save_for_backward(gates, cells, outputs, weight, mask)
        return outputs[1:]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        gates, cells, outputs, weight, mask = ctx.saved_tensors
        steps, rows, batch, _ = gates.shape
        i, f, g, o = gates.chunk(4, -1)
        squashed = cells[1:].tanh()
        # The gradient by a gate's sum is that by the cell (i, f, g) or the output (o) times:
        factors = torch.stack(
            [
                g * i * (1 - i),
                cells[:-1] * f * (1 - f),
                i * (1 - g * g),
                squashed * o * (1 - o),
            ],
            -2,
        )
        output_to_cell = o * (1 - squashed * squashed)
        if mask is not None:
            factors, output_to_cell = factors * mask.unsqueeze(-1), output_to_cell * mask
            f = torch.where(mask, f, 1.0)
        d_gates = torch.empty_like(gates)
        d_output = d_cell = torch.zeros_like(cells[0])
        for t in reversed(range(steps)):
            d_output = d_output + grads[0][t]
            d_cell = torch.addcmul(d_cell, d_output, output_to_cell[t])
            d_gate = torch.stack([d_cell, d_cell, d_cell, d_output], -2)
            torch.mul(d_gate, factors[t], out=d_gates[t].view(d_gate.shape))
            d_cell = d_cell * f[t]
            before = torch.bmm(d_gates[t], weight)
            d_output = before if mask is None else torch.where(mask[t], before, d_output)
        over_time = [
            t.transpose(0, 1).reshape(rows, steps * batch, -1) for t in (d_gates, outputs[:-1])
        ]
        return d_gates, torch.bmm(over_time[0].mT, over_time[1]), None


def batched_steps(projected: Tensor, weight: Tensor, mask: Tensor | None = None) -> Tensor:
    """LSTMs of R rows, all rows in each step: outputs ``[R, B, T, H]``.

    Args:
        projected: inputs times input weights plus biases, ``[R, B, T, 4H]``.
        weight: recurrent weights ``[R, 4H, H]``.
        mask: bool ``[R, B, T]``, see :meth:`LSTM.forward`.
    """
    over_time = projected.permute(2, 0, 1, 3).contiguous()
    steps = None if mask is None else mask.permute(2, 0, 1).unsqueeze(-1)
    y: Tensor = _BatchedSteps.apply(over_time, weight, steps)
    return y.permute(1, 2, 0, 3)
