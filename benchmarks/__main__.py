"""Seconds a round of fedlib and of the other ways, as a table: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import Any

import pandas as pd

from benchmarks.rounds import bench
from benchmarks.workloads import WORKLOADS
from fedlib.errors import Error


def main() -> int:
    """The command; 0, or 2 for a usage error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(WORKLOADS)}; default W1 to W5")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each way that count")
    parser.add_argument("--device", default="auto")
    for name, what in (
        ("clients", "clients a round"),
        ("population", "clients of which a round draws its own"),
        ("configurations", "client learning rates that train at once"),
    ):
        parser.add_argument(f"--{name}", type=int, nargs="+", help=f"{what}; several to compare")
    parser.add_argument("--no-rivals", action="store_true", help="time fedlib alone")
    given = parser.parse_args()
    axes = product(
        given.workloads or ["W1", "W2", "W3", "W4", "W5"],
        given.clients or [None],
        given.population or [None],
        given.configurations or [1],
    )
    try:
        results = [
            bench(
                workload,
                clients=clients,
                population=population,
                configurations=configurations,
                rivals=not given.no_rivals,
                repeats=given.repeats,
                device=given.device,
            )
            for workload, clients, population, configurations in axes
        ]
    except Error as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    print(pd.DataFrame(map(_row, results)).to_string(index=False, na_rep=""))
    return 0


def _row(result: dict[str, Any]) -> dict[str, Any]:
    """A row of the table, by heading."""
    seconds, ratios = result.pop("seconds"), result.pop("ratios")
    return {
        **result,
        **{f"{way} s": f"{own:.4f}" for way, own in seconds.items()},
        **{f"{way} / fedlib": f"{ratio:.2f}" for way, ratio in ratios.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
