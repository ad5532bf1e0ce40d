"""Figures and tables from stored runs; nothing here trains."""

from fedlib.figures.adaptivity import convergence_rates, degree_of_adaptivity
from fedlib.figures.architectures import draw_layers, layers
from fedlib.figures.catalogue import Drawn, Entry, draw, entries, entry, redraw
from fedlib.figures.certainty import accumulated, fairness_and_certainty
from fedlib.figures.curves import client_distribution, learning_curves
from fedlib.figures.drift import animate_paths, drift_size, local_paths
from fedlib.figures.heat_map import heat_map
from fedlib.figures.partitions import client_labels, unique_labels
from fedlib.figures.save import save
from fedlib.figures.step_sizes import auto_tuned, step_sizes
from fedlib.figures.tables import table

__all__ = [
    "Drawn",
    "Entry",
    "accumulated",
    "animate_paths",
    "auto_tuned",
    "client_distribution",
    "client_labels",
    "convergence_rates",
    "degree_of_adaptivity",
    "draw",
    "draw_layers",
    "drift_size",
    "entries",
    "entry",
    "fairness_and_certainty",
    "heat_map",
    "layers",
    "learning_curves",
    "local_paths",
    "redraw",
    "save",
    "step_sizes",
    "table",
    "unique_labels",
]
