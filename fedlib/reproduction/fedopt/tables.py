"""FedOpt's tasks and methods in the order of its tables and figures."""

from fedlib import papers
from fedlib.reproduction.tables import find

# fedlib's task -> the paper's, in the alphabetical order of Figures 5 to 11.
_LABELS = find("fedopt", "Table 1").drop_duplicates("task").sort_values("label")
TASKS: dict[str, str] = dict(zip(_LABELS["task"], _LABELS["label"], strict=True))
# The order of Tables 1, 8, 10 and 11, and of the heat maps. The first three have a tau.
ADAPTIVE = ("fedadagrad", "fedadam", "fedyogi")
OPTIMIZERS = (*ADAPTIVE, "fedavgm", "fedavg")
# The tau of heat maps and Figure 12.
TAU: float = papers.settings("fedopt")["tuning"]["tau_fixed_in_lr_heatmaps"]
