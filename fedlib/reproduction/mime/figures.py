"""Figures and tables of Mime."""

from __future__ import annotations

from fedlib.reproduction.entry import Entry
from fedlib.reproduction.mime import ablation as mime_runs
from fedlib.reproduction.mime import base_optimizers
from fedlib.reproduction.mime import table_2 as mime_table
from fedlib.reproduction.theory import mimicking

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "mime/table_1",
        "Communication rounds until the squared gradient norm is at most ε, S clients a round, "
        "logarithmic factors left out (Mime, Table 1, as printed).",
        {"": "04_mimicking_centralized"},
        make=lambda _: mimicking.mime_table_1(),
    ),
    Entry(
        "mime/table_2",
        "Test accuracy in percent after the last round, at equal communication (Mime, Table 2). "
        "Each row has the client learning rate with the smallest training loss.",
        {
            "emnist_logistic": "24_mime_emnist",
            "emnist_cr": "24_mime_emnist",
            "shakespeare": "25_mime_text",
            "stackoverflow_nwp": "25_mime_text",
        },
        mime_table.mime_table_2,
    ),
    Entry(
        "mime/table_5",
        "Base optimizers as a step U that is linear in the gradient and a state update V (Mime, "
        "Table 5; its rows beyond momentum follow from linearity, the text lacks them), compared "
        "over 50 steps with the optimizers that they split.",
        {"": "24_mime_emnist"},
        make=lambda _: base_optimizers.mime_table_5(),
    ),
    Entry(
        "mime/figure_1",
        "Test accuracy over rounds on the EMNIST MLP, 10 local epochs, base optimizer momentum "
        "(Mime, Figure 1). Each line has the learning rate, β and μ with the smallest training "
        "loss.",
        {"emnist_mlp": "38_mime_ablation"},
        mime_runs.mime_figure_1,
    ),
    Entry(
        "mime/figure_5",
        "Test accuracy and loss over rounds of FedAvg and FedProx on the EMNIST MLP, at FedAvg's "
        "best rate (Mime, Figure 5; the text says that the regularizer slows convergence and lacks "
        "the figure).",
        {"emnist_mlp": "38_mime_ablation"},
        mime_runs.mime_figure_5,
    ),
)
