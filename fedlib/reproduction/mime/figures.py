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
    Entry("mime/table_1", {"": "04_mimicking_centralized"}, make=lambda _: mime_table_1()),
    Entry("mime/table_2", tables.notebooks("mime", "Table 2"), mime_table_2, clients=True),
    Entry("mime/table_5", {"": "24_mime_emnist"}, make=lambda _: mime_table_5()),
    Entry("mime/figure_1", _ABLATION, mime_figure_1, parts=("curves",)),
    Entry("mime/figure_5", _ABLATION, mime_figure_5, parts=("prox",)),
)
