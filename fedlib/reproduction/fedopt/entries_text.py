"""The table of Adaptive Federated Optimization that is Stack Overflow's alone."""

from __future__ import annotations

from fedlib.reproduction.entry import Entry
from fedlib.reproduction.printed import printed_entry

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "fedopt/table_10",
        "Stack Overflow after training, on all test posts: accuracy of the next word and recall "
        "at 5 of the tags, in percent (FedOpt, Table 10).",
        {"stackoverflow_nwp": "15_stackoverflow_nwp", "stackoverflow_lr": "16_stackoverflow_lr"},
        printed_entry("fedopt", "Table 10", "").draw,
    ),
)
