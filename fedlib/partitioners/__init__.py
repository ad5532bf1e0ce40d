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

from fedlib.partitioners.dirichlet import dirichlet as dirichlet
from fedlib.partitioners.dirichlet import dirichlet_overlapping as dirichlet_overlapping
from fedlib.partitioners.dirichlet import dirichlet_proportions as dirichlet_proportions
from fedlib.partitioners.dirichlet import silos as silos
from fedlib.partitioners.measures import label_counts as label_counts
from fedlib.partitioners.measures import total_variation as total_variation
from fedlib.partitioners.pachinko import pachinko as pachinko
from fedlib.partitioners.plain import by_user as by_user
from fedlib.partitioners.plain import iid as iid
from fedlib.partitioners.plain import local_split as local_split
from fedlib.partitioners.plain import lognormal_sizes as lognormal_sizes
from fedlib.partitioners.plain import quantity as quantity
from fedlib.partitioners.plain import uniform_sizes as uniform_sizes
from fedlib.partitioners.shards import fixed_classes as fixed_classes
from fedlib.partitioners.shards import shards as shards
