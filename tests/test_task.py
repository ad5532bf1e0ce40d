"""What a task is made of is refused at once where it is wrong."""

import numpy as np
import pytest
import torch

import fedlib

X, Y = torch.eye(4), torch.arange(4)
TWO = [[0, 1], [2, 3]]
WRONG = {
    "a mask": ({"parts": [[0, 1], np.array([False, True, True, False])]}, "client 1 is a mask"),
    "fractions": ({"parts": [[0.0, 1.5], [2]]}, "client 0 is float64 of shape"),
    "two dimensions": ({"parts": [[0], [[1, 2]]]}, "client 1 is int64 of shape"),
    "a scalar": ({"parts": [0, 1]}, "client 0 is int64 of shape"),
    "a negative index": ({"parts": [[0], [1, -1]]}, "client 1 has example -1, outside 0..3"),
    "an index too large": ({"parts": [[0, 4], [1]]}, "client 0 has example 4, outside 0..3"),
    "few targets": ({"y": Y[:3]}, "4 inputs but 3 targets"),
    "an array": ({"x": X.numpy()}, "x is a ndarray of shape .*; allowed: Tensor"),
    "few weights": ({"weights": np.ones(1)}, "1 weights for 2 clients"),
    "a negative weight": ({"weights": np.array([1.0, -1.0])}, "client 1 has weight -1.0"),
    "a weight that is no number": ({"weights": [np.nan, 1.0]}, "client 0 has weight nan"),
    "no weight": ({"weights": np.zeros(2)}, "all weights are 0"),
    "few ids": ({"ids": ["ann"]}, "1 ids for 2 clients"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_client_data_is_refused_and_the_client_named(name):
    changed, message = WRONG[name]
    with pytest.raises(fedlib.Error, match=message):
        fedlib.ClientData(**{"x": X, "y": Y, "parts": TWO, **changed})


def test_a_client_may_have_nothing_and_an_example_two_clients():
    data = fedlib.ClientData(X, Y, [[], [0, 3], np.array([3], dtype=np.uint8)])
    assert data.sizes.tolist() == [0, 2, 1] and data.ids == ["0", "1", "2"]
    assert data.index is not None and data.index.tolist() == [0, 3, 3]
