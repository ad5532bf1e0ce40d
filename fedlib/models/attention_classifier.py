"""A transformer with one attention layer, which replaces DistilBERT in small problems."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedlib.models.architecture import Architecture
from fedlib.models.attention import SelfAttention
from fedlib.models.layers import Linear
from fedlib.models.recurrent import Embedding

PADDING = 0  # the token that pads a text
STD = 0.3  # standard deviation of the initial vectors


class AttentionClassifier(Architecture):
    """Word and position vectors plus their self-attention, summed, and two dense layers.

    Dense layers start as in torch.

    Args:
        classes: number of classes.
        vocab, positions: number of known tokens, and length of the longest text.
        size: length of a vector.

    Input integers ``[..., T]``, where 0 is padding. Output logits ``[..., classes]``.
    """

    def __init__(self, classes: int, vocab: int, positions: int, size: int = 16) -> None:
        super().__init__()
        self.words, self.positions = (
            Embedding(count, size, nn.init.normal_(torch.empty(count, size), std=STD))
            for count in (vocab, positions)
        )
        self.attention = SelfAttention(size, 1)
        self.dense1 = Linear(size, size)
        self.dense = Linear(size, classes)

    def features(self, x: Tensor) -> Tensor:
        """The hidden layer's activations, ``[..., size]``."""
        mask = x != PADDING
        y = self.words(x) + self.positions.weight[..., None, : x.shape[-1], :]
        y = y + self.attention(y, mask)
        known = mask.to(y.dtype).unsqueeze(-1)
        if len(known) != len(y) and known.dim() == y.dim():
            known = known.repeat_interleave(len(y) // len(known), 0)
        return F.relu(self.dense1((y * known).sum(-2)))
