"""The next-word model of FedOpt's Stack Overflow NWP (its Table 6)."""

from torch import Tensor

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, scaled, start
from fedlib.models.recurrent import LSTM, Embedding

SPECIAL = 4  # padding (0), unknown words, and a sentence's beginning and end


class NextWordLSTM(Architecture):
    """Embedding of 96, LSTM of 670, linear layer of 96, dense layer: 4,050,748 parameters.

    Word 0 is padding: the LSTM skips it and repeats its last output. Input and output words have
    separate vectors. Initial values are Keras' defaults.

    Args:
        words: number of words, without the 4 special ones.
        width: multiplies both 96 and the 670.

    Input integers ``[..., T]`` (20 in the paper), output logits ``[..., T, words + 4]`` of the next
    words.
    """

    def __init__(self, words: int = 10_000, width: float = 1.0) -> None:
        super().__init__()
        size, units = scaled(96, width), scaled(670, width)
        self.embedding = Embedding(words + SPECIAL, size)
        self.lstm = LSTM(size, units)
        self.dense1 = Linear(units, size)
        self.dense2 = Linear(size, words + SPECIAL)
        for layer in (self.dense1, self.dense2):
            start(layer)

    def features(self, x: Tensor) -> Tensor:
        """The linear layer's outputs, ``[..., T, 96]`` at full width."""
        return self.dense1(self.lstm(self.embedding(x), x != 0))

    def head(self, features: Tensor) -> Tensor:
        """Logits ``[..., T, words + 4]`` from :meth:`features`."""
        return self.dense2(features)
