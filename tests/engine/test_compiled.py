"""Compiled steps equal direct ones."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
import torch._dynamo.exc

import fedlib
from tests.engine.test_backends import difference


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("synthetic", {"clients": 4}),
        ("emnist_logistic", {"clients": 4}),
        ("emnist_cr", {"network": "paper", "clients": 4, "width": 0.1}),
    ],
)
def test_compiled_steps_equal_direct_ones(name: str, options: dict[str, Any]) -> None:
    task = fedlib.load_task(name, **options)
    common: dict[str, Any] = {"rounds": 2, "dtype": "float64"}
    common["overrides"] = {"local_steps": 2, "batch_size": 4}
    direct = fedlib.run(task, "fedadam", backend="vectorized", **common)
    assert difference(direct, fedlib.run(task, "fedadam", backend="compiled", **common)) < 1e-12


def test_a_model_that_cannot_be_compiled_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(function: Any, **_: Any) -> Any:
        def compiled(*_: Any) -> None:
            raise torch._dynamo.exc.Unsupported("no such lowering\nand much more")

        return compiled

    monkeypatch.setattr(torch, "compile", refuses)
    task = fedlib.load_task("emnist_mlp")
    with pytest.raises(fedlib.Error, match=r"does not take MLP: no such lowering; use backend="):
        fedlib.run(task, "fedavg", rounds=1, backend="compiled")
