"""FedAdagrad: Adagrad on the server (Reddi et al., Algorithms 2 and 5)."""

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import server as servers


def fedadagrad() -> FedOpt:
    """v <- v + g^2, x <- x - server_lr m / (sqrt(v) + tau), g = -sum_i p_i (x_i - x_t).

    Hyperparameters are the clients' ``client_lr`` and the fields of :class:`fedlib.server.Adagrad`.
    The momentum beta1 of m <- beta1 m + (1 - beta1) g is 0 in the paper, so m = g.
    """
    return FedOpt(server=servers.Adagrad(lr=0.1))
