"""Ways to split one data set among clients: each returns a list of index arrays, one per client."""

from fedlib.partitioners.by_user import by_user
from fedlib.partitioners.dirichlet import dirichlet, dirichlet_proportions
from fedlib.partitioners.iid import iid

__all__ = ["by_user", "dirichlet", "dirichlet_proportions", "iid"]
