"""FedAdagrad: Adagrad on the server (Reddi et al., Algorithms 2 and 5)."""

from __future__ import annotations

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers


def fedadagrad(
    client_lr: float = 0.1,
    server_lr: float = 0.1,
    tau: float = 1e-3,
    beta1: float = 0.0,
    v0: float | None = None,
    form: str = "code",
) -> FedOpt:
    """v <- v + g^2, x <- x - server_lr m / (sqrt(v) + tau), g = -sum_i p_i (x_i - x_t).

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: server learning rate eta.
        tau: degree of adaptivity, outside the square root; smaller is more adaptive.
        beta1: momentum of m <- beta1 m + (1 - beta1) g; 0 in the paper, so m = g.
        v0: v before round 0; default 0 (``form="code"``) or tau^2 (``form="printed"``).
        form: see :mod:`fedlib.optimizers.server`.
    """
    server = servers.Adagrad(lr=server_lr, tau=tau, beta1=beta1, v0=v0, form=form)
    return FedOpt(client=clients.SGD(lr=client_lr), server=server)
