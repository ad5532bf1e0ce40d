"""Calibrating finds limits and says what it measured; how fast anything is stays untested."""

from __future__ import annotations

import pytest
import torch

from fedlib.cli.reports import checkout_module
from fedlib.engine.strategy import Limits, threads


def test_every_way_is_timed_for_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    calibration = checkout_module("calibration")
    monkeypatch.setattr(calibration, "HIDDEN", (2, 3, 4))
    with threads(2):
        found, seconds = calibration.calibrate(torch.device("cpu"), repeats=1)
    assert isinstance(found, Limits) and found.chunk_numbers in calibration.CHUNKS
    ways = [measured["way"] for measured in seconds]
    assert ways == ["rows", "threads", "parallel"] * 3 + ["chunk"] * 3
    assert [measured["parameters"] for measured in seconds[:9:3]] == [524, 781, 1038]


def test_convolutions_are_timed_for_every_number_of_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calibration = checkout_module("calibration")
    monkeypatch.setattr(calibration, "SIDE", 4)
    times = calibration.convolutions(torch.device("cpu"), repeats=1)
    assert tuple(times) == calibration.TOGETHER and min(times.values()) > 0
