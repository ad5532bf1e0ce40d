"""Centralised training: a base optimizer on all data, for comparison (FedOpt, section E.6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import Tensor

from fedlib.algorithms.base import Client, State, ValueAndGrad
from fedlib.algorithms.local import OwnSteps
from fedlib.component import NonNegative, Positive
from fedlib.optimizers import mime as bases


@dataclass(frozen=True)
class LibraryAdagrad(bases.Adagrad):
    """Adagrad as libraries have it: v <- v + g^2 comes before the step g / (sqrt(v) + eps).

    The defaults are those of torch.optim.Adagrad with FedOpt's initial accumulator. Mime cannot use
    it as a base, as its step is not linear in g. In Mime's Adagrad a weight whose first gradient is
    0 steps g / eps.
    """

    eps: Positive = 1e-10
    v0: NonNegative | None = 0.1

    def begin(self, g: Tensor, s: State) -> State:
        return super().advance(g, s)

    def advance(self, g: Tensor, s: State) -> State:
        return s


@dataclass(frozen=True)
class Centralized(OwnSteps):
    """x <- x - client_lr U(g, s), s <- V(g, s), with g on one batch of all clients' data.

    One client holds everything (:meth:`fedlib.Task.centralized`). A round consists of
    ``local_epochs`` passes or ``local_steps`` batches of the federated task's batch size, as in
    FedOpt (D.3). The state s is kept from step to step and from round to round. Nothing is sent.

    The bases are Mime's, with U before V, so Mime with one full-batch step is exactly this. One
    base differs by name: ``base="adagrad"`` is torch.optim.Adagrad with an initial accumulator of
    0.1, and ``fedlib.base.Adagrad()`` is Mime's. FedOpt trained with library optimizers. Their Adam
    and Yogi also put g into v before the step and correct the bias, a difference that fades after
    the first steps. The difference to Mime's Adagrad remains. Momentum here is (1 - beta) g +
    beta m, so it needs a rate 1 / (1 - beta) times as large as torch.optim.SGD.

    Args:
        base: the base optimizer, for instance ``fedlib.base.Yogi(eps=1e-3)``.
        client_lr: its step size.
        client_schedule: factor on ``client_lr`` per round, see :class:`fedlib.FedOpt`.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.Centralized(base=fedlib.base.Momentum(), client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    BASES: ClassVar[dict[str, type[bases.Base]]] = {**bases.BASES, "adagrad": LibraryAdagrad}
    pooled = True

    base: bases.Base = field(default_factory=bases.SGD)

    def server_init(self, params: Tensor) -> State:
        return {"x": params, "base": self.base.init(params)}

    def client_init(self, server: State, client: Client) -> State:
        return {**server, "lr": self.rate(client)}

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        loss, g = value_and_grad(state["x"], batch)
        s = self.base.begin(g, state["base"])
        x = state["x"] - state["lr"] * self.base.step(g, s)
        return {**state, "x": x, "base": self.base.advance(g, s), "loss": loss}

    def client_final(self, server: State, state: State) -> State:
        return {"x": state["x"], "base": state["base"]}

    def server_update(self, server: State, mean: State) -> State:
        return mean
