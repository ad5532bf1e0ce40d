"""Server optimizers: how the server turns the pseudo-gradient into a step.

The pseudo-gradient is g_t = -Delta_t, the weighted mean of x_t - x_i over the cohort (FedOpt,
section 2). Vectors are ``[..., P]``. A leading axis, if there is one, counts configurations.

``form`` chooses between FedOpt's text and the code behind its numbers, which differ:

=================  =============================  ====================================
                   ``form="code"`` (default)      ``form="printed"`` (Algorithms 2, 5)
=================  =============================  ====================================
second moment v    from the pseudo-gradient g_t   from the momentum m_t
v before round 0   0                              tau^2 (paper: v_{-1} >= tau^2)
bias correction    Adam, Yogi: on                 off
=================  =============================  ====================================

``v0`` and ``bias_correction`` override the last two rows one by one. tau is outside the square
root, as in every formula of the paper's proofs. The root over v + tau in its pseudo-code is a
typo.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from fedlib.component import Component, Decay, NonNegative, PerParameter, Positive, State
from fedlib.errors import require_known, undefined
from fedlib.optimizers.client import adam_state


@dataclass(frozen=True)
class ServerOptimizer(Component):
    """Base class. ``lr`` is the server learning rate (eta of the papers).

    Example:
        >>> import torch
        >>> import fedlib
        >>> class Sign(fedlib.server.ServerOptimizer):
        ...     def step(self, x, g, state):
        ...         return x - self.lr * g.sign(), state
        >>> Sign(lr=0.5).step(torch.zeros(2), torch.tensor([3.0, -1.0]), {})[0].tolist()
        [-0.5, 0.5]
    """

    lr: NonNegative = 1.0

    def init(self, x: PerParameter) -> State:
        """The optimizer's state before round 0, for parameters ``x [..., P]``."""
        return {}

    def step(self, x: PerParameter, g: PerParameter, state: State) -> tuple[PerParameter, State]:
        """The parameters and state after the pseudo-gradient ``g [..., P]``."""
        raise undefined(self, "step")

    @classmethod
    def stack(cls, parts: Sequence[Self], dtype: torch.dtype, device: torch.device) -> Any:
        """One optimizer for ``C`` configurations. Each kind of optimizer steps its own rows."""
        kinds: dict[str, list[int]] = {}
        for row, part in enumerate(parts):
            kinds.setdefault(part.structure(), []).append(row)
        if len(kinds) == 1:
            return super().stack(parts, dtype, device)
        stacked = []
        for rows in kinds.values():
            own = [parts[row] for row in rows]
            stacked.append((torch.tensor(rows, device=device), own[0].stack(own, dtype, device)))
        return Together(parts=tuple(stacked))


@dataclass(frozen=True)
class Together(ServerOptimizer):
    """Several optimizers, each for its own configurations, rows of ``[C, P]``.

    With it, configurations with different servers train together if their clients do the same
    work. A state field that only some optimizers have is kept for all rows.

    Attributes:
        parts: (positions int64 ``[C_i]``, optimizer with hyperparameters ``[C_i, 1]``).
    """

    parts: tuple[tuple[Tensor, ServerOptimizer], ...] = ()

    def init(self, x: PerParameter) -> State:
        state: State = {}
        for rows, part in self.parts:
            for name, value in part.init(x[rows]).items():
                shape = (*x.shape[:-1], value.shape[-1])
                state.setdefault(name, x.new_zeros(shape))[rows] = value
        return state

    def step(self, x: PerParameter, g: PerParameter, state: State) -> tuple[PerParameter, State]:
        new = torch.empty_like(x)
        states = {name: torch.zeros_like(value) for name, value in state.items()}
        for rows, part in self.parts:
            before = {name: state[name][rows] for name in part.init(x[rows])}
            new[rows], after = part.step(x[rows], g[rows], before)
            for name, value in after.items():
                states[name][rows] = value
        return new, states


@dataclass(frozen=True)
class SGD(ServerOptimizer):
    """x <- x - lr g. With lr = 1 it is FedAvg's server.

    Example:
        >>> import torch
        >>> import fedlib
        >>> fedlib.server.SGD(lr=0.5).step(torch.zeros(1), torch.ones(1), {})[0].item()
        -0.5
    """

    def step(self, x: PerParameter, g: PerParameter, state: State) -> tuple[PerParameter, State]:
        return x - self.lr * g, state


@dataclass(frozen=True)
class Momentum(ServerOptimizer):
    """u <- momentum u + g, x <- x - lr u, as torch.optim.SGD. It is FedAvgM's server.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(server=fedlib.server.Momentum(lr=0.3))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    momentum: Decay = 0.9

    def init(self, x: PerParameter) -> State:
        return {"u": torch.zeros_like(x)}

    def step(self, x: PerParameter, g: PerParameter, state: State) -> tuple[PerParameter, State]:
        u = self.momentum * state["u"] + g
        return x - self.lr * u, {"u": u}


@dataclass(frozen=True)
class Adaptive(ServerOptimizer):
    """Base of Adagrad, Adam and Yogi (FedOpt, Algorithm 2): all but the second moment.

    m <- beta1 m + (1 - beta1) g,  v <- second_moment(v, g^2),  x <- x - lr m^ / (sqrt(v^) + tau).
    With bias correction m^ = m / (1 - beta1^t) and v^ = v / (1 - beta2^t), t from 1. The correction
    does not rescale tau: the step is lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + tau).

    Args:
        tau: degree of adaptivity, outside the square root. Smaller is more adaptive.
        beta1, beta2: decay of m and of v.
        v0: v before round 0. Default: 0 (``form="code"``) or tau^2 (``form="printed"``).
        bias_correction: by default on for ``form="code"``, as in the code behind the paper's
            numbers, and off for ``form="printed"``.
        form: with ``"printed"`` v squares the momentum m, as in Algorithms 2 and 5 of the paper.

    Example:
        >>> import fedlib
        >>> isinstance(fedlib.server.Yogi(tau=0.1), fedlib.server.Adaptive)
        True
    """

    lr: NonNegative = 1e-2
    tau: Positive = 1e-3
    beta1: Decay = 0.0
    beta2: Decay = 0.0
    v0: NonNegative | None = None
    bias_correction: bool | None = None
    form: str = "code"

    def validate(self) -> None:
        require_known("form", self.form, ("code", "printed"))

    def second_moment(self, v: PerParameter, square: PerParameter) -> PerParameter:
        """The new v from the old one and the squared (pseudo-)gradient."""
        raise undefined(self, "second_moment")

    def corrects_bias(self) -> bool:
        """Whether the step corrects m and v for having started at their initial values."""
        return self.form == "code" if self.bias_correction is None else self.bias_correction

    def init(self, x: PerParameter) -> State:
        state, default = adam_state(x), 0.0 if self.form == "code" else self.tau**2
        return state | {"v": state["v"] + (default if self.v0 is None else self.v0)}

    def step(self, x: PerParameter, g: PerParameter, state: State) -> tuple[PerParameter, State]:
        m = self.beta1 * state["m"] + (1 - self.beta1) * g
        v = self.second_moment(state["v"], (g if self.form == "code" else m) ** 2)
        # beta1^t and beta2^t correct the bias of m and v, which start at their initial values.
        b1 = state["beta1_product"] * self.beta1
        b2 = state["beta2_product"] * self.beta2
        lr = self.lr * (1 - b2).sqrt() / (1 - b1) if self.corrects_bias() else self.lr
        x = x - lr * m / (v.sqrt() + self.tau)
        return x, {"m": m, "v": v, "beta1_product": b1, "beta2_product": b2}


@dataclass(frozen=True)
class Adagrad(Adaptive):
    """v <- v + g^2. FedAdagrad's server. The paper has beta1 = 0, so there is no bias to correct.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(server=fedlib.server.Adagrad(lr=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    # Fields without a meaning here, which no override may set.
    unused: ClassVar[tuple[str, ...]] = ("beta2", "bias_correction")

    def corrects_bias(self) -> bool:
        return bool(self.bias_correction)

    def second_moment(self, v: PerParameter, square: PerParameter) -> PerParameter:
        return v + square


@dataclass(frozen=True)
class Adam(Adaptive):
    """v <- beta2 v + (1 - beta2) g^2. FedAdam's server. The paper: beta1 = 0.9, beta2 = 0.99.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(server=fedlib.server.Adam(lr=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    beta1: Decay = 0.9
    beta2: Decay = 0.99

    def second_moment(self, v: PerParameter, square: PerParameter) -> PerParameter:
        return self.beta2 * v + (1 - self.beta2) * square


@dataclass(frozen=True)
class Yogi(Adaptive):
    """v <- v - (1 - beta2) g^2 sign(v - g^2). FedYogi's server. beta1 = 0.9, beta2 = 0.99.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(server=fedlib.server.Yogi(lr=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    beta1: Decay = 0.9
    beta2: Decay = 0.99

    def second_moment(self, v: PerParameter, square: PerParameter) -> PerParameter:
        return v - (1 - self.beta2) * square * torch.sign(v - square)
