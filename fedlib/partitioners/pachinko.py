"""Pachinko allocation: a client prefers some coarse labels, and within them some fine labels.

Source: "Adaptive Federated Optimization", appendix F, Algorithms 7 and 8, which made the federated
CIFAR-100 (500 clients of 100 examples, alpha 0.1, beta 10) after Li and McCallum (2006).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from fedlib.arguments import Count, Seed, checked
from fedlib.errors import Error
from fedlib.partitioners import checks
from fedlib.partitioners.checks import Concentration
from fedlib.randomness import numpy_generator


@checked
def pachinko(
    coarse: ArrayLike,
    fine: ArrayLike,
    clients: Count,
    examples_per_client: int | Sequence[int] | np.ndarray,
    alpha: Concentration,
    beta: Concentration,
    seed: Seed,
) -> list[np.ndarray]:
    """Split examples by a two-level tree: first a coarse label is drawn, then a fine label of it.

    Client after client draws its preferences, ``theta_r ~ Dir(alpha)`` over the coarse labels and
    for every coarse label c ``theta_c ~ Dir(beta)`` over its fine labels. Then, example after
    example, it draws a coarse label, a fine label below it, and one of the examples left with that
    label. A fine label without examples leaves the tree, and so does a coarse label without fine
    labels. The client's own distributions are then renormalised over the rest, and later clients
    draw theirs over the rest alone.

    Args:
        coarse, fine: ``[N]`` integers, 0 or more. A fine label belongs to one coarse label.
        clients: number of clients.
        examples_per_client: size of every client, or one size per client.
        alpha: concentration at the root. If it is small, a client has few coarse labels.
        beta: concentration at every coarse label. If it is large, a client has all of its fine
            labels equally.
        seed: seed of the preferences, the draws and the order of the examples.

    Returns:
        ``clients`` int64 arrays of exactly these sizes, in the order drawn. No index occurs twice.

    Raises:
        Error: there are too few examples, the labels do not form a tree, or a number is out of
            range.

    Example:
        >>> import numpy as np
        >>> import fedlib
        >>> fine = np.arange(100) % 10
        >>> parts = fedlib.partition.pachinko(fine // 5, fine, 4, 20, alpha=0.1, beta=10, seed=0)
        >>> [len(part) for part in parts]
        [20, 20, 20, 20]
    """
    coarse = checks.labels("coarse", coarse)
    fine = checks.labels("fine", fine)
    if len(coarse) != len(fine):
        raise Error(
            f"there are {len(coarse)} coarse labels but {len(fine)} fine labels: "
            "every example needs one of each"
        )
    sizes = checks.sizes("examples_per_client", examples_per_client, clients)
    checks.enough(clients, sizes.sum(), len(fine))

    graph, examples = _tree(coarse, fine)
    parents = len(graph)
    shuffler = numpy_generator(seed, "partition pachinko order")
    pools = [shuffler.permutation(indices).tolist() for indices in examples]
    parts = []
    for client, size in enumerate(sizes):
        generator = numpy_generator(seed, "partition pachinko", client)
        # Preferences for the whole tree. The preferences of the remaining part, divided by their
        # sum, follow Dir over that part. The paper draws this for a client of a pruned tree, and it
        # is also its RENORMALIZE, so one rule serves both.
        root = log_gammas(generator, alpha, parents)
        leaves = log_gammas(generator, beta, len(pools))
        uniforms = generator.random((int(size), 2)).tolist()
        parts.append(_draw_client(root, leaves, uniforms, graph, pools))
    return parts


def log_gammas(generator: np.random.Generator, shape: float, size: int) -> np.ndarray:
    """Logarithms of Gamma(``shape``, 1) variates, ``[size]``. Divided by their sum they are Dir.

    In logarithms a small shape does not underflow, so there is always something to renormalise. A
    Gamma(a) variate is a Gamma(a + 1) variate times a uniform to the power 1 / a.
    """
    larger = generator.standard_gamma(shape + 1.0, size)
    return np.log(larger) + np.log1p(-generator.random(size)) / shape


def _tree(coarse: np.ndarray, fine: np.ndarray) -> tuple[dict[int, list[int]], list[np.ndarray]]:
    """Coarse node -> its fine nodes, and the examples of each fine node. Nodes are numbered."""
    coarse_labels, coarse_node = np.unique(coarse, return_inverse=True)
    fine_labels, fine_node = np.unique(fine, return_inverse=True)
    parent = np.zeros(len(fine_labels), dtype=np.int64)
    parent[fine_node] = coarse_node
    wrong = np.flatnonzero(parent[fine_node] != coarse_node)
    if len(wrong):
        y, c = fine_node[wrong[0]], coarse_node[wrong[0]]
        raise Error(
            f"fine label {fine_labels[y]} is in two coarse labels, "
            f"{coarse_labels[min(c, parent[y])]} and {coarse_labels[max(c, parent[y])]}: "
            "every fine label must belong to one"
        )
    graph = {c: np.flatnonzero(parent == c).tolist() for c in range(len(coarse_labels))}
    return graph, [np.flatnonzero(fine_node == y) for y in range(len(fine_labels))]


def _draw_client(
    root: np.ndarray,
    leaves: np.ndarray,
    uniforms: list[list[float]],
    graph: dict[int, list[int]],
    pools: list[list[int]],
) -> np.ndarray:
    """One client's examples. ``graph`` and ``pools`` (shuffled) lose the nodes and examples used.

    Args:
        root, leaves: logarithms of the preferences, ``[coarse nodes]`` and ``[fine nodes]``.
        uniforms: for every example one uniform for the coarse and one for the fine label.
    """
    nodes = list(graph)
    theta_r = _cumulative(root, nodes)
    theta: dict[int, list[float]] = {}
    chosen = []
    for u_coarse, u_fine in uniforms:
        c = nodes[bisect_right(theta_r, u_coarse)]
        if c not in theta:
            theta[c] = _cumulative(leaves, graph[c])
        y = graph[c][bisect_right(theta[c], u_fine)]
        chosen.append(pools[y].pop())
        if not pools[y]:
            graph[c].remove(y)
            del theta[c]
            if not graph[c]:
                del graph[c]
                nodes = list(graph)
                theta_r = _cumulative(root, nodes)
    return np.array(chosen, dtype=np.int64)


def _cumulative(logs: np.ndarray, nodes: list[int]) -> list[float]:
    """Cumulative probabilities of these nodes, in proportion to ``exp(logs)``. The last is 1."""
    if not nodes:
        return []
    total = np.cumsum(np.exp(logs[nodes] - logs[nodes].max()))
    cumulative: list[float] = (total / total[-1]).tolist()
    return cumulative
