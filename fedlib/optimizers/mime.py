"""Base optimizers of Mime: a step U and a state update V, the same for clients and server.

One step of a base optimizer on the gradient g with state s (Mime, section 3, BASEOPT) is

    x <- x - lr U(g, s),    s <- V(g, s),

with the old s in both. U is linear in g for a frozen s (up to the momentum in s). V need not be
linear:

==========  =========================================  =======================================
base        U(g, s)                                    V(g, s)
==========  =========================================  =======================================
SGD         g                                          no state
Momentum    (1 - beta) g + beta m                      m <- (1 - beta) g + beta m
Adagrad     g / (sqrt(v) + eps)                        v <- v + g^2
Adam        ((1-beta1) g + beta1 m) / (sqrt(v) + eps)  m as in U, v <- beta2 v + (1-beta2) g^2
Yogi        as Adam                                    v <- v - (1-beta2) g^2 sign(v - g^2)
==========  =========================================  =======================================

The paper's text has the momentum row and U's linearity. Its Table 5 was not available, so the other
rows follow from linearity. Its published code (fedjax) differs: momentum has no factor (1 - beta),
and Adam and Adagrad put the clients' gradients into v too, so their U is not linear in g. It also
corrects the bias, here ``bias_correction=True``.

A U that divides by sqrt(v) explodes at v = 0. By default such a base begins with one V on the
first gradient it sees, before the first U (:meth:`Base.begin`). With ``v0`` it begins at v = v0
and m = 0 instead, without that V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedlib.component import Component, Decay, NonNegative, PerParameter, Positive, State
from fedlib.errors import Error, undefined


@dataclass(frozen=True)
class Base(Component):
    """Base class. Vectors are ``[..., P]``. Leading axes broadcast.

    Attributes:
        vectors: the number of vectors in the state, each of the size of the parameters.

    Example:
        >>> import fedlib
        >>> fedlib.base.Adam().vectors  # m and v
        2
    """

    vectors: ClassVar[int] = 0

    def init(self, x: PerParameter) -> State:
        """The state before the first gradient, for parameters ``x [..., P]``."""
        return {}

    def begin(self, g: PerParameter, s: State) -> State:
        """The state for the first U: V of the first gradient if v would be 0, else ``s``."""
        return s

    def linear(self, s: State) -> tuple[PerParameter | float, PerParameter | float]:
        """(a, b) with U(g, s) = a g + b."""
        raise undefined(self, "linear")

    def step(self, g: PerParameter, s: State) -> PerParameter:
        """U(g, s) ``[..., P]``."""
        a, b = self.linear(s)
        return a * g + b

    def advance(self, g: PerParameter, s: State) -> State:
        """V(g, s)."""
        return s


@dataclass(frozen=True)
class SGD(Base):
    """U = g, without a state.

    Example:
        >>> import torch
        >>> import fedlib
        >>> fedlib.base.SGD().step(torch.ones(1), {}).item()
        1.0
    """

    def linear(self, s: State) -> tuple[PerParameter | float, PerParameter | float]:
        return 1.0, 0.0


@dataclass(frozen=True)
class Momentum(Base):
    """U = V = (1 - momentum) g + momentum m, where m starts at 0.

    Example:
        >>> import torch
        >>> import fedlib
        >>> base = fedlib.base.Momentum(momentum=0.9)
        >>> round(base.step(torch.ones(1), {"m": torch.zeros(1)}).item(), 3)
        0.1
    """

    vectors: ClassVar[int] = 1
    momentum: Decay = 0.9

    def init(self, x: PerParameter) -> State:
        return {"m": torch.zeros_like(x)}

    def linear(self, s: State) -> tuple[PerParameter | float, PerParameter | float]:
        return 1 - self.momentum, self.momentum * s["m"]

    def advance(self, g: PerParameter, s: State) -> State:
        return {"m": (1 - self.momentum) * g + self.momentum * s["m"]}


@dataclass(frozen=True)
class Adaptive(Base):
    """Base of Adagrad, Adam and Yogi: a v, and its start. ``passes`` counts the Vs."""

    eps: Positive = 1e-3
    v0: NonNegative | None = None

    def init(self, x: PerParameter) -> State:
        v = torch.zeros_like(x) + (0.0 if self.v0 is None else self.v0)
        return {"v": v, "passes": torch.zeros_like(x[..., :1])}

    def begin(self, g: PerParameter, s: State) -> State:
        if self.v0 is not None:
            return s
        first = s["passes"] == 0
        return {name: torch.where(first, new, s[name]) for name, new in self.advance(g, s).items()}


@dataclass(frozen=True)
class Adagrad(Adaptive):
    """U = g / (sqrt(v) + eps), V: v + g^2.

    Example:
        >>> import fedlib
        >>> fedlib.base.Adagrad(eps=1e-3).vectors  # v
        1
    """

    vectors: ClassVar[int] = 1

    def linear(self, s: State) -> tuple[PerParameter | float, PerParameter | float]:
        return 1 / (s["v"].sqrt() + self.eps), 0.0

    def advance(self, g: PerParameter, s: State) -> State:
        return {"v": s["v"] + g**2, "passes": s["passes"] + 1}


@dataclass(frozen=True)
class Adam(Adaptive):
    """U = ((1 - beta1) g + beta1 m) / (sqrt(v) + eps) with v frozen. V updates both averages.

    ``bias_correction`` divides U's numerator by 1 - beta1^(n+1) and v by 1 - beta2^n after n Vs, as
    the numerator has seen one gradient more.

    Example:
        >>> import fedlib
        >>> fedlib.Mime(base=fedlib.base.Adam(beta1=0.5)).base.beta1
        0.5
    """

    vectors: ClassVar[int] = 2
    beta1: Decay = 0.9
    beta2: Decay = 0.99
    bias_correction: bool = False

    def validate(self) -> None:
        if self.bias_correction and self.v0 is not None:
            raise Error("bias_correction is for a v that starts at 0: leave v0 out")

    def init(self, x: PerParameter) -> State:
        return {"m": torch.zeros_like(x), **super().init(x)}

    def linear(self, s: State) -> tuple[PerParameter | float, PerParameter | float]:
        v, numerator = s["v"], 1.0
        if self.bias_correction:
            v = v / (1 - self.beta2 ** s["passes"])
            numerator = 1 / (1 - self.beta1 ** (s["passes"] + 1))
        scale = numerator / (v.sqrt() + self.eps)
        return (1 - self.beta1) * scale, self.beta1 * scale * s["m"]

    def second_moment(self, v: PerParameter, square: PerParameter) -> PerParameter:
        """The new v from the old one and g^2."""
        return self.beta2 * v + (1 - self.beta2) * square

    def advance(self, g: PerParameter, s: State) -> State:
        m = (1 - self.beta1) * g + self.beta1 * s["m"]
        return {"m": m, "v": self.second_moment(s["v"], g**2), "passes": s["passes"] + 1}


@dataclass(frozen=True)
class Yogi(Adam):
    """Adam with v <- v - (1 - beta2) g^2 sign(v - g^2).

    Example:
        >>> import fedlib
        >>> fedlib.Centralized(base=fedlib.base.Yogi(eps=1e-3)).base.eps
        0.001
    """

    def second_moment(self, v: PerParameter, square: PerParameter) -> PerParameter:
        return v - (1 - self.beta2) * square * torch.sign(v - square)


BASES: dict[str, type[Base]] = {
    "sgd": SGD,
    "momentum": Momentum,
    "adam": Adam,
    "adagrad": Adagrad,
    "yogi": Yogi,
}
