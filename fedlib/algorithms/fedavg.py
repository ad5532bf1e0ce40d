"""FedAvg: local SGD, then the weighted mean of the clients' models (McMahan et al., 2017)."""

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import server as servers


def fedavg() -> FedOpt:
    """x_{t+1} = x_t + server_lr * sum_i p_i (x_i - x_t).

    With ``server_lr = 1`` this is the mean of the clients' models. Source: FedOpt, Algorithm 3.
    """
    return FedOpt(server=servers.SGD(lr=1.0))
