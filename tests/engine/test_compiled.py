"""Compiled steps equal direct ones."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

import fedlib
from tests.engine.test_backends import difference


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize(
    ("name", "options"),
    [("synthetic", {"clients": 4}), ("emnist_logistic", {"clients": 4})],
)
def test_compiled_steps_equal_direct_ones(name: str, options: dict[str, int]) -> None:
    task = fedlib.load_task(name, **options)
    common: dict[str, Any] = {"rounds": 2, "dtype": "float64"}
    common["overrides"] = {"local_steps": 2, "batch_size": 4}
    direct = fedlib.run(task, "fedadam", backend="vectorized", **common)
    assert difference(direct, fedlib.run(task, "fedadam", backend="compiled", **common)) < 1e-12
