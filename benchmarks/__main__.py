"""Time a round of fedlib and of the other ways, as a table: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys

import pandas as pd

from benchmarks.rounds import bench
from benchmarks.workloads import WORKLOADS
from fedlib.errors import Error


def main() -> int:
    """Run the command and return 0, or 2 for a usage error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("workloads", nargs="*", help=f"some of {', '.join(WORKLOADS)} (default: W1 to W5)")
    add("--repeats", type=int, default=5, help="timed rounds of each way")
    add("--device", default="auto")
    add("--clients", type=int, help="clients a round")
    add("--population", type=int, help="number of clients that a round draws from")
    add("--configurations", type=int, default=1, help="learning rates that train at once")
    add("--no-rivals", dest="rivals", action="store_false", help="time fedlib alone")
    given = vars(parser.parse_args())
    names = given.pop("workloads") or ["W1", "W2", "W3", "W4", "W5"]
    try:
        frame = pd.DataFrame([bench(name, **given) for name in names])
    except Error as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2
    print(frame.to_string(index=False, na_rep="", float_format="{:.4g}".format))
    return 0


if __name__ == "__main__":
    sys.exit(main())
