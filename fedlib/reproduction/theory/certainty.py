"""AdaFedAdam's theory: accumulated updates, wrong weightings, certainty, and fairness."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from fedlib.figures import style
from fedlib.figures.curves import ABOVE, shared_legend


def accumulated(losses: pd.DataFrame) -> Figure:
    """Loss of N-AccAdam over its rounds and over its gradients, a line per N.

    Args:
        losses: a column per N, indexed by round.
    """
    with style.panels(1, 2, (5.5, 2.5), sharey=True) as (figure, (left, right)):
        for number, steps in enumerate(losses):
            label = "Adam (N = 1)" if steps == 1 else f"N = {steps}"
            color = f"C{number}"
            left.semilogy(losses.index, losses[steps], color=color, label=label)
            right.loglog(losses.index[1:] * int(steps), losses[steps].iloc[1:], color=color)
        left.set(xlabel="round", ylabel="loss / first loss")
        right.set(xlabel="gradients")
        shared_legend(figure)
    return figure


def fairness_and_certainty(
    bias: pd.DataFrame, certainty: pd.DataFrame, exchange: pd.DataFrame
) -> Figure:
    """Distance from the optimum over the client rate, certainty over N, and what alpha buys.

    Args:
        bias: a column per algorithm, indexed by client learning rate.
        certainty: a column per eta * curvature, indexed by the number of local steps.
        exchange: columns algorithm, alpha (NaN where there is none), error (the mean error of all
            examples) and error_rsd.
    """
    with style.panels(1, 3, (7.5, 2.9)) as (figure, (left, middle, right)):
        for name in bias:
            look = style.look(str(name))
            left.loglog(bias.index, bias[name], label=look.label, **look.line())
        left.set(xlabel="client learning rate", ylabel="distance to the optimum")
        left.legend(**ABOVE)
        for product in certainty:
            middle.semilogx(certainty.index, certainty[product], "o-", label=f"{product:g}")
        middle.axhline(1, color="0.5", linewidth=0.8)
        middle.set(xlabel="local steps N", ylabel="certainty C")
        middle.legend(title="η × curvature", **ABOVE)
        for name, part in exchange.groupby("algorithm", sort=False):
            look = style.look(str(name))
            right.plot(part["error"], part["error_rsd"], label=look.label, **look.line())
            for row in part.dropna().itertuples():
                right.annotate(f"{row.alpha:g}", (row.error, row.error_rsd), fontsize=6)
        right.set(xlabel="mean error", ylabel="RSD of the clients' errors")
        right.legend(**ABOVE)
    return figure
