"""Seconds a round of fedlib and of the other ways, as a table: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import product
from typing import Any

import pandas as pd

from benchmarks.rounds import bench
from benchmarks.workloads import WORKLOADS
from fedlib.errors import Error

SHOWN = ("workload", "clients", "population", "configurations", "width", "backend")


def main() -> int:
    """The command; 0, or 2 for a usage error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("workloads", nargs="*", help=f"of {', '.join(WORKLOADS)}; default W1 to W5")
    parser.add_argument("--repeats", type=int, default=5, help="rounds of each way that count")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--backend", default="auto")
    for name, kind, what in (
        ("clients", int, "clients a round"),
        ("population", int, "clients of which a round draws its own"),
        ("configurations", int, "client learning rates that train at once"),
        ("width", float, "factor on hidden sizes"),
    ):
        parser.add_argument(f"--{name}", type=kind, nargs="+", help=f"{what}; several to compare")
    parser.add_argument("--dtype", help="time fedlib in this number format, too, e.g. bfloat16")
    parser.add_argument("--no-rivals", action="store_true", help="time fedlib alone")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    given = parser.parse_args()
    axes = product(
        given.workloads or ["W1", "W2", "W3", "W4", "W5"],
        given.clients or [None],
        given.population or [None],
        given.configurations or [1],
        given.width or [1.0],
    )
    try:
        results = [
            bench(
                workload,
                repeats=given.repeats,
                device=given.device,
                backend=given.backend,
                clients=clients,
                population=population,
                configurations=configurations,
                width=width,
                dtype=given.dtype,
                rivals=not given.no_rivals,
            )
            for workload, clients, population, configurations, width in axes
        ]
    except Error as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    table = pd.DataFrame(map(_row, results)).to_string(index=False, na_rep="")
    print(json.dumps(results, indent=2) if given.json else table)
    return 0


def _row(result: dict[str, Any]) -> dict[str, Any]:
    """A row of the table, by heading."""
    return {
        **{name: result[name] for name in SHOWN},
        **{f"{way} s": f"{seconds:.4f}" for way, seconds in result["seconds"].items()},
        **{f"{way} / fedlib": f"{ratio:.2f}" for way, ratio in result["ratios"].items()},
    }


if __name__ == "__main__":
    sys.exit(main())
