"""FedAvgM: FedAvg with server momentum (Hsu et al., 2019)."""

from __future__ import annotations

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers


def fedavgm(client_lr: float = 0.1, server_lr: float = 1.0, momentum: float = 0.9) -> FedOpt:
    """u <- momentum u + g, x <- x - server_lr u, where g = -sum_i p_i (x_i - x_t).

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: server learning rate eta.
        momentum: 0.9 in FedOpt's experiments; no dampening, no Nesterov.
    """
    server = servers.Momentum(lr=server_lr, momentum=momentum)
    return FedOpt(client=clients.SGD(lr=client_lr), server=server)
