"""The figures and tables of AdaFedAdam."""

from __future__ import annotations

from fedlib.reproduction import tables
from fedlib.reproduction.adafedadam import setups
from fedlib.reproduction.adafedadam.fairness import adafedadam_figure_2
from fedlib.reproduction.adafedadam.method import adafedadam_figure_1
from fedlib.reproduction.adafedadam.tradeoff import adafedadam_figure_3
from fedlib.reproduction.entry import Entry
from fedlib.reproduction.printed import printed_entry, side_by_side

_METHOD = {"": "20_fair_femnist"}
_PARTITIONS = {"": "06_partitions"}
_MODELS = {"": "07_models"}
_METRICS = {"avg": "average", "std": "spread", "worst30": "worst 30 %"}
_COLUMNS = (
    "Average, spread and worst 30 % of the clients' test accuracies in percent: printed, ours "
    "weighted by examples, ours with clients alike"
)


def _variant(number: int, what: str, setting: str = "setting", *parts: str) -> Entry:
    caption = f"{what} {_COLUMNS} (AdaFedAdam, Table {number})."
    name = f"Table {number}"
    metrics, more = _METRICS, {"clients": True, "parts": parts}
    return side_by_side("adafedadam", name, caption, metrics, setting=setting, **more)


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
        "A row per setup: average test accuracy and mean of the worst 30 % of the clients, both "
        "weighted by examples, and density of the clients' final accuracies with a kernel of 5 "
        "points (AdaFedAdam, Figure 2). In brackets, after runs at the paper's settings: the "
        "values that Table 5 prints.",
        tables.ADAFEDADAM,
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
        make=setups.table_4,
    ),
    printed_entry(
        "adafedadam",
        "Table 5",
        "Average, spread and worst 30 % of the clients' test accuracies in percent "
        "(AdaFedAdam, Table 5).",
        clients=True,
    ),
    Entry(
        "adafedadam/figure_6",
        "Label distributions of the 16 clients (AdaFedAdam, Figure 6), for labels with "
        "CIFAR-10's structure: ten classes of 5,000.",
        _PARTITIONS,
        make=lambda _: setups.figure_6(),
    ),
    Entry(
        "adafedadam/figure_4",
        "VGG11 for the CIFAR-10 setup (AdaFedAdam, Figure 4), as built here. The text lacks the "
        "paper's drawing: this is the network of FedNova's code, whose setup it shares.",
        _MODELS,
        make=lambda _: setups.figure_4(),
    ),
    Entry(
        "adafedadam/figure_5",
        "The two-layer LSTM for the Sent140 setup (AdaFedAdam, Figure 5), as built here: 25 "
        "words, frozen GloVe vectors of 300, the dense layer on the last step. The text lacks "
        "the paper's drawing.",
        _MODELS,
        make=lambda _: setups.figure_5(),
    ),
    _variant(
        1,
        "CIFAR-10 with U(1, 3) local epochs, drawn for each client and round.",
        "setting",
        "epochs",
        "mu",
    ),
    _variant(2, "AdaFedAdam on CIFAR-10 under Dirichlet partitions.", "partition", "levels"),
    _variant(3, "AdaFedAdam on Synthetic with three local solvers.", "local solver"),
    _variant(6, "Five algorithms on CIFAR-10 under Dirichlet partitions.", "partition", "levels"),
    _variant(7, "Six algorithms on Synthetic with three local solvers.", "local solver"),
)
