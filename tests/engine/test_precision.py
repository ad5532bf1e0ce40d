"""Coarser number formats are explicit, close to float32, and leave torch's settings alone."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch

import fedlib
from fedlib import process
from fedlib.engine import precision

# Tasks, their options, and whether anything of these networks is computed in bfloat16: dense layers
# are where there are enough examples and weights, LSTMs are not.
TASKS = [
    ("emnist_cr", {"network": "paper", "clients": 4, "width": 0.1}, True),
    ("emnist_ae", {"network": "paper", "clients": 4, "width": 0.05}, False),
    ("shakespeare", {"network": "lstm", "width": 0.125}, False),
]


@pytest.mark.parametrize(("name", "options", "differs"), TASKS)
def test_bfloat16_trains_close_to_float32_with_float32_parameters(
    name: str, options: dict[str, float], differs: bool
) -> None:
    task = fedlib.load_task(name, **options)
    a, b = (
        fedlib.run(task, "fedavg", rounds=2, clients_per_round=2, dtype=dtype)
        for dtype in ("float32", "bfloat16")
    )
    assert all(tensor.dtype == torch.float32 for tensor in b.params.values())
    one, other = (run.series("loss", "train").to_numpy() for run in (a, b))
    assert (one != other).any() == differs
    assert abs(one - other).max() < 0.03 * abs(one).max()


def test_tf32_outside_cuda_is_one_clear_line() -> None:
    task = fedlib.load_task("quadratic")
    with pytest.raises(fedlib.Error, match="'tf32' needs a CUDA device"):
        fedlib.run(task, "fedavg", rounds=1, dtype="tf32", device="cpu")


@pytest.mark.parametrize(
    ("described", "instructions"),
    [
        ("processor\t: 0\nflags\t\t: fpu avx512_bf16 amx_bf16 sse\n", "amx_bf16, avx512_bf16"),
        ("Features\t: fp asimd bf16 i8mm\n", "bf16"),
        ("flags\t\t: fpu avx2 sse\n", "none"),
        ("processor\t: 0\n", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_processors_flags_say_what_multiplies_in_bfloat16(
    tmp_path: Path, described: str | None, instructions: str
) -> None:
    if described is not None:
        (tmp_path / "cpuinfo").write_text(described)
    assert precision.bfloat16_arithmetic(tmp_path / "cpuinfo") == instructions


def test_bfloat16_without_instructions_for_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    monkeypatch.setattr(precision, "bfloat16_arithmetic", lambda: "none")
    with pytest.warns(UserWarning, match="saves no time here"):
        precision.check("bfloat16", cpu)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision.check("float32", cpu)
        monkeypatch.setattr(precision, "bfloat16_arithmetic", lambda: "avx512_bf16")
        precision.check("bfloat16", cpu)


@pytest.mark.parametrize("dtype", ["float32", "tf32"])
def test_products_set_and_restore_tf32(dtype: str) -> None:
    # torch's own defaults: on for convolutions, off for matrix products.
    assert torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
    with process.alone(dtype == "tf32"):
        assert torch.backends.cudnn.allow_tf32 == (dtype == "tf32")
        assert torch.backends.cuda.matmul.allow_tf32 == (dtype == "tf32")
    assert torch.backends.cudnn.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
