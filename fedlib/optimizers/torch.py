"""Delta-SGD and SPS as ordinary torch.optim.Optimizer classes, for any training loop.

They run the code of the client optimizers on an ordinary model:

>>> import torch
>>> import fedlib
>>> model = torch.nn.Linear(2, 1)
>>> optimizer = fedlib.torch_optim.DeltaSGD(model.parameters())
>>> def closure():
...     optimizer.zero_grad()
...     loss = model(torch.ones(4, 2)).square().mean()
...     loss.backward()
...     return loss
>>> losses = [optimizer.step(closure).item() for _ in range(3)]
>>> losses[2] < losses[0]
True

Both find their own step sizes. ``lr`` (default 1) is a factor on these, which torch's schedulers
change:

>>> scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
>>> loss = optimizer.step(closure)
>>> scheduler.step()
>>> optimizer.param_groups[0]["lr"]
0.1

What an optimizer keeps for a parameter group lies in the state of the group's first parameter, so
``state_dict`` and ``load_state_dict`` are torch's own.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from fedlib.arguments import called
from fedlib.component import Component
from fedlib.errors import Error, require, require_known
from fedlib.optimizers import client

__all__ = ["SPS", "DeltaSGD"]

Closure = Callable[[], Any]
Group = dict[str, Any]


class _Backed(torch.optim.Optimizer):
    """An optimizer whose options, and their defaults, are ``lr`` and the fields of a component."""

    rule: type[Component]
    without: tuple[str, ...] = ()  # fields that are no options here

    def __init__(self, params: Iterable[Any], **options: Any) -> None:
        fields = dataclasses.fields(self.rule)
        defaults = {"lr": 1.0, **{field.name: field.default for field in fields}}
        for name in self.without:
            del defaults[name]
        for name in options:
            require_known(f"option of {type(self).__name__}", name, defaults)
        what = f"{type(self).__name__} of these params"
        called(what, super().__init__, params, {**defaults, **options})

    def add_param_group(self, param_group: Group) -> None:
        """Add a group. Raises :class:`fedlib.Error` for an option out of its range, and for those
        of other optimizers that would be ignored.
        """
        for name in ("momentum", "weight_decay"):
            if param_group.get(name):
                require_known(f"option of {type(self).__name__}", name, self.defaults)
        super().add_param_group(param_group)
        lr = self.param_groups[-1]["lr"]
        number = lr.numel() == 1 if isinstance(lr, Tensor) else isinstance(lr, (int, float))
        good = number and not isinstance(lr, bool) and 0 <= float(lr) < math.inf
        require(good, "lr", lr, "a finite number >= 0")
        self._rule(self.param_groups[-1])

    def _groups(self) -> list[Group]:
        """Those that have parameters. Torch allows a group without."""
        return [group for group in self.param_groups if group["params"]]

    def _rule(self, group: Group) -> Any:
        names = [field.name for field in dataclasses.fields(self.rule)]
        return self.rule(**{name: group[name] for name in names if name in group})


def _x(group: Group) -> Tensor:
    """The group's parameters as one new vector ``[P]``."""
    return torch.cat([p.detach().reshape(-1) for p in group["params"]])


def _g(group: Group) -> Tensor:
    """Their gradients; a parameter without one has zeros."""
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in group["params"]]
    return torch.cat([grad.reshape(-1) for grad in grads])


def _scaled(group: Group, x: Tensor, new: Tensor) -> Tensor:
    """Where a step from ``x`` to ``new`` leads that is multiplied by the group's ``lr``."""
    return new if group["lr"] == 1 else x + group["lr"] * (new - x)


def _write(group: Group, vector: Tensor) -> None:
    """Give the parameters their parts of a vector ``[P]``."""
    params = group["params"]
    for p, part in zip(params, vector.split([p.numel() for p in params]), strict=True):
        p.copy_(part.view_as(p))


class DeltaSGD(_Backed):
    """Delta-SGD as an optimizer; see :class:`fedlib.DeltaSGD` for the rule and its options.

    ``lr`` multiplies the step that it finds (default 1). ``step(closure)`` evaluates the closure
    where the parameters stand and, from the second step on, once more at the previous point, so the
    closure must compute both times on the same batch. Models with dropout draw a mask each time.
    With ``reuse_gradient=True`` a step needs no closure: it takes the gradients that ``backward``
    left, and compares them with the previous step's. Each parameter group finds its own step size.

    Example:
        >>> import torch
        >>> import fedlib
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = fedlib.torch_optim.DeltaSGD(model.parameters(), reuse_gradient=True)
        >>> model(torch.ones(4, 2)).square().mean().backward()
        >>> optimizer.step()
    """

    rule = client.DeltaSGD
    without = ("shared_masks",)

    @torch.no_grad()
    def step(self, closure: Closure | None = None) -> Any:  # type: ignore[override]
        """One step; returns what the closure returned at the current point.

        Raises:
            Error: no closure, though a group does not reuse its gradient.
        """
        groups = self._groups()
        if closure is None and not all(group["reuse_gradient"] for group in groups):
            raise Error(
                "DeltaSGD.step needs a closure, which it calls at the previous point too; or make "
                "the optimizer with reuse_gradient=True"
            )
        loss = _call(closure)
        points = [(_x(group), _g(group)) for group in groups]
        states, again = [self.state[group["params"][0]] for group in groups], False
        for group, state, (x, _) in zip(groups, states, points, strict=True):
            again |= bool(state) and not group["reuse_gradient"]
            if not state:
                state.update(self._rule(group).init(x))
        before = [g for _, g in points]
        if again:
            kept = [(p, p.grad) for group in groups for p in group["params"]]
            for group, state in zip(groups, states, strict=True):
                _write(group, state["previous"])
            self.zero_grad()
            _call(closure)
            before = [_g(group) for group in groups]
            for p, grad in kept:
                p.grad = grad
        for group, state, (x, g), old in zip(groups, states, points, before, strict=True):
            old = state["gradient"] if group["reuse_gradient"] else old
            new, changed = self._rule(group).advance(x, g, old, state)
            _write(group, _scaled(group, x, new))
            state.update(changed)
        return loss


class SPS(_Backed):
    """SGD with the stochastic Polyak step size; see :class:`fedlib.SPS` for rule and options.

    ``lr`` multiplies the step that it finds (default 1). A step needs the loss: from a closure, or
    as ``step(loss=loss)`` after ``backward``. The gradient's norm is over all parameter groups.

    Example:
        >>> import torch
        >>> import fedlib
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = fedlib.torch_optim.SPS(model.parameters())
        >>> loss = model(torch.ones(4, 2)).square().mean()
        >>> loss.backward()
        >>> optimizer.step(loss=loss) is loss
        True
    """

    rule = client.SPS

    @torch.no_grad()
    def step(  # type: ignore[override]
        self, closure: Closure | None = None, loss: Tensor | float | None = None
    ) -> Any:
        """One step; returns the loss.

        Raises:
            Error: neither a closure that returns the loss nor the loss.
        """
        loss = _call(closure) if closure is not None else loss
        if loss is None:
            raise Error("SPS.step needs the loss: step(closure) that returns it, or step(loss=...)")
        gradients = [_g(group) for group in self._groups()]
        square = torch.stack([g.square().sum() for g in gradients]).sum().reshape(1)
        value = torch.as_tensor(loss, dtype=square.dtype, device=square.device).detach().reshape(1)
        for group, g in zip(self._groups(), gradients, strict=True):
            x = _x(group)
            new = x - self._rule(group).step_size(value, square) * g
            _write(group, _scaled(group, x, new))
        return loss


def _call(closure: Closure | None) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()
