"""A language model without recurrence, for small problems."""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, start
from fedlib.models.recurrent import Embedding


class WindowModel(Architecture):
    """Predicts the next token from the vectors of the last few, by one dense layer.

    ``WindowModel(94, 3, 8)`` has 3102 parameters: 94 vectors of 8 numbers, and 25 for each of the
    94 outputs. It is the network of Bengio et al. (2003) without their hidden layer. Vectors start
    as in Keras' embeddings, weights Glorot-uniform, biases at zero.

    Args:
        tokens: number of tokens. 0 also fills the context before the first one.
        context: number of last tokens that count.
        size: length of a token's vector.

    Input integers ``[..., T]``, output logits ``[..., T, tokens]`` of the next tokens.
    """

    def __init__(self, tokens: int, context: int, size: int) -> None:
        super().__init__()
        self.context = context
        self.embedding = Embedding(tokens, size)
        self.dense = Linear(context * size, tokens)
        start(self.dense)

    def features(self, x: Tensor) -> Tensor:
        """The context's vectors concatenated, oldest first, ``[..., T, context * size]``."""
        length = x.shape[-1]
        before = F.pad(x, (self.context - 1, 0))
        vectors = self.embedding(before)
        parts = [vectors[..., start : start + length, :] for start in range(self.context)]
        return torch.cat(parts, dim=-1)
