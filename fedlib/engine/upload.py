"""Tensors of the host to the device, many in one transfer.

A transfer of a few numbers takes about as long as one of a million. From page-locked memory the
host does not wait for it either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

# Bytes of a buffer; each tensor begins at a multiple, as tensors of their own do for every type.
ALIGNED = 16


def upload(tensors: Mapping[str, Tensor | None], device: torch.device) -> dict[str, Tensor]:
    """Tensors on a device, without those that are None; all of them share one block of memory.

    On the CPU they are what they were.
    """
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if device.type == "cpu":
        return given
    parts = list(given.values())
    buffer = packed(parts, pinned=device.type == "cuda").to(device, non_blocking=True)
    return dict(zip(given, unpacked(buffer, parts), strict=True))


def packed(parts: Sequence[Tensor], pinned: bool = False) -> Tensor:
    """The tensors' bytes one after the other, uint8; pinned: in page-locked memory."""
    size = sum(map(_room, parts))
    buffer = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
    for place, part in zip(unpacked(buffer, parts), parts, strict=True):
        place.copy_(part)
    return buffer


def unpacked(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views of a packed buffer with the types and shapes of the tensors that are packed."""
    pieces = buffer.split([_room(part) for part in like])
    return [
        piece[: part.numel() * part.element_size()].view(part.dtype).view(part.shape)
        for piece, part in zip(pieces, like, strict=True)
    ]


def _room(part: Tensor) -> int:
    return -(-part.numel() * part.element_size() // ALIGNED) * ALIGNED
