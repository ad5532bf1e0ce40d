"""The character-level language model of FedOpt's Shakespeare (its Table 5), and Mime's charRNN."""

from torch import Tensor

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, scaled, start
from fedlib.models.recurrent import LSTM, Embedding


class ShakespeareLSTM(Architecture):
    """Embedding of 8, two LSTMs of 256 and a dense layer at each step: 820,522 parameters.

    Character 0 is padding: the LSTMs skip it and repeat their last outputs. As in the authors' code
    the LSTMs' input kernels start he_normal, and everything else with Keras' default.

    Args:
        vocab: number of characters, including special ones.
        width: multiplies the 8 and the 256.

    Input integers ``[..., T]`` (80 in the paper), output logits ``[..., T, vocab]`` of the next
    characters.
    """

    def __init__(self, vocab: int = 90, width: float = 1.0) -> None:
        super().__init__()
        size, units = scaled(8, width), scaled(256, width)
        self.embedding = Embedding(vocab, size)
        self.lstm1 = LSTM(size, units, kernel="he_normal")
        self.lstm2 = LSTM(units, units, kernel="he_normal")
        self.dense = Linear(units, vocab)
        start(self.dense)

    def features(self, x: Tensor) -> Tensor:
        """The second LSTM's outputs, ``[..., T, 256]`` at full width."""
        mask = x != 0
        return self.lstm2(self.lstm1(self.embedding(x), mask), mask)
