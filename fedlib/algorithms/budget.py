"""Equal communication: how many clients a round a method can pay for (Mime, section 5.3)."""

from __future__ import annotations

import math

from fedlib.algorithms.base import Algorithm
from fedlib.arguments import checked
from fedlib.errors import Error, require


@checked
def clients_for_budget(method: Algorithm, budget: float) -> int:
    """Clients per round whose sending and receiving costs at most ``budget`` model sizes.

    Mime's Table 2 gives each method 40 model sizes a round (Stack Overflow: 100). FedAvg spends
    them on 20 (50) clients. The paper does not say how it counts. Here the cost of a client is its
    method's ``communication``. If the cohort is split in halves (``split=True``), it is the mean of
    both halves, which ``lean=True`` makes cheaper.

    Args:
        method: for instance ``fedlib.Mime(base=fedlib.base.Adam(), split=True)``.
        budget: floats of all clients of a round, up and down, in model sizes.

    Raises:
        Error: the method sends nothing, or the budget is too small for its smallest cohort.

    Example:
        >>> import fedlib
        >>> fedlib.clients_for_budget(fedlib.FedOpt(), 40)
        20
        >>> fedlib.clients_for_budget(fedlib.Mime(base=fedlib.base.Adam(), split=True), 40)
        8
    """
    require(0 < budget < math.inf, "budget", budget, "a finite number of model sizes > 0")
    cost = float(sum(method.communication(1)))
    if method.halves:
        cost = (cost + sum(method.measure_communication(1))) / 2
    if cost == 0:
        raise Error(f"{type(method).__name__} sends nothing, so any budget pays for all clients")
    clients, least = int(budget / cost), 2 if method.halves else 1
    if clients < least:
        raise Error(
            f"budget is {budget:g}, but {type(method).__name__} needs at least {least * cost:g} "
            f"model sizes, for {least} client{'s' if least > 1 else ''}"
        )
    return clients
