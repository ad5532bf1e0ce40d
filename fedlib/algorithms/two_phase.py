"""Base of Mime and its variants: gradients of whole clients at x_t before the local steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from fedlib.algorithms.base import State, ValueAndGrad
from fedlib.algorithms.local import OwnSteps
from fedlib.component import NonNegative
from fedlib.errors import require, undefined


@dataclass(frozen=True)
class TwoPhase(OwnSteps):
    """Clients send whole-data gradients, the server updates c and its state, then clients train.

    The mean gradient c = sum_i p_i grad F_i(x_t), without dropout and augmentation, and the new
    model x_{t+1} = x_t + server_lr sum_i p_i (y_i - x_t) have the clients' weights p_i.

    With ``split`` (Mime, section 5.3) one half of the cohort, drawn at random, sends gradients only
    and the other half trains and sends models only. So a client sends as much as in FedAvg.

    A round sends, in model sizes and with |s| vectors of optimizer state:

    ============  =======================  ====================
    each client   receives                 sends
    ============  =======================  ====================
    default       x, s, and c if used      gradient and model
    ``split``     x, s, and c if used      gradient or model
    ============  =======================  ====================

    The paper gives no counts. ``lean`` is another reading of its ``split``: clients that send
    gradients receive x alone.

    Args:
        client_lr: eta, the step size of the local steps.
        server_lr: server learning rate. The paper uses 1, the mean of the clients' models.
        client_schedule: factor on ``client_lr`` per round, see :class:`fedlib.FedOpt`.
        split, lean: see above.
    """

    server_lr: NonNegative = 1.0
    split: bool = False
    lean: bool = False

    # Whether clients receive c and correct their gradients with it.
    corrects: ClassVar[bool] = True
    # How many gradients a measuring client sends.
    gradients: ClassVar[int] = 1

    def validate(self) -> None:
        super().validate()
        require(self.split or not self.lean, "lean", self.lean, "true only with split")

    @property
    def measures(self) -> bool:
        return True

    @property
    def halves(self) -> bool:
        return bool(self.split) and self.measures

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        """y <- y - scale (g_i - g_i(x_t)) - shift, with both gradients on one batch and mask."""
        loss, g = value_and_grad(state["x"], batch)
        _, at_anchor = value_and_grad(state["anchor"], batch)
        x = state["x"] - state["scale"] * (g - at_anchor) - state["shift"]
        return {**state, "x": x, "loss": loss}

    def client_final(self, server: State, state: State) -> State:
        return {"delta": state["x"] - server["x"]}

    def moved(self, server: State, mean: State) -> Tensor:
        """x_{t+1}."""
        x: Tensor = server["x"]
        return x + self.server_lr * mean["delta"]

    @property
    def state_vectors(self) -> int:
        """|s|: the vectors that clients receive besides x and c."""
        raise undefined(self, "state_vectors")

    def communication(self, size: int) -> tuple[int, int]:
        down = 1 + self.state_vectors + self.corrects
        up = 1 if self.halves or not self.measures else 1 + self.gradients
        return down * size, up * size

    def measure_communication(self, size: int) -> tuple[int, int]:
        down = 1 if self.lean else 1 + self.state_vectors + self.corrects
        return down * size, self.gradients * size
