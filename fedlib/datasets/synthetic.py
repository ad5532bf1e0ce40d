"""LEAF's synthetic federated classification data, exact and without a download.

Source: Caldas et al. (2018), "LEAF: A Benchmark for Federated Settings", and the public generator
of that project. AdaFedAdam's Synthetic task is 100 clients, 10 classes and 60 dimensions of it.
"""

from __future__ import annotations

import numpy as np

from fedlib.arguments import Count, Seed, checked
from fedlib.errors import require


@checked
def leaf_synthetic(
    clients: Count = 100, classes: Count = 10, dimension: Count = 60, seed: Seed = 931231
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Draw LEAF's synthetic data with its one cluster of clients.

    A client has ``min(floor(lognormal(3, 2)) + 5, 1000)`` examples. Its inputs are normal around
    its own mean with variance ``j ** -1.2`` in coordinate ``j``, and its labels are the arg max of
    a linear model with bias. The models of all clients are close to each other. The defaults give
    10,376 examples and a median of 23 per client.

    The calls follow LEAF's order on NumPy's legacy generator, seeded a second time after the sizes
    (as LEAF does), so the same seed gives LEAF's own numbers.

    Args:
        clients: number of clients.
        classes: number of labels.
        dimension: size of an input, without the bias (LEAF uses it for labels and then removes it).
        seed: seed of the legacy generator. LEAF's default is 931231.

    Returns:
        Inputs, float32 ``[n_i, dimension]`` per client, and labels, int64 ``[n_i]`` per client.

    Raises:
        Error: a count below 1, or a seed that is not in ``0 .. 2**32 - 1``.

    Example:
        >>> xs, ys = leaf_synthetic()
        >>> len(xs), sum(map(len, ys)), xs[0].shape[1]
        (100, 10376, 60)
    """
    require(seed < 2**32, "seed", seed, f"0 to {2**32 - 1}")
    sizes = np.random.RandomState(seed).lognormal(3, 2, clients).astype(int)
    sizes = np.minimum(sizes + 5, 1000)

    random = np.random.RandomState(seed)
    side = 1  # length of the side information: LEAF's number of clusters
    q = random.normal(0.0, 1.0, size=(dimension + 1, classes, side))
    # LEAF calls multivariate_normal, which decomposes the same covariance for every client. This
    # gives the same bits with one decomposition.
    _, variances, axes = np.linalg.svd(np.diag(np.arange(1, dimension + 1) ** -1.2))
    scaled_axes = np.sqrt(variances)[:, None] * axes
    cluster_mean = random.normal(random.normal(0.0, 1.0), 1.0, size=side)
    xs, ys = [], []
    for size in sizes:
        random.random_sample()  # LEAF chooses among its clusters here, even if there is one
        mean = random.normal(random.normal(0.0, 1.0), 1.0, size=dimension)
        x = np.dot(random.standard_normal((size, dimension)), scaled_axes) + mean
        weights = q @ random.normal(cluster_mean, 0.1)
        noise = random.normal(0.0, 0.1, size=(size, classes))
        # LEAF takes the softmax before the arg max, which changes nothing.
        logits = x @ weights[1:] + weights[0] + noise
        xs.append(x.astype(np.float32))
        ys.append(logits.argmax(axis=1).astype(np.int64))
    return xs, ys
