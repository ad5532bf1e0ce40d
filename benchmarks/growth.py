"""How the time of a round grows with clients, configurations and width, as a CSV.

    python -m benchmarks.growth --workload W1 --output growth.csv

Each line is one setting: seconds per round of fedlib and of the plain loop (which trains one
configuration; its time for C of them is C times that), their ratio, what tensors take, padding.
"""

from __future__ import annotations

import argparse
import platform
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from benchmarks.rounds import WORKLOADS, bench
from fedlib.results.files import _commit

SETTINGS = {
    "clients": (10, 50, 200, 1000),
    "configurations": (1, 8, 72),
    "width": (0.25, 0.5, 1.0, 2.0),
}


def main() -> None:
    """Measure the settings and write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", choices=list(WORKLOADS), default="W1")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--vary", choices=list(SETTINGS), action="append")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    names = options.vary or list(SETTINGS)
    rows = []
    for name, value in chain.from_iterable([(n, v) for v in SETTINGS[n]] for n in names):
        setting: dict[str, Any] = {name: value, "repeats": options.repeats}
        one = bench(options.workload, device=options.device, memory=True, **setting)
        rows.append(
            {
                "workload": options.workload,
                "varied": name,
                "value": value,
                "backend": one["backend"],
                "fedlib_seconds": one["seconds"]["fedlib"],
                "plain_seconds": one["seconds"]["plain"],
                "plain_over_fedlib": one["ratios"]["plain"],
                "fedlib_mib": one["bytes"]["fedlib"] / 2**20,
                "plain_mib": one["bytes"]["plain"] / 2**20,
                "padding": one["padding"],
                "threads": one["threads"],
                "device": one["device"],
                "python": platform.python_version(),
                "torch": torch.__version__,
                "commit": (_commit() or {}).get("commit", ""),
            }
        )
        print(pd.DataFrame(rows[-1:]).iloc[:, :9].to_string(index=False), file=sys.stderr)
    pd.DataFrame(rows).to_csv(options.output, index=False)


if __name__ == "__main__":
    main()
