"""FedAvgM: FedAvg with server momentum (Hsu et al., 2019)."""

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import server as servers


def fedavgm() -> FedOpt:
    """u <- momentum u + g, x <- x - server_lr u, where g = -sum_i p_i (x_i - x_t).

    The momentum is 0.9 in FedOpt's experiments. There is no dampening and no Nesterov momentum.
    """
    return FedOpt(server=servers.Momentum(lr=1.0, momentum=0.9))
