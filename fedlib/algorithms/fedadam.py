"""FedAdam: Adam on the server (Reddi et al., Algorithms 2 and 5)."""

from __future__ import annotations

from fedlib.algorithms.fedopt import FedOpt
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers


def fedadam(
    client_lr: float = 0.1,
    server_lr: float = 0.01,
    tau: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.99,
    bias_correction: bool | None = None,
    v0: float | None = None,
    form: str = "code",
) -> FedOpt:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2,
    x <- x - server_lr m^ / (sqrt(v^) + tau), with the pseudo-gradient g = -sum_i p_i (x_i - x_t).

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: server learning rate eta.
        tau: degree of adaptivity, outside the square root; smaller is more adaptive.
        beta1, beta2: decay of m and of v; the paper's 0.9 and 0.99.
        bias_correction: default on for ``form="code"``, as in the code behind the printed numbers,
            and off for ``form="printed"``.
        v0: v before round 0; default 0 (``form="code"``) or tau^2 (``form="printed"``).
        form: ``"printed"`` squares the momentum m in v, as Algorithms 2 and 5 are printed; see
            :mod:`fedlib.optimizers.server`.
    """
    server = servers.Adam(
        lr=server_lr,
        tau=tau,
        beta1=beta1,
        beta2=beta2,
        bias_correction=bias_correction,
        v0=v0,
        form=form,
    )
    return FedOpt(client=clients.SGD(lr=client_lr), server=server)
