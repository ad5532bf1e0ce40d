"""The multi-label logistic regression of FedOpt's Stack Overflow LR."""

from __future__ import annotations

from fedlib.models.softmax import Softmax


class TagModel(Softmax):
    """One weight vector and a bias for each tag: 5,000,500 parameters for 10,000 words.

    The sigmoid is part of the loss (:func:`fedlib.losses.binary_cross_entropy`). As in Keras,
    weights start Glorot-uniform and biases at zero. There are no hidden units to reduce.

    Input bags of words ``[..., words]``, output logits ``[..., tags]``.
    """

    def __init__(self, words: int = 10_000, tags: int = 500) -> None:
        super().__init__(words, tags)
