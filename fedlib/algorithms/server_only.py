"""Server-only methods: a base optimizer on the cohort's mean gradient, without local steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fedlib.algorithms.base import State, ValueAndGrad
from fedlib.algorithms.mime import Mime
from fedlib.errors import require


@dataclass(frozen=True)
class ServerOnly(Mime):
    """x_{t+1} = x_t - server_lr client_lr U(c, s), s <- V(c, s), c = sum_i p_i grad F_i(x_t).

    The centralised methods that Mime's Table 1 compares with, with clients sampled each round.
    Clients take no local steps: those that the task asks for only evaluate the training loss at
    x_t, so ask for few (``local_steps=1``).

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> method = fedlib.ServerOnly(base=fedlib.base.Adam(), client_lr=0.1)
        >>> loss = fedlib.run(task, method, rounds=20).series("loss")
        >>> bool(loss[20] < loss[0])
        True
    """

    corrects: ClassVar[bool] = False

    def validate(self) -> None:
        super().validate()
        require(not self.split, "split", self.split, "false (there is no training to split off)")

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        return {**state, "loss": value_and_grad(state["x"], batch)[0]}

    def client_final(self, server: State, state: State) -> State:
        return {"delta": -state["shift"]}

    def communication(self, size: int) -> tuple[int, int]:
        """x down, a gradient up."""
        return size, size
