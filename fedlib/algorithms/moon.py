"""MOON: FedAvg with a model-contrastive local objective (Li, He and Song, 2021)."""

from fedlib.algorithms.fedopt import FedOpt
from fedlib.algorithms.objectives import Moon
from fedlib.optimizers import server as servers


def moon() -> FedOpt:
    """Local steps on :class:`fedlib.Moon`'s objective, then FedAvg's server step.

    Every client keeps its last local model. The model needs ``features(x)`` and
    ``head(features)``. mu, the weight of the contrastive term, is 0 for FedAvg.
    """
    return FedOpt(server=servers.SGD(lr=1.0), objective=Moon(mu=1.0, temperature=0.5))
