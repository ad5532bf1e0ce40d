"""Mime's Corollaries II and III, measured on quadratics in notebook 04."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedlib.engine.history import History
from fedlib.errors import Error
from fedlib.figures import style
from fedlib.figures.curves import Drawing
from fedlib.randomness import numpy_generator
from fedlib.reproduction.printed import of_task
from fedlib.reproduction.theory.mimicking import rounds_to
from fedlib.results.reading import hyperparameter
from fedlib.task import Task
from fedlib.tasks import quadratic_task

# The problems: a mean objective with a flat direction, and cohorts of one size or another.
FLAT, COHORTS = "flat_direction", "cohorts"
SPECTRUM, DELTA = np.geomspace(1, 0.1, 7), 0.3  # of the mean objective; how far Hessians differ
SHARES = tuple(10.0**-power for power in range(1, 9))


@dataclass(frozen=True)
class Quadratics:
    """Clients with Hessians H ± delta P_i and gradients ± g_i at 0; the mean objective's is H x.

    Attributes:
        task: the clients as a task; starts at ``start``.
        spectrum: diagonal of H, ``[d]``; the least value of the mean objective is 0.
        hessians, b: of the clients, ``[m, d, d]`` and ``[m, d]``.
        start: ``[d]``.
    """

    task: Task
    spectrum: np.ndarray
    hessians: np.ndarray
    b: np.ndarray
    start: np.ndarray

    @property
    def smoothness(self) -> float:
        """L, the clients' largest curvature."""
        return float(np.linalg.norm(self.hessians, 2, axis=(1, 2)).max())

    @property
    def bound(self) -> float:
        """G, the largest entry of the clients' gradients at the start."""
        return float(np.abs(self.hessians @ self.start - self.b).max())

    def client_lr(self, eps: float, local_steps: int) -> float:
        """The client learning rate of Corollary III, for Mime with Adam's state."""
        return float(eps**2 / (local_steps * self.smoothness * (self.bound + eps)))

    def promise(self, rounds: pd.Series, clients: pd.Series, eps: float) -> pd.Series:
        """What Corollary III says of the mean squared gradient norm, up to a constant.

        Args:
            rounds, clients: T, and the clients of a round.
        """
        slope = self.spectrum * self.start
        first = self.start @ slope / 2
        spread = np.square(self.hessians @ self.start - self.b - slope).sum(1).mean()
        falling = self.smoothness * first * (self.bound + eps) ** 2 / (eps**2 * rounds)
        promised: pd.Series = falling + spread / clients
        return promised


def flat_problem(seed: int) -> Quadratics:
    """Corollary II's problem: sixteen clients, and a direction in which the mean is flat."""
    return _paired(FLAT, np.array([*SPECTRUM, 0.0]), 16, 0.3, 1.0, seed)


def cohorts_problem(seed: int) -> Quadratics:
    """Corollary III's problem: 64 clients whose gradients differ much."""
    return _paired(COHORTS, SPECTRUM, 64, 1.0, 3.0, seed)


def _paired(
    name: str, spectrum: np.ndarray, clients: int, noise: float, length: float, seed: int
) -> Quadratics:
    """Clients in pairs with opposite deviations; noise is the norm of g_i, length the start's."""
    draw, d = numpy_generator(seed, name), len(spectrum)
    P, g = draw.standard_normal((clients // 2, d, d)), draw.standard_normal((clients // 2, d))
    P = P + P.swapaxes(1, 2)
    P *= DELTA / np.linalg.norm(P, 2, axis=(1, 2), keepdims=True)
    g *= noise / np.linalg.norm(g, axis=1, keepdims=True)
    H, b = np.diag(spectrum) + np.concatenate([P, -P]), np.concatenate([g, -g])
    start = length * np.ones(d) / np.linalg.norm(spectrum)
    task = quadratic_task(H, b, x0=start, name=name, test="gradient")
    return Quadratics(task, spectrum, H, b, start)


def rounds_to_shares(
    histories: Sequence[History], shares: Iterable[float] = SHARES
) -> pd.DataFrame:
    """The rounds until ||grad F||^2 is a share of its first value, with each share's best rate.

    Args:
        histories: with ``squared_gradient``, of one problem and several client learning rates.

    Returns:
        method, share, rounds, client_lr (both NaN where no rate reaches the share).
    """
    rows = []
    for method in dict.fromkeys(history.config.algorithm for history in histories):
        runs = [run for run in histories if run.config.algorithm == method]
        for share in shares:
            reached = {hyperparameter(run, "client_lr"): rounds_to(run, share) for run in runs}
            rounds = pd.Series(reached, dtype=float).dropna()
            best = (rounds.min(), rounds.idxmin()) if len(rounds) else (np.nan, np.nan)
            rows.append((method, share, *best))
    return pd.DataFrame(rows, columns=["method", "share", "rounds", "client_lr"])


def means_over_rounds(histories: Sequence[History]) -> pd.DataFrame:
    """The mean of ||grad F(x_t)||^2 over the first T rounds: its expectation at a random one.

    Args:
        histories: with ``squared_gradient`` after every round, of several cohorts and seeds.

    Returns:
        method, clients (of a round), rounds (T, from 1), mean (over the seeds, too), last
        (||grad F(x_T)||^2, mean over the seeds).

    Raises:
        Error: a run that was not evaluated after every round.
    """
    frames = []
    for run in histories:
        square = run.series("squared_gradient").to_numpy()
        if len(square) != run.config.rounds + 1:
            raise Error(f"{run!r}: need an evaluation after every round")
        rounds = np.arange(1, len(square))
        frames.append(
            pd.DataFrame(
                {
                    "method": run.config.algorithm,
                    "clients": run.config.clients_per_round,
                    "rounds": rounds,
                    "mean": np.cumsum(square[:-1]) / rounds,
                    "last": square[1:],
                }
            )
        )
    keys = ["method", "clients", "rounds"]
    return pd.concat(frames).groupby(keys, sort=False)[["mean", "last"]].mean().reset_index()


def mime_corollaries(histories: Sequence[History]) -> Drawing:
    """Rounds over the accuracy that is asked for (II), squared gradients over cohorts (III).

    Args:
        histories: of the tasks :data:`FLAT` and :data:`COHORTS`, the latter's of Mime.

    Returns:
        the figure, and corollary ("II", "III") with the columns of :func:`rounds_to_shares` and
            :func:`means_over_rounds`.

    Raises:
        Error: one of the two has no runs.
    """
    flat, cohorts = of_task(histories, FLAT), of_task(histories, COHORTS)
    if not (flat and cohorts):
        raise Error(f"Mime's corollaries: need runs of both {FLAT} and {COHORTS}")
    shares, means = rounds_to_shares(flat), means_over_rounds(cohorts)
    with style.panels(1, 2, (5.8, 2.8)) as (figure, (left, right)):
        for method, part in shares.groupby("method", sort=False):
            look = style.look(str(method))
            left.semilogx(1 / part["share"], part["rounds"], label=look.label, **look.line())
        left.set(xlabel="first / last $\\Vert\\nabla F\\Vert^2$", ylabel="rounds")
        left.set_title("II: base SGD, best rates")
        left.legend()
        for clients, part in means.groupby("clients"):
            (line,) = right.loglog(part["rounds"], part["last"], label=f"S = {clients}")
            right.loglog(part["rounds"], part["mean"], ":", color=line.get_color())
        right.set(xlabel="round", ylabel="$\\Vert\\nabla F(x_t)\\Vert^2$")
        right.set_title("III: base Adam; dotted: mean so far")
        right.legend()
    return figure, pd.concat({"II": shares, "III": means}, names=["corollary"]).droplevel(
        1
    ).reset_index()
