"""Drawings of the theory notebooks."""

from fedlib.reproduction.theory.adaptivity import convergence_rates, degree_of_adaptivity
from fedlib.reproduction.theory.certainty import accumulated, fairness_and_certainty
from fedlib.reproduction.theory.drift import animate_paths, drift_size, local_paths
from fedlib.reproduction.theory.step_sizes import auto_tuned, step_sizes

__all__ = [
    "accumulated",
    "animate_paths",
    "auto_tuned",
    "convergence_rates",
    "degree_of_adaptivity",
    "drift_size",
    "fairness_and_certainty",
    "local_paths",
    "step_sizes",
]
