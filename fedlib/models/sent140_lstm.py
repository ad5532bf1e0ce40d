"""The sentiment model of AdaFedAdam's Sent140: frozen word vectors and two LSTMs."""

from torch import Tensor

from fedlib.models.architecture import Architecture
from fedlib.models.layers import Linear, scaled
from fedlib.models.recurrent import LSTM, Embedding


class Sent140LSTM(Architecture):
    """Frozen vectors, two LSTMs of 100, and a dense layer on the last step.

    With vectors of 300 there are 241,802 parameters to train. The paper's appendix C.1 names the
    layers, but our text copy of the paper lacks the figure with their details. Two logits, and the
    GloVe vectors of 300 that others use on Sent140, are our choices. The LSTMs have torch's two
    biases and, like the dense layer, torch's initial values, because the authors used torch. No
    step is masked.

    Args:
        vectors: the words' vectors ``[V, D]``.
        width: multiplies the 100 units.

    Input integers ``[..., T]`` (25 in LEAF), output logits ``[..., 2]``.
    """

    def __init__(self, vectors: Tensor, width: float = 1.0) -> None:
        super().__init__()
        words, size = vectors.shape
        units = scaled(100, width)
        self.embedding = Embedding(words, size, vectors, frozen=True)
        self.lstm1 = LSTM(size, units, kernel="torch", two_biases=True)
        self.lstm2 = LSTM(units, units, kernel="torch", two_biases=True)
        self.dense = Linear(units, 2)

    def features(self, x: Tensor) -> Tensor:
        """The second LSTM's output at the last step, ``[..., 100]`` at full width."""
        h: Tensor = self.lstm2(self.lstm1(self.embedding(x)))
        return h[..., -1, :]
