"""FedYogi: Yogi on the server (Reddi et al., Algorithms 2 and 5)."""

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import server as servers


def fedyogi() -> FedOpt:
    """m <- beta1 m + (1 - beta1) g, v <- v - (1 - beta2) g^2 sign(v - g^2),
    x <- x - server_lr m^ / (sqrt(v^) + tau), with the pseudo-gradient g = -sum_i p_i (x_i - x_t).

    Hyperparameters are the clients' ``client_lr`` and the fields of :class:`fedlib.server.Yogi`.
    """
    return FedOpt(server=servers.Yogi(lr=0.01))
