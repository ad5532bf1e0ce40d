"""FedNova: local updates, each divided by the length of its local training (Wang et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, FullBatch, State, ValueAndGrad
from fedlib.algorithms.local import OwnSteps
from fedlib.component import Decay, NonNegative
from fedlib.errors import require_known
from fedlib.optimizers.client import MOMENTUM_STATES


@dataclass(frozen=True)
class FedNova(OwnSteps):
    """FedNova with SGD clients, optionally with momentum and a proximal term.

    Client i takes tau_i local steps x <- x - client_lr d with u <- momentum u + g + mu (x - x_t)
    and d = u (``nesterov``: g + mu (x - x_t) + momentum u), u = 0 at the start of a round. Its
    update is x_t - x_i = client_lr * sum_k a_{i,k} g_{i,k}, and the server does::

        x_{t+1} = x_t - server_lr * tau_eff * sum_i p_i (x_t - x_i) / ||a_i||_1

    ||a_i||_1 is computed along with the steps: the same steps would accumulate it from gradients
    that are all 1, in units of client_lr. So plain steps add 1. Momentum adds n with n <-
    momentum n + 1. A proximal term makes a <- (1 - client_lr mu) a + 1. The authors' code counts
    double if momentum and mu meet. Here n <- momentum n + 1 - client_lr mu a, a <- a + n, which is
    exact (as long as no a_{i,k} is negative, that is, for client_lr mu well below 1).

    tau_eff = sum_i p_i ||a_i||_1, with the ||a_i||_1 of the steps without their proximal term. For
    mu = 0 this is the same ||a_i||_1, and with mu and no momentum it is sum_i p_i tau_i. Both are
    as in the authors' code.

    With ``momentum_state="client"`` a client keeps its u for its next round. The code of FedNova's
    authors does not: it sets u, n and a to 0 after every round. Here n and a still start at 0, so
    ||a_i||_1 counts the contributions of this round's gradients, by the same recurrences. The part
    of x_t - x_i from the u of earlier rounds is divided by it, but not counted in it.

    With ``nesterov_count="heavy_ball"`` the steps of Nesterov's momentum are counted as if they
    were steps of heavy ball, as in the authors' code: a <- a + n. A Nesterov step really adds 1 -
    client_lr mu a + momentum n. Clients with few steps then count for more.

    If every client takes the same number of plain steps, this is FedAvg. A client that takes no
    step counts as an update of zero.

    Args:
        client_lr: learning rate of the clients' SGD, eta_l.
        server_lr: factor on the server's step. 1 in the paper.
        momentum: momentum of the clients' SGD.
        mu: weight of the clients' proximal term mu/2 ||x - x_t||^2.
        nesterov: whether clients use Nesterov's momentum.
        momentum_state: with ``"round"`` u starts at 0 in every round, with ``"client"`` only in a
            client's first.
        nesterov_count: whether ||a_i||_1 counts steps of Nesterov's momentum as they are
            (``"exact"``) or as steps of heavy ball (``"heavy_ball"``).
        client_schedule: factor on the client learning rate per round. See :class:`fedlib.FedOpt`.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> methods = fedlib.FedNova(), fedlib.FedOpt()
        >>> nova, average = (fedlib.run(task, method, rounds=5) for method in methods)
        >>> bool((nova.params["x"] - average.params["x"]).abs().max() < 1e-5)  # equal steps: FedAvg
        True
    """

    HISTORICAL: ClassVar[dict[str, Any]] = {"momentum_state": "round", "nesterov_count": "exact"}

    server_lr: NonNegative = 1.0
    momentum: Decay = 0.0
    mu: NonNegative = 0.0
    nesterov: bool = False
    momentum_state: str = "round"
    nesterov_count: str = "exact"

    def validate(self) -> None:
        super().validate()
        require_known("nesterov_count", self.nesterov_count, ("exact", "heavy_ball"))
        require_known("momentum_state", self.momentum_state, MOMENTUM_STATES)

    @property
    def remembers(self) -> bool:
        return self.momentum_state == "client"

    def client_enroll(self, server: State, client: Client, full: FullBatch) -> State:
        return {"u": torch.zeros_like(server["x"])}

    def client_init(self, server: State, client: Client) -> State:
        x = server["x"]
        zero = torch.zeros_like(x[..., :1])
        lr = self.rate(client) + zero
        pull = torch.cat([lr * self.mu, zero], dim=-1)
        return {
            "x": x,
            "anchor": x,
            "u": client.memory["u"] if self.remembers else torch.zeros_like(x),
            "lr": lr,
            # ||a||_1 and its momentum n: with the proximal term, and without.
            "a": torch.zeros_like(pull),
            "n": torch.zeros_like(pull),
            "pull": pull,
        }

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        u, d = self.direction(state["u"], g + self.mu * (state["x"] - state["anchor"]))
        n, step = self.direction(state["n"], 1 - state["pull"] * state["a"])
        step = n if self.nesterov_count == "heavy_ball" else step
        x, a = state["x"] - state["lr"] * d, state["a"] + step
        return {**state, "loss": loss, "x": x, "u": u, "a": a, "n": n}

    def direction(self, u: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        """The new momentum and the step's direction, for vectors and for the scalars that count."""
        u = self.momentum * u + g
        return u, g + self.momentum * u if self.nesterov else u

    def client_final(self, server: State, state: State) -> State:
        a, plain = state["a"][..., :1], state["a"][..., 1:]
        moved = a != 0
        update = (server["x"] - state["x"]) / torch.where(moved, a, 1)
        return {"update": torch.where(moved, update, 0), "tau": plain}

    def client_remember(self, server: State, state: State) -> State:
        return {"u": state["u"]}

    def server_update(self, server: State, mean: State) -> State:
        return {"x": server["x"] - self.server_lr * mean["tau"] * mean["update"]}
