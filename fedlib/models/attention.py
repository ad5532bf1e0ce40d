"""Self-attention that supports rows."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.errors import require
from fedlib.models.layers import Dropout, Linear


class SelfAttention(nn.Module):
    """Multi-head self-attention: ``[..., B, T, D]`` to ``[..., B, T, D]``.

    The attention itself has no weights, so rows are just more examples there. Torch's
    scaled_dot_product_attention takes all of them at once. It does not support keyed dropout, so
    training with dropout computes the products explicitly.

    Args:
        size: D.
        heads: divides D.
        dropout: probability to drop an attention weight in training.
    """

    def __init__(self, size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        require(size % heads == 0, "the number of heads", heads, f"a divisor of the size {size}")
        self.heads = heads
        self.query, self.key, self.value = (Linear(size, size) for _ in range(3))
        self.output = Linear(size, size)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend to the tokens where ``mask`` is True.

        Args:
            x: ``[..., B, T, D]``.
            mask: bool ``[..., B, T]`` for G rows. The rows of x are a multiple of G. A text without
                any token gets the mean of all.
        """
        q, k, v = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        leading = q.shape[:-3]
        q, k, v = (t.flatten(0, -4) for t in (q, k, v))
        bias = torch.zeros_like(mask, dtype=x.dtype)
        bias.masked_fill_(~mask, torch.finfo(x.dtype).min)
        if mask.dim() == 3:
            bias = bias.repeat_interleave(leading[0] // len(mask), 0).flatten(0, 1)
        bias = bias[:, None, None]
        if self.training and self.dropout.p > 0:
            weights = torch.softmax(q @ k.mT / q.shape[-1] ** 0.5 + bias, -1)
            weights = self.dropout(weights.unflatten(0, leading)).flatten(0, -4)
            y = weights @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, bias)
        y = y.transpose(1, 2).flatten(-2).unflatten(0, leading)
        return self.output(y)

    def _split(self, x: Tensor) -> Tensor:
        """``[..., T, D]`` to ``[..., heads, T, D / heads]``."""
        return x.unflatten(-1, (self.heads, -1)).transpose(-2, -3)
