"""The client optimizers: SGD, SGDM, Adam, Adagrad, SPS and DeltaSGD."""

from fedlib.optimizers.adagrad import Adagrad
from fedlib.optimizers.adam import Adam
from fedlib.optimizers.client_optimizer import ClientOptimizer, Oracle, RatedOptimizer
from fedlib.optimizers.delta_sgd import DeltaSGD
from fedlib.optimizers.sgd import SGD, SGDM
from fedlib.optimizers.sps import SPS

__all__ = [
    "SGD",
    "SGDM",
    "SPS",
    "Adagrad",
    "Adam",
    "ClientOptimizer",
    "DeltaSGD",
    "Oracle",
    "RatedOptimizer",
]
