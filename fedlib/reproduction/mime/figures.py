"""The figures and tables of Mime."""

from __future__ import annotations

from fedlib.reproduction import tables
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.mime.ablation import mime_figure_1, mime_figure_5
from fedlib.reproduction.mime.base_optimizers import mime_table_5
from fedlib.reproduction.mime.table_1 import mime_table_1
from fedlib.reproduction.mime.table_2 import mime_table_2

_ABLATION = {"emnist_mlp": "38_mime_ablation"}

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "mime/table_1",
        "Communication rounds until the squared gradient norm is at most ε, S clients a round, "
        "logarithmic factors left out (Mime, Table 1, as printed).",
        {"": "04_mimicking_centralized"},
        make=lambda _: mime_table_1(),
    ),
    Entry(
        "mime/table_2",
        "Test accuracy in percent after the last round, at equal communication (Mime, Table 2). "
        "Each row has the client learning rate with the best accuracy on half of the test clients, "
        "and its accuracy on the other half.",
        tables.notebooks("mime", "Table 2"),
        mime_table_2,
        clients=True,
    ),
    Entry(
        "mime/table_5",
        "Base optimizers as a step U that is linear in the gradient and a state update V (Mime, "
        "Table 5; its rows beyond momentum follow from linearity, the text lacks them), compared "
        "over 50 steps with the optimizers that they split.",
        {"": "24_mime_emnist"},
        make=lambda _: mime_table_5(),
    ),
    Entry(
        "mime/figure_1",
        "Test accuracy over rounds on the EMNIST MLP, 10 local epochs, base optimizer momentum "
        "(Mime, Figure 1). Each line has the learning rate, β and μ with the smallest training "
        "loss.",
        _ABLATION,
        mime_figure_1,
        parts=("curves",),
    ),
    Entry(
        "mime/figure_5",
        "Test accuracy and loss over rounds of FedAvg and FedProx on the EMNIST MLP, each at its "
        "best rate (Mime, Figure 5; the text says that the regularizer slows convergence and lacks "
        "the figure).",
        _ABLATION,
        mime_figure_5,
        parts=("prox",),
    ),
)
