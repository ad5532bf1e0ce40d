"""Client optimizers: how one client moves its model in a local step.

Each is written for one client whose parameters are one vector ``x [..., P]``. Leading axes
(clients, configurations) broadcast. State starts afresh every round, as federated clients are
stateless, unless the optimizer says that clients keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from fedlib.component import Component, Decay, NonNegative, PerParameter, Positive, Scalar, State
from fedlib.errors import require, require_known, undefined

# A hyperparameter: a number of one configuration, or ``[C, 1]`` for several.
Number = Tensor | float
# The objective's value [..., 1] at the start of the step, the new x and the new state.
Stepped = tuple[Scalar, PerParameter, State]
FIRST_STEPS = ("grown", "eta0")  # of Delta-SGD
MOMENTUM_STATES = ("round", "client")  # how long momentum lives


class Oracle(Protocol):
    """The value ``[..., 1]`` and gradient ``[..., P]`` of the local objective at ``x``.

    It uses the current batch. A method may ask at more than one point, but first at its current
    one. Calls with the same ``draw`` share their dropout masks.

    Example:
        >>> import torch
        >>> import fedlib
        >>> oracle = lambda x, draw=0: (x.square().sum(-1, keepdim=True) / 2, x)
        >>> value, x, state = fedlib.SGD().step(torch.ones(2), {}, oracle, torch.tensor(0.5))
        >>> x.tolist()
        [0.5, 0.5]
    """

    def __call__(self, x: PerParameter, draw: int = 0) -> tuple[Scalar, PerParameter]: ...


@dataclass(frozen=True)
class ClientOptimizer(Component):
    """Base class of client optimizers.

    Example:
        >>> import fedlib
        >>> issubclass(fedlib.DeltaSGD, fedlib.client.ClientOptimizer), fedlib.DeltaSGD().takes_lr
        (True, False)
    """

    # Whether there is a learning rate to choose (client_lr, eta_l of the papers).
    takes_lr: ClassVar[bool] = False
    # Whether that rate is on SGD's scale, so that a task's rate for SGD is a sensible default.
    rate_of_sgd: ClassVar[bool] = False

    @property
    def descends(self) -> bool:
        """Whether a step is x - lr * gradient and nothing else."""
        return type(self) is SGD  # a subclass may have a step of its own

    @property
    def remembers(self) -> bool:
        """Whether a client's state is kept from one of its rounds to the next."""
        return False

    @property
    def lr(self) -> float:
        """The client learning rate. It is 1 and has no effect if the method sets its own steps."""
        return 1.0

    def init(self, x: PerParameter) -> State:
        """The optimizer's initial state, at ``x [..., P]``: a dict of tensors."""
        return {}

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        """One local step with the scheduled learning rate ``lr``.

        Returns:
            the objective's value ``[..., 1]`` at ``x``, the new ``x`` and the new state.
        """
        raise undefined(self, "step")


@dataclass(frozen=True)
class RatedOptimizer(ClientOptimizer):
    """Base class of client optimizers with a learning rate ``lr`` (eta_l of the papers).

    Example:
        >>> import fedlib
        >>> isinstance(fedlib.SGD(), fedlib.client.RatedOptimizer)
        True
    """

    takes_lr: ClassVar[bool] = True

    lr: NonNegative = 0.1


@dataclass(frozen=True)
class SGD(RatedOptimizer):
    """x <- x - lr g. The client optimizer of all main results of FedOpt (Algorithms 1 and 4).

    Example:
        >>> import fedlib
        >>> fedlib.SGD(lr=0.03).lr
        0.03
    """

    rate_of_sgd: ClassVar[bool] = True

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        value, g = oracle(x)
        return value, torch.addcmul(x, g, lr, value=-1), state  # x - lr g


@dataclass(frozen=True)
class SGDM(RatedOptimizer):
    """u <- momentum u + g, x <- x - lr u, as torch.optim.SGD.

    Args:
        lr: learning rate.
        momentum: decay of u.
        nesterov: the step is g + momentum u (AdaFedAdam, Tables 3 and 7).
        momentum_state: with ``"round"`` u = 0 at the start of every round. With ``"client"`` every
            client keeps its u for its next round, and u = 0 at the start of its first. AdaFedAdam's
            authors do this: in their code each client has one torch optimizer.

    Example:
        >>> import fedlib
        >>> fedlib.FedOpt(client=fedlib.SGDM(lr=0.03, momentum=0.9)).client.momentum
        0.9
    """

    HISTORICAL: ClassVar[dict[str, Any]] = {"momentum_state": "round"}
    rate_of_sgd: ClassVar[bool] = True

    momentum: Decay = 0.9
    nesterov: bool = False
    momentum_state: str = "round"

    def validate(self) -> None:
        require_known("momentum_state", self.momentum_state, MOMENTUM_STATES)

    @property
    def remembers(self) -> bool:
        return self.momentum_state == "client"

    def init(self, x: PerParameter) -> State:
        return {"u": torch.zeros_like(x)}

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        value, g = oracle(x)
        u = self.momentum * state["u"] + g
        direction = g + self.momentum * u if self.nesterov else u
        return value, torch.addcmul(x, direction, lr, value=-1), {"u": u}  # x - lr direction


@dataclass(frozen=True)
class ClippedSGD(SGDM):
    """PyTorch's usual loop: ``clip_grad_norm_``, then ``torch.optim.SGD`` with weight decay.

    ``g <- g min(1, clip / |g|) + weight_decay x, u <- momentum u + g, x <- x - lr u``.

    Args:
        lr, momentum, nesterov, momentum_state: as in :class:`SGDM`.
        weight_decay: applies to all trained parameters.
        clip: the largest norm of a batch's gradient. 0 does not clip.

    Example:
        >>> import fedlib
        >>> task, names = fedlib.load_task("quadratic"), {"client_optimizer": "clipped_sgd"}
        >>> fedlib.run(task, "fedavg", rounds=2, **names, weight_decay=1e-3, clip=1.0)
        History(fedavg on quadratic, 2 rounds)
    """

    momentum: Decay = 0.0
    weight_decay: NonNegative = 0.0
    clip: NonNegative = 0.0

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        def changed(x: PerParameter, draw: int = 0) -> tuple[Scalar, PerParameter]:
            value, g = oracle(x, draw)
            clip: Any = self.clip
            norm = g.norm(dim=-1, keepdim=True) + 1e-6  # as in clip_grad_norm_
            share = torch.where(norm.new_ones(()) * clip > 0, (clip / norm).clamp(max=1), 1.0)
            return value, g * share + self.weight_decay * x

        return super().step(x, state, changed, lr)


def adam_state(x: PerParameter) -> State:
    """m = v = 0 and the products of the betas so far, for parameters ``x [..., P]``."""
    ones = torch.ones_like(x[..., :1])
    return {
        "m": torch.zeros_like(x),
        "v": torch.zeros_like(x),
        "beta1_product": ones,
        "beta2_product": ones.clone(),
    }


def adam_step(
    x: PerParameter,
    g: PerParameter,
    state: State,
    lr: Number,
    beta1: Number,
    beta2: Number,
    eps: Number,
) -> tuple[PerParameter, State]:
    """m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2, x <- x - lr m^ / (sqrt(v^) +
    eps).

    m^ and v^ are m and v over one minus the product of their betas so far, so the betas may change
    from step to step.

    Returns:
        the new ``x [..., P]`` and state.
    """
    m = beta1 * state["m"] + (1 - beta1) * g
    v = beta2 * state["v"] + (1 - beta2) * g**2
    b1, b2 = state["beta1_product"] * beta1, state["beta2_product"] * beta2
    x = x - lr * (m / (1 - b1)) / ((v / (1 - b2)).sqrt() + eps)
    return x, {"m": m, "v": v, "beta1_product": b1, "beta2_product": b2}


@dataclass(frozen=True)
class Adam(RatedOptimizer):
    """Adam with bias correction (Kingma and Ba, 2015), as torch.optim.Adam without weight decay.

    Args:
        lr: learning rate. 1e-3 in Delta-SGD's comparison and in torch.optim.Adam.
        beta1, beta2: decay of the first and of the second moment.
        eps: added to the root of the corrected second moment.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(client=fedlib.client.Adam(lr=0.03))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    lr: NonNegative = 1e-3
    beta1: Decay = 0.9
    beta2: Decay = 0.999
    eps: Positive = 1e-8

    def init(self, x: PerParameter) -> State:
        return adam_state(x)

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        value, g = oracle(x)
        return value, *adam_step(x, g, state, lr, self.beta1, self.beta2, self.eps)


@dataclass(frozen=True)
class Adagrad(RatedOptimizer):
    """v <- v + g^2, x <- x - lr g / (sqrt(v) + eps), as torch.optim.Adagrad without decays.

    Args:
        lr: learning rate. 1e-2 in Delta-SGD's comparison and in torch.optim.Adagrad.
        eps: added to the root.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(client=fedlib.client.Adagrad(lr=0.1))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    lr: NonNegative = 1e-2
    eps: Positive = 1e-10

    def init(self, x: PerParameter) -> State:
        return {"v": torch.zeros_like(x)}

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        value, g = oracle(x)
        v = state["v"] + g**2
        return value, x - lr * g / (v.sqrt() + self.eps), {"v": v}


@dataclass(frozen=True)
class SPS(ClientOptimizer):
    """SGD with the stochastic Polyak step size (Loizou et al., 2021), on each batch::

        x <- x - eta g  with  eta = (f(x) - f_star) / (c ||g||^2 + eps)

    f is the whole local objective: with a proximal or contrastive term, f(x) and g include it. If
    f(x) < f_star there is no step. The step size has no upper bound, as in the code of the
    Delta-SGD paper's comparison. ``eta_max`` sets one.

    Args:
        f_star: the least value of every batch's objective. 0 in the Delta-SGD paper.
        c: 0.5 in the Delta-SGD paper.
        eta_max: upper bound of the step size. None sets no bound.
        eps: added to the denominator.

    Example:
        >>> import fedlib
        >>> A, b = [[[1.0]], [[3.0]]], [[0.0], [3.0]]
        >>> task = fedlib.quadratic_task(A, b, x0=[3.0], offset=[0.5, 2.0])
        >>> method = fedlib.FedOpt(client=fedlib.SPS(c=0.5))
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        False
    """

    f_star: float = 0.0
    c: Positive = 0.5
    eta_max: Positive | None = None
    eps: NonNegative = 1e-8

    def validate(self) -> None:
        require(abs(self.f_star) < float("inf"), "f_star", self.f_star, "a finite number")

    def step_size(self, value: Scalar, square: Scalar) -> Scalar:
        """eta from the objective's value and its gradient's squared norm, all ``[..., 1]``."""
        eta = (value - self.f_star).clamp(min=0) / (self.c * square + self.eps)
        return eta if self.eta_max is None else eta.clamp(max=self.eta_max)

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        value, g = oracle(x)
        eta = self.step_size(value, g.square().sum(-1, keepdim=True))
        return value, x - eta * g, state


@dataclass(frozen=True)
class DeltaSGD(ClientOptimizer):
    """Clients that find their own step sizes (Kim et al., 2024, Algorithm 1): x <- x - eta g.

    eta_k = min(gamma ||x_k - x_{k-1}|| / (2 ||g_k - g_{k-1}||), sqrt(1 + delta theta_{k-1})
    eta_{k-1}) + eps and theta_k = eta_k / eta_{k-1}. Norms are over all parameters. If the iterate
    or the gradient has not changed, eta_k = sqrt(1 + delta theta_{k-1}) eta_{k-1}. eta and theta
    start at eta0 and theta0 in every round.

    Paper and code differ. The defaults follow the code, which gave the paper's numbers:

    - With ``first_step="grown"`` the first step is eta0 sqrt(1 + delta theta0). With ``"eta0"``, as
      in the paper, it is eta0, and theta is theta0 after it.
    - g_{k-1} is computed again at x_{k-1} on the batch of step k, which costs a second gradient per
      step. ``reuse_gradient`` keeps the gradient of step k - 1, on its own batch. The paper says
      that no gradient is evaluated twice, which is true only with this.
    - The code adds eps, the paper does not (``eps=0``).
    - The two gradients on one batch have different dropout masks, which adds to
      ||g_k - g_{k-1}||. With ``shared_masks`` they have the same.

    Args:
        delta: bounds the growth of the step size. 0.1 in all experiments.
        gamma: 2 in all experiments. A smaller value gives smaller steps.
        eta0, theta0: 0.2 and 1 in all experiments.
        eps: added to the step size.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.FedOpt(client=fedlib.DeltaSGD())
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    delta: NonNegative = 0.1
    gamma: Positive = 2.0
    eta0: Positive = 0.2
    theta0: NonNegative = 1.0
    eps: NonNegative = 1e-8
    first_step: str = "grown"
    reuse_gradient: bool = False
    shared_masks: bool = False

    def validate(self) -> None:
        require_known("first_step", self.first_step, FIRST_STEPS)

    def init(self, x: PerParameter) -> State:
        ones = torch.ones_like(x[..., :1])
        state = {"previous": x, "eta": self.eta0 * ones, "theta": self.theta0 * ones}
        if self.reuse_gradient:
            state["gradient"] = torch.zeros_like(x)
        if self.first_step == "eta0":
            state["fresh"] = ones
        return state

    def step_size(self, moved: Scalar, turned: Scalar, old: Scalar, theta: Scalar) -> Scalar:
        """eta_k, from eta_{k-1}, theta_{k-1} and the changes of x and of its gradient."""
        grown = old * (1 + self.delta * theta).sqrt()
        # In a round's first step nothing has moved, and only the growth counts.
        known = (moved > 0) & (turned > 0)
        bound = self.gamma * moved / (2 * torch.where(known, turned, 1))
        return torch.where(known, torch.minimum(grown, bound) + self.eps, grown)

    def advance(
        self, x: PerParameter, g: PerParameter, before: PerParameter, state: State
    ) -> tuple[PerParameter, State]:
        """The new ``x`` and state, from the gradients at ``x`` and at the previous point."""
        moved = torch.linalg.vector_norm(x - state["previous"], dim=-1, keepdim=True)
        turned = torch.linalg.vector_norm(g - before, dim=-1, keepdim=True)
        old = state["eta"]
        eta = self.step_size(moved, turned, old, state["theta"])
        theta = eta / old
        new = {"previous": x}
        if self.first_step == "eta0":
            fresh = state["fresh"] > 0
            eta, theta = torch.where(fresh, old, eta), torch.where(fresh, state["theta"], theta)
            new["fresh"] = torch.zeros_like(state["fresh"])
        if self.reuse_gradient:
            new["gradient"] = g
        return x - eta * g, {**new, "eta": eta, "theta": theta}

    def step(self, x: PerParameter, state: State, oracle: Oracle, lr: Scalar) -> Stepped:
        value, g = oracle(x)
        if self.reuse_gradient:
            before = state["gradient"]
        else:
            _, before = oracle(state["previous"], draw=0 if self.shared_masks else 1)
        return value, *self.advance(x, g, before, state)
