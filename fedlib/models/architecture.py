"""The architectures' common base: features, a head on them, and support for rows."""

from torch import Tensor, nn


class Architecture(nn.Module):
    """Base of networks made of the layers of :mod:`fedlib.models.layers`.

    The output is :meth:`head` of :meth:`features`. Methods such as MOON use them separately. The
    head is the last layer, ``dense``, unless an architecture defines another.
    """

    carries_rows = True
    dense: nn.Module

    def features(self, x: Tensor) -> Tensor:
        """The head's inputs, ``[..., F]`` or for each step ``[..., T, F]``."""
        raise NotImplementedError

    def head(self, features: Tensor) -> Tensor:
        """The output from :meth:`features`."""
        return self.dense(features)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))
