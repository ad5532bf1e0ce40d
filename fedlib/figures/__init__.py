"""Drawing of curves, heat maps, distributions and tables from given data."""

from fedlib.figures.architectures import draw_layers, layers
from fedlib.figures.curves import client_density, learning_curves, plot
from fedlib.figures.partitions import client_labels, unique_labels
from fedlib.figures.save import save
from fedlib.figures.tables import comparison, drawn, table

__all__ = [
    "client_density",
    "client_labels",
    "comparison",
    "draw_layers",
    "drawn",
    "layers",
    "learning_curves",
    "plot",
    "save",
    "table",
    "unique_labels",
]
