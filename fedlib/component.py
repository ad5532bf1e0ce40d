"""The parts a method is composed of: frozen dataclasses whose floats are hyperparameters.

A float field may hold one number per configuration: the engine replaces it by a tensor ``[C, 1]``
that broadcasts against parameter vectors ``[C, P]`` (server) and ``[M, C, P]`` (clients). All other
fields are structure: configurations that differ in them do not train together.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Annotated, Any, ClassVar, Self, get_args, get_type_hints

import numpy as np
import torch

from fedlib.arguments import FLOAT_BITS, check_fields

# Tensors in signatures, by their shapes. Leading axes are clients' and configurations'.
PerParameter = Annotated[torch.Tensor, "[..., P]"]
PerExample = Annotated[torch.Tensor, "[..., B]"]
PerFeature = Annotated[torch.Tensor, "[..., B, F]"]
Scalar = Annotated[torch.Tensor, "[..., 1]"]
# Tensors by name, of a client, an optimizer or the server. Some are in nested dicts.
State = dict[str, Any]
# Ranges of floating-point fields. :data:`fedlib.arguments.WORDS` has their names in errors.
Positive = Annotated[float, lambda value: 0 < value < math.inf]
NonNegative = Annotated[float, lambda value: 0 <= value < math.inf]
Decay = Annotated[float, lambda value: 0 <= value < 1]


@cache
def float_fields(component: Any) -> set[str]:
    """The fields of a class of components that hold floats. They also accept whole numbers."""
    hints = get_type_hints(component)
    return {name for name, hint in hints.items() if float in (hint, *get_args(hint))}


def _named(function: Any) -> str:
    """A function by its name and its version. Without a version it belongs to this process."""
    version = getattr(function, "version", "") or f"{id(function)} of its process"
    return f"{getattr(function, '__qualname__', type(function).__name__)} {version}"


@dataclass(frozen=True)
class Component:
    """Base of client optimizers, server optimizers, objectives and algorithms.

    Attributes:
        HISTORICAL: the values that stored runs had for fields added later. A field with this value
            is left out of the description, so that these runs keep theirs.
        version: for your own class, your promise that its code is the same if this text is. Runs
            of a class that does not set it itself are not stored.
    """

    HISTORICAL: ClassVar[dict[str, Any]] = {}
    version: ClassVar[str] = ""

    def __post_init__(self) -> None:
        kind: Any = type(self)
        for field in fields(self):
            value = getattr(self, field.name)
            value = value.item() if isinstance(value, np.generic) else value
            whole = type(value) is int and value.bit_length() <= FLOAT_BITS  # true is not a number
            value = float(value) if whole and field.name in float_fields(kind) else value
            object.__setattr__(self, field.name, value)
        check_fields(self)
        self.validate()

    def validate(self) -> None:
        """Raise :class:`fedlib.Error` for invalid fields, beyond their types and ranges."""

    def describe(self) -> dict[str, Any]:
        """This component and its parts as a JSON-able dict."""
        described: dict[str, Any] = {"type": type(self).__name__}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in self.HISTORICAL and value == self.HISTORICAL[field.name]:
                continue
            value = value.describe() if isinstance(value, Component) else value
            described[field.name] = _named(value) if callable(value) else value
        return described

    def versions(self) -> list[tuple[type, str]]:
        """Each class of this component and its parts from outside fedlib, with its version."""
        classes = [
            (kind, str(vars(kind).get("version", "")))
            for kind in type(self).__mro__
            if issubclass(kind, Component) and kind.__module__.split(".")[0] != "fedlib"
        ]
        for field in fields(self):
            part = getattr(self, field.name)
            if isinstance(part, Component):
                classes += part.versions()
        return classes

    def functions(self) -> list[Any]:
        """The functions among the fields of this component and of its parts."""
        values = [getattr(self, field.name) for field in fields(self)]
        parts = [part.functions() for part in values if isinstance(part, Component)]
        return sum(parts, [value for value in values if callable(value)])

    @cached_property
    def of_user(self) -> bool:
        """Whether a class of this component or its parts is from outside fedlib."""
        return bool(self.versions())

    def structure(self) -> str:
        """Everything about this component except the values of its floats."""

        def blank(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: blank(part) for name, part in value.items()}
            return "float" if isinstance(value, float) else value

        # Two classes of one name, as from a notebook's cell that was changed, are not the same.
        code = [kind for kind, _ in self.versions()] + self.functions()
        return repr((blank(self.describe()), list(map(id, code))))

    def program(self) -> str:
        """The part that two configurations must share to train together: their structure."""
        return self.structure()

    @classmethod
    def stack(cls, parts: Sequence[Self], dtype: torch.dtype, device: torch.device) -> Self:
        """One component whose floats are tensors ``[C, 1]``, from ``C`` of the same structure."""
        stacked = copy.copy(parts[0])
        for field in fields(stacked):
            values = [getattr(part, field.name) for part in parts]
            if isinstance(values[0], float):
                column = torch.tensor(values, dtype=dtype, device=device).unsqueeze(1)
                object.__setattr__(stacked, field.name, column)
            elif isinstance(values[0], Component):
                part = type(values[0]).stack(values, dtype, device)
                object.__setattr__(stacked, field.name, part)
        return stacked
