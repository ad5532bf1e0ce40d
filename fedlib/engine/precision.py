"""Number formats: what parameters are stored in, and what the networks compute with.

``float32``
    everything in float32; on CUDA without the TF32 that torch allows convolutions
``float64``
    everything in float64
``tf32``
    float32 whose products use TF32 on CUDA (10 bits of mantissa)
``bfloat16``
    float32 parameters, updates and losses; the network's forward and backward pass under
    autocast in bfloat16 (but for softmax regression's closed form, LSTMs and, on a CPU, dense
    layers of few weights or with few examples). It pays where the processor multiplies in this
    format, see :func:`fedlib.processor.bfloat16_arithmetic`.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from fedlib.errors import Error
from fedlib.processor import bfloat16_arithmetic

DTYPES = ("float32", "float64", "tf32", "bfloat16")


def stored(dtype: str) -> torch.dtype:
    """The type of parameters and losses."""
    return torch.float64 if dtype == "float64" else torch.float32


def check(dtype: str, device: torch.device) -> None:
    """Refuse a format that the device does not have; warn of one that saves no time there.

    Raises:
        Error: TF32 outside CUDA.
    """
    if dtype == "bfloat16" and device.type == "cpu" and bfloat16_arithmetic() == "none":
        warnings.warn(
            "this processor does not multiply in bfloat16, so dtype 'bfloat16' saves no time here",
            stacklevel=2,
        )
    if dtype == "tf32" and device.type != "cuda":
        raise Error(f"dtype 'tf32' needs a CUDA device, this run is on {device}; use 'float32'")


def computing(dtype: str, device: torch.device) -> AbstractContextManager[Any]:
    """Around a network's forward pass: autocast for bfloat16, else nothing."""
    if dtype != "bfloat16":
        return nullcontext()
    return torch.autocast(device.type, torch.bfloat16, cache_enabled=False)
