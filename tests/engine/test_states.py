"""What clients remember between rounds."""

import numpy as np
import pytest
import torch

import fedlib
from fedlib.engine import states
from fedlib.engine.states import ClientStates


def test_clients_get_back_what_was_put_and_room_never_exceeds_the_population():
    kept = ClientStates(5, torch.device("cpu"))
    values = torch.arange(5.0)[:, None, None].expand(5, 2, 3)
    for clients in ([3, 1, 4], [1], [0, 2, 3]):
        kept.put(kept.reserve(np.array(clients)), {"c": values[clients] + len(clients)})
    assert len(kept.tensors["c"]) == 5
    expected = {0: 3.0, 1: 2.0, 2: 5.0, 3: 6.0, 4: 7.0}
    for client, value in expected.items():
        assert (kept.get(kept.places(np.array([client])))["c"] == value).all()


def test_memory_that_is_not_there_is_said_in_one_line(monkeypatch):
    """Room for twice as many is taken only if it is free, and a state that does not fit refused."""
    monkeypatch.setattr(states, "FREE_BYTES", 0)
    monkeypatch.setattr(states, "free_bytes", lambda device: 1000)
    kept = ClientStates(100, torch.device("cpu"))
    # 800 bytes; those of twice as many would be 1,600.
    kept.put(kept.reserve(np.arange(10)), {"c": torch.zeros(10, 1, 20)})
    kept.put(kept.reserve(np.array([10])), {"c": torch.ones(1, 1, 20)})
    assert len(kept.tensors["c"]) == 11
    with pytest.raises(fedlib.Error, match="the 13 clients seen so far remember takes") as caught:
        kept.put(kept.reserve(np.array([11, 12])), {"c": torch.zeros(2, 1, 20)})
    assert "fewer clients" in str(caught.value) and "\n" not in str(caught.value)
