"""MOON: FedAvg with a model-contrastive local objective (Li, He and Song, 2021)."""

from __future__ import annotations

from fedlib.algorithms.fedopt import FedOpt
from fedlib.algorithms.objectives import Moon
from fedlib.optimizers import client as clients
from fedlib.optimizers import server as servers


def moon(
    client_lr: float = 0.1, server_lr: float = 1.0, mu: float = 1.0, temperature: float = 0.5
) -> FedOpt:
    """Local steps on :class:`fedlib.Moon`'s objective, then FedAvg's server step.

    Every client keeps its last local model. The model needs ``features(x)`` and
    ``head(features)``.

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: server learning rate eta.
        mu: weight of the contrastive term; 0 gives FedAvg.
        temperature: of the contrastive term.
    """
    return FedOpt(
        client=clients.SGD(lr=client_lr),
        server=servers.SGD(lr=server_lr),
        objective=Moon(mu=mu, temperature=temperature),
    )
