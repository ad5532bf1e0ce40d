"""Compiled steps equal direct ones."""

from __future__ import annotations

import shutil

import pytest

import fedlib


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize(
    ("name", "options"),
    [("synthetic", {"clients": 4}), ("emnist_logistic", {"clients": 4})],
)
def test_compiled_steps_equal_direct_ones(name: str, options: dict[str, int]) -> None:
    task = fedlib.load_task(name, **options)
    runs = [
        fedlib.run(
            task,
            "fedadam",
            rounds=2,
            dtype="float64",
            backend=backend,
            overrides={"local_steps": 2, "batch_size": 4},
        )
        for backend in ("vectorized", "compiled")
    ]
    a, b = runs
    assert max(float((a.params[n] - b.params[n]).abs().max()) for n in a.params) < 1e-12
