"""What torch's own random numbers and embeddings need so that rows do not change their results."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from fedlib.errors import Error

# Torch's generators belong to the process, and parts of a cohort train in threads.
_generators = threading.Lock()


def require_trainable(model: nn.Module) -> None:
    """Refuse modules whose parameters cannot be replaced during a call.

    Raises:
        Error: a scripted module, or a lazy one that has not seen an input; names the layer.
    """
    for name, module in model.named_modules():
        where = f"model {type(model).__name__}: {name or 'the module'} ({type(module).__name__})"
        if isinstance(module, torch.jit.ScriptModule):
            raise Error(
                f"{where} is scripted, so its parameters cannot be replaced; give the nn.Module"
            )
        if any(isinstance(p, nn.UninitializedParameter) for p in module._parameters.values()):
            raise Error(
                f"{where} has no parameters yet; call the model on one batch in the function that "
                "makes it, or give the layer its input size"
            )


class NoPadding(TorchFunctionMode):
    """Under torch.func.vmap: refuse embeddings with padding, whose gradient vmap gets wrong.

    The message says vmap, so that rows are then computed one after the other.
    """

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        padding = kwargs.get("padding_idx", args[2] if len(args) > 2 else None)
        if func is F.embedding and padding is not None:
            raise RuntimeError("torch.func.vmap ignores an embedding's padding_idx")
        return func(*args, **kwargs)


def seeded(function: Callable[[Tensor], Any], x: Tensor, key: Tensor) -> Any:
    """``function(x)`` with torch's generators seeded by a 0-d key, and put back afterwards."""
    devices = [x.device] if x.is_cuda else []
    with _generators, torch.random.fork_rng(devices=devices):
        torch.manual_seed(int(key))
        return function(x)


def draws(function: Callable[[Tensor], Any], x: Tensor) -> bool:
    """Whether a call moves torch's generators; they are put back."""
    devices = [x.device] if x.is_cuda else []
    with _generators, torch.random.fork_rng(devices=devices), torch.no_grad():
        before = [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in devices)]
        function(x)
        after = [torch.get_rng_state(), *(torch.cuda.get_rng_state(d) for d in devices)]
    return not all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
