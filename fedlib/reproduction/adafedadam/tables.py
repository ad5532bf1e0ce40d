"""AdaFedAdam's methods and settings in the order of its tables."""

from __future__ import annotations

from fedlib import papers

# The algorithms of Figure 2 in Table 5's order, but FedProx: its mu comes from a grid.
FIVE = ("fedavg", "fedadam", "qfedavg", "fednova", "adafedadam")
SIX = (*FIVE[:4], "fedprox", FIVE[4])
# Table 6's concentrations.
BETAS: list[float] = papers.settings("adafedadam")["experiments"]["noniid"]["dirichlet_beta"]
