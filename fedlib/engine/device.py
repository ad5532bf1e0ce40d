"""The device and its memory: the device of a name, and its free memory."""

import os

import torch

from fedlib.errors import Error, unknown

TYPES = ("cpu", "cuda")
# Share of the free memory that a batch of runs may fill.
SHARE = 0.8
# The share of a GPU's memory for this process, if several processes share the GPU.
GPU_SHARE = "FEDLIB_GPU_SHARE"


def resolve_device(device: str) -> torch.device:
    """The torch device for a name. ``"auto"`` takes CUDA if there is one.

    Raises:
        Error: CUDA asked for on a machine without it, or a name that torch does not know.

    Example:
        >>> resolve_device("cpu")
        device(type='cpu')
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and "LOCAL_RANK" in os.environ:  # torchrun: a GPU for each process
        device = f"cuda:{os.environ['LOCAL_RANK']}"
    try:
        resolved = torch.device(device)
    except RuntimeError:
        raise unknown("device", device, ("auto", *TYPES)) from None
    if resolved.type not in TYPES:
        raise unknown("device", device, ("auto", *TYPES))
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise Error(f"device {device!r}: torch sees no CUDA GPU here. Use device='cpu' or 'auto'")
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise Error(f"device {device!r}: there is no such GPU here. The last one is 'cuda:{last}'")
    return resolved


def described(device: str) -> str:
    """A description of the device of a name.

    Example:
        >>> described("cpu").startswith("the CPU, ")
        True
    """
    resolved = resolve_device(device)
    if resolved.type == "cuda":
        return f"{torch.cuda.get_device_name(resolved)} ({resolved})"
    why = "; torch sees no CUDA GPU" if device == "auto" else ""
    return f"the CPU, {torch.get_num_threads()} threads{why}"


def free_bytes(device: torch.device) -> int | None:
    """Memory that can still be used on a device, or None if it is unknown."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        own = float(os.environ.get(GPU_SHARE, 1)) * total - torch.cuda.memory_reserved(device)
        return max(0, int(min(free, own)))
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not Linux
        return None
