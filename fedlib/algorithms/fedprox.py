"""FedProx: FedAvg with a proximal term in the local objective (Li et al., 2020)."""

from fedlib.algorithms.fedopt import FedOpt
from fedlib.algorithms.objectives import Proximal
from fedlib.optimizers import server as servers


def fedprox() -> FedOpt:
    """Local steps on F_i(x) + mu/2 ||x - x_t||^2, then FedAvg's server step. mu = 0 is FedAvg."""
    return FedOpt(server=servers.SGD(lr=1.0), objective=Proximal(mu=0.01))
