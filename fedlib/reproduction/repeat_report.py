"""What is said of repeated runs: a line each, a table, how many agree, and how long it takes."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from fedlib import files
from fedlib.reproduction.repeat import Repeated, seconds
from fedlib.results.files import Stored


@dataclass
class Report:
    """What came of repeating some published runs.

    Attributes:
        asked: how many runs were meant.
        left_out: how many of them cannot be repeated here, by reason.
        chosen: which of the others are repeated.
        rows: those that have been.
    """

    asked: int
    left_out: Counter[str]
    chosen: Sequence[Stored]
    rows: list[Repeated] = field(default_factory=list)

    def follow(self, rows: Iterable[Repeated], quiet: bool) -> None:
        """Take rows in as they come, with a line each and, on a terminal, a bar of their seconds.

        Args:
            quiet: neither.
        """
        expected = {run.config.digest: seconds(run) for run in self.chosen}
        form = "{desc} {percentage:3.0f}%|{bar}| {elapsed}, {remaining} left"
        hidden = quiet or None  # None: also where no terminal is
        how: dict[str, Any] = {"disable": hidden, "bar_format": form, "dynamic_ncols": True}
        with tqdm(total=sum(expected.values()), desc=f"0/{len(expected)} runs", **how) as bar:
            for row in rows:
                self.rows.append(row)
                if not quiet:
                    tqdm.write(self.line(row), file=sys.stdout)
                    sys.stdout.flush()
                bar.set_description_str(f"{len(self.rows)}/{len(expected)} runs")
                bar.update(expected[row.digest])

    def frame(self) -> pd.DataFrame:
        """A row a run: the fields of :class:`Repeated`, and ``difference``."""
        names = [one.name for one in fields(Repeated)]
        names.insert(names.index("tolerance"), "difference")
        return pd.DataFrame(
            [{name: getattr(row, name) for name in names} for row in self.rows], columns=names
        )

    def differing(self) -> list[Repeated]:
        """The rows whose numbers do not agree, or that could not be trained."""
        return [row for row in self.rows if not row.agrees]

    def heading(self) -> str:
        """The names of a line's columns."""
        words = ("run", "published in", "task", "algorithm", "metric", "published", "now")
        return _columns(*words, "difference", "")

    def line(self, row: Repeated) -> str:
        """A row for people."""
        which = row.digest, row.file, row.task, row.algorithm
        if row.reason:
            return _columns(*which, "", "", "", "", _verdict(row))
        numbers = (f"{row.published:.6f}", f"{row.now:.6f}", f"{row.difference:+.1e}")
        if math.isnan(row.published) and math.isnan(row.now):
            numbers = ("diverged", "diverged", "")
        allowed = "" if row.bit_equal or not numbers[2] else f" (tolerance {row.tolerance:.1e})"
        return _columns(*which, row.metric, *numbers, _verdict(row) + allowed)

    def left_out_lines(self) -> list[str]:
        """How many runs were left out, and what to do about it."""
        return [
            f"{count} {'run' if count == 1 else 'runs'} left out, {why}"
            for why, count in self.left_out.most_common()
        ]

    def summary(self) -> list[str]:
        """How many agree, in lines."""
        total, bits = len(self.rows), sum(row.bit_equal for row in self.rows)
        agree = total - len(self.differing())
        lines = self.left_out_lines()
        if total < len(self.chosen):
            lines.append(f"stopped after {total} of {len(self.chosen)} runs")
        lines.append(f"{agree} of {total} runs agree within the tolerance, {bits} are bit-equal")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        rows = self.frame().to_dict("records")
        agree, bits = (sum(row[key] for row in rows) for key in ("agrees", "bit_equal"))
        counts = {"published": self.asked, "chosen": len(self.chosen), "repeated": len(rows)}
        left = {"left_out": dict(self.left_out)}
        return {**counts, "agree": agree, "bit_equal": bits, **left, "runs": rows}

    def write(self, path: Path) -> None:
        """Write the table as CSV, or in Markdown with the summary below."""
        text = self.frame().to_csv(index=False)
        if path.suffix == ".md":
            names = ["digest", "file", "task", "algorithm", "metric"]
            numbers = ["published", "now", "difference"]
            rows = [[*names, *numbers, "verdict"], ["---"] * 9]
            for row in self.rows:
                values = [f"{getattr(row, name):.6g}".replace("nan", "–") for name in numbers]
                rows.append([*(getattr(row, name) for name in names), *values, _verdict(row)])
            lines = ["| " + " | ".join(row) + " |" for row in rows]
            text = "\n".join([*lines, "", *self.summary(), ""])
        files.write(path, text.encode())


def _verdict(row: Repeated) -> str:
    """A row's verdict in a word."""
    if row.reason:
        return f"not trained: {row.reason}"
    return "bit-equal" if row.bit_equal else "agrees" if row.agrees else "differs"


def _columns(*cells: str) -> str:
    widths = (16, 30, 17, 11, 11, 9, 9, 10)
    start = "  ".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False))
    return f"{start}  {cells[-1]}".rstrip()
