"""Ways to split one data set among clients: each returns a list of index arrays, one per client.

========================= ==========================================================================
``iid``                   at random, near-equal sizes
``by_user``               by the person behind the examples
``dirichlet``             label skew, no example twice (FedOpt's CIFAR-10)
``pachinko``              label skew in two levels, no example twice (FedOpt's CIFAR-100)
``dirichlet_overlapping`` label skew, clients share examples (Delta-SGD)
``silos``                 each class split among all clients (AdaFedAdam's CIFAR-10)
``shards``                a few shards of the sorted labels each (McMahan et al., 2017)
``fixed_classes``         a fixed number of classes each
``quantity``              at random, given sizes (``uniform_sizes``, ``lognormal_sizes``)
========================= ==========================================================================

``local_split`` then gives every client its own test set. ``label_counts`` and ``total_variation``
measure the result.
"""

from fedlib.partitioners.dirichlet import (
    dirichlet,
    dirichlet_overlapping,
    dirichlet_proportions,
    silos,
)
from fedlib.partitioners.measures import label_counts, total_variation
from fedlib.partitioners.pachinko import pachinko
from fedlib.partitioners.plain import (
    by_user,
    iid,
    local_split,
    lognormal_sizes,
    quantity,
    uniform_sizes,
)
from fedlib.partitioners.shards import fixed_classes, shards

__all__ = [
    "by_user",
    "dirichlet",
    "dirichlet_overlapping",
    "dirichlet_proportions",
    "fixed_classes",
    "iid",
    "label_counts",
    "local_split",
    "lognormal_sizes",
    "pachinko",
    "quantity",
    "shards",
    "silos",
    "total_variation",
    "uniform_sizes",
]
