"""Randomness as a function: every draw is keyed by (seed, purpose, numbers), never by a state.

A draw therefore does not depend on the backend, on how rows are chunked, on which configurations
run beside it, or on a stop and a resume. Host-side draws (partition, client sample, initialisation)
seed an ordinary generator with the key. Draws inside a round (batch order, augmentation, dropout)
hash (key, counter) pairs with integer arithmetic that gives the same bits on every device.
"""

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


def key(seed: int, purpose: str, *numbers: int) -> int:
    """A 63-bit key for ``purpose`` (for instance ``"batches"``) and, say, a round and a client."""
    text = repr((int(seed), purpose, *(int(number) for number in numbers)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def numpy_generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """A NumPy generator that depends on the arguments alone (Philox, keyed)."""
    return np.random.Generator(np.random.Philox(key=key(seed, purpose, *numbers)))


def _signed(constant: int) -> int:
    return constant - (1 << 64) if constant >= 1 << 63 else constant


# SplitMix64 (Steele, Lea and Flood, 2014): the increment and the two multipliers of its finaliser.
_GAMMA = _signed(0x9E3779B97F4A7C15)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)
_WORD = (1 << 64) - 1


def _shift_right(x: Tensor, by: int) -> Tensor:
    """Logical right shift, as torch's own keeps the sign."""
    return (x >> by) & ((1 << (64 - by)) - 1)


def mix(x: Tensor) -> Tensor:
    """SplitMix64's finaliser: a bijection of 64-bit words that scatters every input bit."""
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


def _mix_int(x: int) -> int:
    """:func:`mix` of one number, on the host."""
    x &= _WORD
    x = (x ^ x >> 30) * _MIX_1 & _WORD
    x = (x ^ x >> 27) * _MIX_2 & _WORD
    return _signed(x ^ x >> 31)


def fold(keys: Tensor, number: Tensor | int) -> Tensor:
    """New keys from ``keys`` and a number (round, client, step, layer). Int64, broadcast."""
    if isinstance(number, int):
        return mix(keys ^ _mix_int(number * _GAMMA + _GAMMA))
    return mix(keys ^ mix((number + torch.zeros_like(keys)) * _GAMMA + _GAMMA))


def bits(keys: Tensor, n: int) -> Tensor:
    """``n`` pseudo-random 64-bit words for each key.

    Args:
        keys: int64 ``[...]``.

    Returns:
        int64 ``[..., n]``. Word ``j`` depends only on its key and on ``j``.
    """
    counter = torch.arange(1, n + 1, device=keys.device, dtype=torch.int64) * _GAMMA
    return mix(keys.unsqueeze(-1) + counter)


def uniform(keys: Tensor, n: int) -> Tensor:
    """float32 ``[..., n]``, uniform on [0, 1) with 24 bits, for int64 ``keys`` ``[...]``."""
    return _shift_right(bits(keys, n), 40).to(torch.float32) * 2.0**-24


def normal(keys: Tensor, n: int) -> Tensor:
    """float32 ``[..., n]``, standard normal, for int64 ``keys`` ``[...]`` (Box, Muller 1958)."""
    one, other = uniform(keys, 2 * n).tensor_split(2, -1)
    return torch.sqrt(-2 * torch.log1p(-one)) * torch.cos(2 * math.pi * other)


def lanes16(keys: Tensor, n: int, vmapped: bool = False) -> Tensor:
    """Integers ``[..., n]``, uniform on 0..65535: four lanes out of each hashed word, for masks.

    ``vmapped`` uses shifts instead of a view, which takes three times as long, as torch.func.vmap
    has no views of another dtype. The numbers are the same.
    """
    words = bits(keys, (n + 3) // 4)
    if vmapped:
        shifts = torch.arange(0, 64, 16, device=keys.device)
        return ((words.unsqueeze(-1) >> shifts) & 0xFFFF).flatten(-2)[..., :n]
    return words.view(torch.int16)[..., :n].to(torch.int32) & 0xFFFF


@dataclass
class Masks:
    """The source of the masks of :func:`dropout` in a forward pass. See :func:`masks`.

    Attributes:
        calls: number of calls of dropout so far.
    """

    keys: Tensor
    vmapped: bool
    calls: int = 0


# The innermost open context of this thread.
MASKS: ContextVar[Masks | None] = ContextVar("masks", default=None)


@contextmanager
def masks(keys: Tensor | None, vmapped: bool = False) -> Iterator[None]:
    """While open, :func:`dropout` takes its masks from these keys.

    Args:
        keys: int64 ``[G]``, one key per data row (seed, round, client and step folded in), or 0-d
            for one client without a row axis. None for torch's dropout.
        vmapped: whether the forward pass runs under torch.func.vmap.

    The same keys give the same masks, so a method that evaluates one batch at two points can use
    one mask for both by opening the context twice.
    """
    outer = MASKS.set(None if keys is None else Masks(keys, vmapped))
    try:
        yield
    finally:
        MASKS.reset(outer)


def dropout(x: Tensor, p: float) -> Tensor:
    """Drop elements with probability ``p`` (resolution 2^-16) and scale the others by 1/(1-p).

    Inside :class:`masks` the mask is a function of its keys: ``x`` is ``[R, ...]`` for keys ``[G]``
    with ``R`` a multiple of ``G`` (the ``R // G`` configurations of a client share its mask), or
    any shape for a 0-d key. Outside, this is torch's dropout with its global generator.
    """
    context = MASKS.get()
    if context is None:
        return F.dropout(x, p)
    context.calls += 1
    keys = fold(context.keys, context.calls)
    shape = x.shape if keys.dim() == 0 else x.shape[1:]
    keep = lanes16(keys, math.prod(shape), context.vmapped) >= round(p * 65536)
    mask = keep.to(x.dtype).mul_(1.0 / (1.0 - p)).reshape(*keys.shape, *shape)
    if keys.dim() == 0 or x.shape[0] == keys.shape[0]:
        return x * mask
    grouped = x.reshape(keys.shape[0], -1, *shape) * mask.unsqueeze(1)
    return grouped.reshape(x.shape)
