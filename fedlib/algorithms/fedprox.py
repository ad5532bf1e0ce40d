"""FedProx: FedAvg with a proximal term in the local objective (Li et al., 2020)."""

from __future__ import annotations

from fedlib.algorithms.fedopt import FedOpt
from fedlib.algorithms.objectives import Proximal
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers


def fedprox(client_lr: float = 0.1, server_lr: float = 1.0, mu: float = 0.01) -> FedOpt:
    """Local steps on F_i(x) + mu/2 ||x - x_t||^2, then FedAvg's server step.

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: server learning rate eta.
        mu: weight of the proximal term; 0 gives FedAvg.
    """
    return FedOpt(
        client=clients.SGD(lr=client_lr),
        server=servers.SGD(lr=server_lr),
        objective=Proximal(mu=mu),
    )
