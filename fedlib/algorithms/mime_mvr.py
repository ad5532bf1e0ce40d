"""MimeMVR: Mime with momentum-based variance reduction (Karimireddy et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedlib.algorithms.base import Client, FullBatch, State
from fedlib.algorithms.two_phase import TwoPhase
from fedlib.component import Decay


@dataclass(frozen=True)
class MimeMVR(TwoPhase):
    """Mime with STORM's momentum, which estimates grad F(x_t) with little variance and bias.

    With G(x) = sum_i p_i grad F_i(x) over the cohort of round t and beta = ``momentum``, the server
    forms, before the local steps::

        m_t = (1 - beta) G(x_t) + beta (m_{t-1} + G(x_t) - G(x_{t-1})),    m_0 = G(x_0),

    with both gradients by the same clients, so that m_t belongs to x_t, the clients' start. With
    c = G(x_t) they step, on the same batch and dropout masks at y and x_t::

        g_i = grad F_i(y; b) - grad F_i(x_t; b) + c,
        y <- y - client_lr ((1 - beta) g_i + beta (m_t + grad F_i(y; b) - grad F_i(x_t; b))).

    Source: Mime, section 4.2 and Theorem IV. The algorithm is in an appendix that was not
    available, so the update follows from its base, MVR (Cutkosky and Orabona, 2019). The published
    code (fedjax) leaves it out. beta = 0 is Mime with SGD, and so is any beta if all clients take
    part.

    Clients receive x_t, x_{t-1}, m_t and c, and send two gradients and a model.

    Args:
        momentum: beta.
        client_lr, server_lr, client_schedule, split, lean: see :class:`TwoPhase`. With ``lean``
            measuring clients receive x_t and x_{t-1} alone, and training clients no x_{t-1}.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.MimeMVR(momentum=0.9, client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    momentum: Decay = 0.9

    gradients: ClassVar[int] = 2
    state_vectors = 2

    def communication(self, size: int) -> tuple[int, int]:
        down, up = super().communication(size)
        return down - size * self.lean, up

    def measure_communication(self, size: int) -> tuple[int, int]:
        down, up = super().measure_communication(size)
        return down + size * self.lean, up

    def server_init(self, params: Tensor) -> State:
        zero = torch.zeros_like(params)
        state = {"x": params, "previous": params, "m": zero, "c": zero}
        return {**state, "passes": torch.zeros_like(params[..., :1])}

    def client_measure(self, server: State, client: Client, full: FullBatch) -> tuple[State, State]:
        return {}, {"now": full(server["x"])[1], "before": full(server["previous"])[1]}

    def server_measured(self, server: State, mean: State) -> State:
        now, beta = mean["now"], self.momentum
        m = (1 - beta) * now + beta * (server["m"] + now - mean["before"])
        return {
            "x": server["x"],
            "previous": server["x"],
            "m": torch.where(server["passes"] == 0, now, m),
            "c": now,
            "passes": server["passes"] + 1,
        }

    def client_init(self, server: State, client: Client) -> State:
        lr = self.rate(client)
        shift = lr * ((1 - self.momentum) * server["c"] + self.momentum * server["m"])
        return {"x": server["x"], "anchor": server["x"], "scale": lr, "shift": shift}

    def server_update(self, server: State, mean: State) -> State:
        return {**server, "x": self.moved(server, mean)}
