"""AdaFedAdam: Adam on the server, driven by how certain the clients' updates are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, FullBatch, State
from fedlib.algorithms.local import LocalTraining
from fedlib.component import Decay, NonNegative, Positive
from fedlib.errors import Error, require, require_known

FORMS = ("code", "printed")
# The least certainty of a pseudo-gradient: beta^C must stay below 1.
LEAST = 0.1


@dataclass(frozen=True)
class AdaFedAdam(LocalTraining):
    """AdaFedAdam (Algorithms 1 and 2 of "Accelerating Fair Federated Learning").

    Client k measures F_k(x_t) and its gradient on all of its data, trains to x_k = x_t + Delta_k
    with learning rate eta_k, and reports::

        e_k = ||Delta_k|| / ||grad F_k(x_t)||        U_k = -Delta_k / e_k
        C_k = ln(e_k / eta_k) + 1                    I_k = F_k(x_t) / F_k(x_0)

    The server averages U_k to g and C_k to C, both with weights p_k I_k^alpha, and does::

        b1 = beta1^C, b2 = beta2^C, c_m <- c_m b1, c_v <- c_v b2
        m <- b1 m + (1 - b1) g,  v <- b2 v + (1 - b2) g^2
        x <- x - C lr (m / (1 - c_m)) / (sqrt(v / (1 - c_v)) + eps)

    If the paper and the code differ, the default follows the meaning of the text and the code.
    ``form="printed"`` takes Algorithm 1 literally: the step is lr, not C lr, and v is divided by
    1 - c_m. ``relative_loss=False`` weights by F_k(x_t)^alpha as the code does, not by I_k. The
    code scales the step by C only after the sixth round. Here it always does. C, which the paper
    takes to be at least 1, is kept above 0.1.

    A client that did not move, or whose gradient is zero, has no direction to report and counts for
    nothing. Losses must not be negative. A negative loss counts as 0. If a model has running
    statistics, F_k(x_0) uses the statistics of the client's first round.

    Args:
        lr: server learning rate eta. The paper uses 1e-3, the default of centralised Adam.
        beta1, beta2: 0.9 and 0.999 in the paper.
        eps: added to the denominator. The paper does not give it. The code uses 1e-8.
        alpha: exponent of the fairness weights. 0 switches them off. The paper recommends 1 to 4.
        client: the client optimizer. It must have a learning rate eta_k.
        objective, client_schedule: see :class:`fedlib.FedOpt`.

    Example:
        >>> import fedlib
        >>> A, b = [[[1.0]], [[3.0]]], [[0.0], [3.0]]
        >>> task = fedlib.quadratic_task(A, b, x0=[3.0], offset=[0.5, 2.0])
        >>> method = fedlib.AdaFedAdam(lr=0.1, alpha=1.0)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    remembers = True
    measures = True

    lr: NonNegative = 1e-3
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    eps: Positive = 1e-8
    alpha: NonNegative = 1.0
    form: str = "code"
    relative_loss: bool = True

    def validate(self) -> None:
        super().validate()
        require_known("form", self.form, FORMS)
        if not self.client.takes_lr:
            raise Error(
                "AdaFedAdam compares the clients' updates with their learning rate, but "
                f"{type(self.client).__name__} has none: use one that has, such as SGD"
            )
        require(self.client.lr > 0, "client_lr", self.client.lr, "a finite number > 0")

    def server_init(self, params: Tensor) -> State:
        ones = torch.ones_like(params[..., :1])
        zeros = torch.zeros_like(params)
        return {"x": params, "x0": params, "m": zeros, "v": zeros, "c_m": ones, "c_v": ones}

    def client_enroll(self, server: State, client: Client, full: FullBatch) -> State:
        memory = super().client_enroll(server, client, full)
        return {**memory, "first": full.loss(server["x0"])}

    def client_measure(self, server: State, client: Client, full: FullBatch) -> tuple[State, State]:
        loss, grad = full(server["x"])
        norm = torch.linalg.vector_norm(grad, dim=-1, keepdim=True)
        return {"loss": loss, "norm": norm}, {}

    def client_init(self, server: State, client: Client) -> State:
        return {**super().client_init(server, client), "measured": client.measured}

    def client_final(self, server: State, state: State) -> State:
        delta, norm = state["x"] - server["x"], state["measured"]["norm"]
        length = torch.linalg.vector_norm(delta, dim=-1, keepdim=True)
        # A client that did not move, or has no gradient, has no direction, so its weight is 0.
        directed = (length > 0) & (norm > 0)
        e = torch.where(directed, length, 1) / torch.where(directed, norm, 1)
        certainty = (e / state["lr"]).log() + 1
        progress, first = state["measured"]["loss"].clamp(min=0), state["memory"]["first"]
        if self.relative_loss:
            progress = torch.where(first > 0, progress / torch.where(first > 0, first, 1), 1)
        weight = torch.where(directed, progress**self.alpha, 0)
        return {"weight": weight, "g": weight * -delta / e, "C": weight * certainty}

    def client_remember(self, server: State, state: State) -> State:
        return {**super().client_remember(server, state), "first": state["memory"]["first"]}

    def server_update(self, server: State, mean: State) -> State:
        known = mean["weight"] > 0
        weight = torch.where(known, mean["weight"], 1)  # the means of weighted g and C, by it
        g, C = mean["g"] / weight, (mean["C"] / weight).clamp(min=LEAST)
        b1, b2 = self.beta1**C, self.beta2**C
        c_m, c_v = server["c_m"] * b1, server["c_v"] * b2
        m = b1 * server["m"] + (1 - b1) * g
        v = b2 * server["v"] + (1 - b2) * g**2
        lr, c = (C * self.lr, c_v) if self.form == "code" else (self.lr, c_m)
        x = server["x"] - lr * (m / (1 - c_m)) / ((v / (1 - c)).sqrt() + self.eps)
        new = {"x": x, "x0": server["x0"], "m": m, "v": v, "c_m": c_m, "c_v": c_v}
        # If nobody has a direction, nothing changes.
        return {name: torch.where(known, new[name], server[name]) for name in new}
