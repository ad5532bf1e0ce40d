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


def _variant(number: int, setting: str, *parts: str) -> Entry:
    name, more = f"Table {number}", {"clients": True, "parts": parts}
    return side_by_side("adafedadam", name, _METRICS, setting, **more)


ENTRIES: tuple[Entry, ...] = (
    Entry("adafedadam/figure_1", _METHOD, make=lambda _: adafedadam_figure_1()),
    Entry("adafedadam/figure_2", tables.ADAFEDADAM, adafedadam_figure_2, clients=True),
    Entry("adafedadam/figure_3", {"synthetic": "34_fairness_tradeoff"}, adafedadam_figure_3),
    Entry("adafedadam/table_4", _METHOD, make=setups.table_4),
    printed_entry("adafedadam", "Table 5", clients=True),
    Entry("adafedadam/figure_6", _PARTITIONS, make=lambda _: setups.figure_6()),
    Entry("adafedadam/figure_4", _MODELS, make=lambda _: setups.figure_4()),
    Entry("adafedadam/figure_5", _MODELS, make=lambda _: setups.figure_5()),
    _variant(1, "setting", "epochs", "mu"),
    _variant(2, "partition", "levels"),
    _variant(3, "local solver"),
    _variant(6, "partition", "levels"),
    _variant(7, "local solver"),
)
