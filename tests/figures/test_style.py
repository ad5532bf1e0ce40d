"""Colours that people with any kind of sight can tell apart."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from fedlib.figures import style
from fedlib.figures.partitions import TEN

# What is left of linear red, green and blue (Machado et al., 2009, severity 1).
SIGHTS = {
    "all cones": np.eye(3),
    "no long": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "no middle": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "no short": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
XYZ = np.array([[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]])


def lab(color, sight):
    """CIELAB of a colour as someone sees it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(np.array(sight) @ linear, 1e-9, 1) / XYZ.sum(1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHTS)
def test_no_two_colours_are_alike_to_anyone(sight):
    colors = [*style.COLORS.values(), TEN[-1]]
    assert set(TEN) == set(colors)
    seen = {color: lab(color, SIGHTS[sight]) for color in colors}
    near = {pair: np.linalg.norm(seen[pair[0]] - seen[pair[1]]) for pair in combinations(seen, 2)}
    assert min(near.values()) > 19, min(near, key=near.get)
