"""FedAvg: local SGD, then the weighted mean of the clients' models (McMahan et al., 2017)."""

from __future__ import annotations

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers


def fedavg(client_lr: float = 0.1, server_lr: float = 1.0) -> FedOpt:
    """x_{t+1} = x_t + server_lr * sum_i p_i (x_i - x_t); FedOpt, Algorithm 3, at ``server_lr = 1``.

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: server learning rate eta; 1 gives the mean of the clients' models.
    """
    return FedOpt(client=clients.SGD(lr=client_lr), server=servers.SGD(lr=server_lr))
