"""What this machine's processor can do."""

from __future__ import annotations

import functools
from pathlib import Path

# What Linux calls the instructions that multiply in bfloat16: Intel's and AMD's, and Arm's.
AMX = "amx_bf16"
BFLOAT16 = (AMX, "avx512_bf16", "bf16")


@functools.cache
def bfloat16_arithmetic(described: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's instructions for products in bfloat16.

    Args:
        described: where Linux lists what the processor has.

    Returns:
        their names, for instance ``"avx512_bf16"``; ``"none"``; or ``"unknown"`` where the system
        does not say.
    """
    try:
        lines = described.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), None)
    if flags is None:
        return "unknown"
    names = flags.partition(":")[2].split()
    return ", ".join(name for name in BFLOAT16 if name in names) or "none"
