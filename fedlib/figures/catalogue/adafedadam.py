"""Figures and tables of AdaFedAdam's main experiment, and its illustrations."""

from __future__ import annotations

from fedlib.figures import architectures, partitions
from fedlib.figures.adafedadam_method import adafedadam_figure_1
from fedlib.figures.catalogue.base import Entry
from fedlib.figures.fairness import adafedadam_figure_2
from fedlib.figures.printed import printed_table
from fedlib.figures.setups import adafedadam_table_4
from fedlib.figures.tradeoff import adafedadam_figure_3

_SETUPS = {
    "fair_femnist": "20_fair_femnist",
    "fair_cifar10": "21_fair_cifar10",
    "fair_sent140": "22_fair_sent140",
    "synthetic": "23_fair_synthetic",
}
_METHOD = {"": "20_fair_femnist"}
_PARTITIONS = {"": "06_partitions"}
_MODELS = {"": "07_models"}

ENTRIES: tuple[Entry, ...] = (
    Entry(
        "adafedadam/figure_1",
        "AdaFedAdam on two quadratic clients (AdaFedAdam, Figure 1, drawn anew from its "
        "algorithm). Left: local steps from the server's model; updates scaled to the length of "
        "the clients' gradients, and their mean. Right: the server's way to the optimum.",
        _METHOD,
        make=lambda _: adafedadam_figure_1(),
    ),
    Entry(
        "adafedadam/figure_2",
        "A row per setup: average test accuracy weighted by examples, mean of the worst 30 % of "
        "the clients, and density of the clients' final accuracies with a kernel of 5 points "
        "(AdaFedAdam, Figure 2). Marks at the right edge: the values that Table 5 prints.",
        _SETUPS,
        adafedadam_figure_2,
        clients=True,
    ),
    Entry(
        "adafedadam/figure_3",
        "AdaFedAdam on Synthetic for several α: mean error and relative standard deviation (RSD) "
        "of the clients' errors, both weighted by examples, over the rounds; and both at the end, "
        "beside other algorithms. Shaded: what AdaFedAdam dominates (AdaFedAdam, Figure 3).",
        {"synthetic": "34_fairness_tradeoff"},
        adafedadam_figure_3,
    ),
    Entry(
        "adafedadam/table_4",
        "The four setups (AdaFedAdam, Table 4), and fedlib's tasks for them.",
        _METHOD,
        make=adafedadam_table_4,
    ),
    Entry(
        "adafedadam/table_5",
        "Average, spread and worst 30 % of the clients' test accuracies in percent "
        "(AdaFedAdam, Table 5).",
        _SETUPS,
        printed_table("adafedadam", "Table 5"),
        clients=True,
    ),
    Entry(
        "adafedadam/figure_6",
        "Label distributions of the 16 clients (AdaFedAdam, Figure 6), for labels with "
        "CIFAR-10's structure: ten classes of 5,000.",
        _PARTITIONS,
        make=lambda _: partitions.adafedadam_figure_6(),
    ),
    Entry(
        "adafedadam/figure_4",
        "VGG11 for the Cifar10 setup (AdaFedAdam, Figure 4), as built here. The text lacks the "
        "paper's drawing: this is the network of FedNova's code, whose setup it shares.",
        _MODELS,
        make=lambda _: architectures.adafedadam_figure_4(),
    ),
    Entry(
        "adafedadam/figure_5",
        "The two-layer LSTM for the Sent140 setup (AdaFedAdam, Figure 5), as built here: 25 "
        "words, frozen GloVe vectors of 300, the dense layer on the last step. The text lacks "
        "the paper's drawing.",
        _MODELS,
        make=lambda _: architectures.adafedadam_figure_5(),
    ),
)
