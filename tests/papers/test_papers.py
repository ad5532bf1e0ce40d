"""The transcribed numbers are complete and consistent, and are looked up without guessing."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter

import pandas as pd
import pytest

from fedlib import papers
from fedlib.errors import Error

ROWS = {
    ("fedopt", "grids"): 169,
    ("fedopt", "table1_validation"): 7 * 5,
    ("fedopt", "table2_datasets"): 5 * 4,
    ("fedopt", "table3_6_models"): 32,
    ("fedopt", "table7_batch_sizes"): 7,
    ("fedopt", "table8_learning_rates"): 7 * 5,
    ("fedopt", "table9_tau"): 7 * 3,
    ("fedopt", "table10_stackoverflow_test"): 2 * 5,
    ("fedopt", "table11_lr_decay"): 3 * 5,
    ("mime", "table1_rates"): 11,
    ("mime", "table2_accuracy"): 4 * 12,
    ("adafedadam", "table1_resource_heterogeneity"): 6 * 3,
    ("adafedadam", "table2_noniid"): 4 * 3,
    ("adafedadam", "table3_local_solvers"): 3 * 3,
    ("adafedadam", "table4_setups"): 4 * 5,
    ("adafedadam", "table5_convergence_fairness"): 4 * 6 * 3,
    ("adafedadam", "table6_noniid_full"): 4 * 5 * 3,
    ("adafedadam", "table7_local_momentum_full"): 3 * 6 * 3,
    ("delta_sgd", "table1"): 3 * 8 * 5,
    ("delta_sgd", "table2a_text"): 8 * 2,
    ("delta_sgd", "table2b_fedprox"): 8 * 2,
    ("delta_sgd", "table3_varied_sizes"): 8 * 2,
    ("delta_sgd", "table4_fedadam"): 8 * 4,
    ("delta_sgd", "table5_moon"): 8,
    ("delta_sgd", "table6_fedprox_full"): 8 * 5,
}

# Columns that together name a row, wherever a table has them.
KEYS = [
    "task", "group", "dataset", "model", "setup", "setting", "dirichlet_beta", "local_solver",
    "alpha", "client_lr_schedule", "algorithm", "optimizer", "base_optimizer", "method", "metric",
    "quantity", "parameter", "log10_value", "layer_index",
]  # fmt: skip

DELTA_TABLES = [name for paper, name in ROWS if paper == "delta_sgd"]
FAIR_TABLES = [name for paper, name in ROWS if paper == "adafedadam" and name != "table4_setups"]


def test_the_papers_their_tables_and_all_59_figures():
    assert papers.papers() == ("fedopt", "mime", "adafedadam", "delta_sgd")
    listed = {(paper, name) for paper in papers.papers() for name in papers.tables(paper)}
    assert listed == set(ROWS)
    frame = papers.figures()
    count = {"fedopt": 25, "mime": 5, "adafedadam": 13, "delta_sgd": 16}
    assert frame["paper"].value_counts().to_dict() == count
    assert not frame.duplicated(["paper", "id"]).any()


@pytest.mark.parametrize(("paper", "name"), ROWS)
def test_every_table_is_complete_and_names_each_cell_once(paper, name):
    frame = papers.table(paper, name)
    assert len(frame) == ROWS[paper, name]
    keys = [column for column in KEYS if column in frame]
    assert not frame.duplicated(keys).any()


def test_every_cell_that_is_not_plainly_read_is_listed_as_unclear():
    doubtful = 0
    for paper, name in ROWS:
        frame = papers.table(paper, name)
        if "status" in frame:
            marked = frame[frame["status"] != "read"]
            assert (marked["note"] != "").all(), f"{paper}/{name}: a marked cell without evidence"
            doubtful += len(marked)
    assert doubtful == len(papers.unclear_cells())


# ---------------------------------------------------------------- fedopt


def dense(inputs, outputs):
    return (inputs + 1) * outputs


def lstm(inputs, units):
    return 4 * units * (inputs + units + 1)


def convolution(inputs, outputs, kernel=3):
    return (kernel * kernel * inputs + 1) * outputs


AE = [784, 1000, 500, 250, 30, 250, 500, 1000, 784]
CR = [convolution(1, 32), convolution(32, 64), dense(64 * 12 * 12, 128), dense(128, 62)]


@pytest.mark.parametrize(
    ("model", "layers"),
    [
        ("EMNIST AE", [dense(*pair) for pair in itertools.pairwise(AE)]),
        ("EMNIST CR", CR),
        ("Shakespeare", [90 * 8, lstm(8, 256), lstm(256, 256), dense(256, 90)]),
        ("StackOverflow NWP", [10004 * 96, lstm(96, 670), dense(670, 96), dense(96, 10004)]),
    ],
)
def test_printed_parameter_counts_follow_from_the_layers(model, layers):
    frame = papers.table("fedopt", "table3_6_models")
    rows = frame[(frame["model"] == model) & (frame["parameters"] > 0)]
    assert rows.loc[rows["layer"] != "TOTAL", "parameters"].tolist() == layers
    assert papers.printed("fedopt", "table3_6_models", model=model, layer="TOTAL") == sum(layers)
    assert papers.settings("fedopt")["models"]["parameter_totals_derived"][model] == sum(layers)


def test_table_11_repeats_table_1_for_a_constant_rate():
    first = papers.table("fedopt", "table1_validation")
    first = first[first["task"] == "EMNIST CR"].set_index("algorithm")["value"]
    decay = papers.table("fedopt", "table11_lr_decay")
    constant = decay[decay["client_lr_schedule"] == "constant"].set_index("algorithm")["value"]
    assert constant.to_dict() == first.to_dict()


def test_tuned_values_lie_on_the_grids_that_were_searched():
    grids = papers.table("fedopt", "grids").groupby(["task", "parameter"])["log10_value"].apply(set)
    for row in papers.table("fedopt", "table8_learning_rates").itertuples():
        assert row.log10_client_lr in grids[row.task, "client_lr"], row
        assert row.log10_server_lr in grids[row.task, "server_lr"], row
    for row in papers.table("fedopt", "table9_tau").itertuples():
        assert row.log10_tau in grids[row.task, "tau"], row


def test_grids_are_half_decades_between_the_ends_in_the_settings():
    grids = papers.table("fedopt", "grids")
    assert (grids["value"].map(math.log10) - grids["log10_value"]).abs().max() < 1e-5
    for task, ends in papers.settings("fedopt")["grid_log10"].items():
        for side, (first, last) in ends.items():
            chosen = (grids["task"] == task) & (grids["parameter"] == f"{side}_lr")
            points = [first + step / 2 for step in range(round(2 * (last - first)) + 1)]
            assert grids.loc[chosen, "log10_value"].tolist() == points


def test_fedopt_settings_agree_with_its_tables():
    settings = papers.settings("fedopt")
    sizes = papers.table("fedopt", "table7_batch_sizes").set_index("task")["batch_size"]
    assert sizes.to_dict() == settings["batch_size"]
    assert set(settings["rounds"]) == set(papers.table("fedopt", "table1_validation")["task"])
    for dataset, key in (("CIFAR-10", "cifar10"), ("CIFAR-100", "cifar100")):
        split = settings["datasets"][key]
        where = {"dataset": dataset, "quantity": "train_examples"}
        examples = papers.printed("fedopt", "table2_datasets", **where)
        assert split["train_clients"] * split["examples_per_client"] == examples == 50_000


# ---------------------------------------------------------------- mime


def test_fedavg_and_mimelite_are_one_method_when_the_base_is_sgd():
    frame = papers.table("mime", "table2_accuracy")
    sgd = frame[frame["base_optimizer"] == "SGD"]
    wide = sgd.pivot(index="dataset", columns="method", values="accuracy")
    assert len(wide) == 4
    assert wide["FedAvg"].to_dict() == wide["MimeLite"].to_dict()


def test_mime_visits_a_client_fewer_than_six_times():
    figure = papers.settings("mime")["figure1"]
    visits = figure["clients_per_round"] * figure["rounds"] / figure["clients_total"]
    assert visits == pytest.approx(figure["expected_visits_per_client_derived"], abs=0.01)
    assert visits < figure["claim_visits_per_client_below"]


# ---------------------------------------------------------------- adafedadam


@pytest.mark.parametrize("name", FAIR_TABLES)
def test_adafedadam_cells_are_percentages_or_marked_missing(name):
    frame = papers.table("adafedadam", name)
    missing = frame["status"] == "missing"
    assert (frame["mean"].isna() == missing).all()
    assert (frame["std"].isna() == missing).all()
    assert frame["mean"].dropna().between(0, 100).all()
    keys = [column for column in KEYS if column in frame and column != "metric"]
    wide = frame.pivot(index=keys, columns="metric", values="mean").dropna()
    assert (wide["worst30"] <= wide["avg"]).all()


def test_adafedadam_table_7_repeats_table_5_for_plain_sgd():
    columns = ["algorithm", "metric", "mean", "std"]
    fifth = papers.table("adafedadam", "table5_convergence_fairness")
    seventh = papers.table("adafedadam", "table7_local_momentum_full")
    pd.testing.assert_frame_equal(
        fifth.loc[fifth["setup"] == "Synthetic", columns].reset_index(drop=True),
        seventh.loc[seventh["local_solver"] == "SGD", columns].reset_index(drop=True),
    )


# ---------------------------------------------------------------- delta_sgd


@pytest.mark.parametrize("name", DELTA_TABLES)
def test_accuracy_plus_difference_is_the_best_of_its_column(name):
    for _, column in papers.table("delta_sgd", name).groupby(["alpha", "dataset", "model"]):
        assert len(column) == 8
        best = column["accuracy"].max()
        legible = column.dropna(subset=["accuracy"])
        assert ((legible["accuracy"] + legible["diff_from_best"] - best).abs() < 0.1 + 1e-9).all()
        assert (legible["accuracy_min"] <= legible["accuracy"]).all()
        assert (legible["accuracy"] <= legible["accuracy_max"]).all()
        assert column["accuracy"].isna().equals(column["diff_from_best"].isna())


def test_delta_sgd_table_2b_is_part_of_table_6():
    keys = ["alpha", "optimizer", "dataset", "model"]
    part = papers.table("delta_sgd", "table2b_fedprox")
    both = part.merge(papers.table("delta_sgd", "table6_fedprox_full"), on=keys)
    assert len(both) == len(part)
    assert both["accuracy_x"].tolist() == both["accuracy_y"].tolist()


# ---------------------------------------------------------------- looking numbers up


def test_printed_returns_the_one_cell_asked_for():
    value = papers.printed("fedopt", "table1_validation", task="CIFAR-10", algorithm="FedAdam")
    assert value == 77.4
    where = {"task": "CIFAR-10", "algorithm": "FedAdam", "column": "log10_client_lr"}
    assert papers.printed("fedopt", "table8_learning_rates", **where) == -1.5
    where = {"alpha": 0.1, "optimizer": "Delta-SGD", "dataset": "CIFAR-100", "model": "ResNet-18"}
    assert papers.printed("delta_sgd", "table1", **where) == 61.1
    # "table" is a column of this one
    where = {"table": "Table 4", "layer": "Conv2d", "layer_index": 2}
    assert papers.printed("fedopt", "table3_6_models", **where) == 18_496


MISSING = {"setup": "Cifar10", "algorithm": "FedAvg", "metric": "avg"}


@pytest.mark.parametrize(
    ("function", "arguments", "where", "message"),
    [
        ("tables", "fedop", {}, "did you mean 'fedopt'"),
        ("settings", "../fedopt", {}, "unknown paper"),
        ("table", "fedopt table1_validaton", {}, "did you mean 'table1_validation'"),
        ("table", "mime table1_validation", {}, "unknown table of mime"),
        ("printed", "fedopt table1_validation", {"task": "CIFAR-10"}, "5 cells"),
        ("printed", "fedopt table1_validation", {"task": "CIFAR10"}, "did you mean 'CIFAR-10'"),
        ("printed", "fedopt table1_validation", {"taks": "x"}, "did you mean 'task'"),
        (
            "printed",
            "fedopt table11_lr_decay",
            {"algorithm": "Yogi", "setting": "federated"},
            "selects 0 cells",
        ),
        ("printed", "fedopt table8_learning_rates", {}, "log10_client_lr"),
        ("printed", "fedopt table9_tau", {"column": "task"}, "holds text"),
        ("printed", "adafedadam table1_resource_heterogeneity", MISSING, "could not be read"),
    ],
)
def test_a_wrong_question_gets_one_clear_line(function, arguments, where, message):
    with pytest.raises(Error, match=re.escape(message)) as caught:
        getattr(papers, function)(*arguments.split(), **where)
    assert "\n" not in str(caught.value)


def test_what_a_caller_changes_does_not_reach_the_next_caller():
    frame, catalogue = papers.table("fedopt", "table1_validation"), papers.figures()
    frame["value"], catalogue["paper"] = 0.0, ""
    papers.settings("fedopt")["rounds"]["CIFAR-10"] = 0
    where = {"task": "CIFAR-10", "algorithm": "FedAdam"}
    assert papers.printed("fedopt", "table1_validation", **where) == 77.4
    assert papers.settings("fedopt")["rounds"]["CIFAR-10"] == 4000
    assert set(papers.figures()["paper"]) == set(papers.papers())


def test_illegible_characters_stay_text():
    frame = papers.table("delta_sgd", "table5_moon")
    assert all(isinstance(text, str) for text in frame["acc_as_read"])
    assert frame.loc[0, "raw_cell"] == "78.244-9)"


# ---------------------------------------------------------------- cells

CELLS = papers.cells()
COUNTS = {  # numbers, and those of them that are lost in the text
    "fedopt": {"Table 1": (35, 0), "Table 10": (10, 0), "Table 11": (15, 0)},
    "adafedadam": {
        **{"Table 1": (18, 6), "Table 2": (12, 0), "Table 3": (9, 0), "Table 5": (72, 0)},
        **{"Table 6": (60, 8), "Table 7": (54, 0)},
    },
    "mime": {"Table 2": (48, 0)},
    "delta_sgd": {
        **{"Table 1": (120, 1), "Table 2a": (16, 0), "Table 2b": (16, 0), "Table 3": (16, 1)},
        **{"Table 4": (32, 1), "Table 5": (8, 1), "Table 6": (40, 0)},
    },
}


@pytest.mark.parametrize(("paper", "item"), [(p, t) for p in COUNTS for t in COUNTS[p]])
def test_every_printed_number_is_a_cell_of_its_task_row_and_column(paper, item):
    """Compared with all rows of the file, however the cells' declaration cuts it."""
    found = CELLS[(CELLS["paper"] == paper) & (CELLS["item"] == item)]
    assert (len(found), found["printed"].isna().sum()) == COUNTS[paper][item]
    number = item.split()[1]
    name = next(n for n in papers.tables(paper) if re.match(rf"table{number}(_|$)", n))
    frame = papers.table(paper, name)
    value = next(column for column in ("value", "mean", "accuracy") if column in frame)
    row = next(c for c in ("printed_name", "optimizer", "algorithm") if c in frame)
    spread = frame["std"] if "std" in frame else pd.Series(math.nan, frame.index)
    doubt = frame["status"] != "read" if "status" in frame else pd.Series(False, frame.index)
    wanted = Counter(
        map(str, zip(frame[row], frame[value].astype(float), spread, doubt, strict=True))
    )
    told = found["unclear"] != ""
    numbers = zip(found["row"], found["printed"], found["printed_spread"], told, strict=True)
    assert Counter(map(str, numbers)) == wanted
    assert found.loc[found["printed"].isna(), "unclear"].all()
    keys = ["task", "row", "column", "metric"]
    assert not found.duplicated(keys).any(), "a number has its own place"
    methods = found.astype({"overrides": str, "options": str})
    same = ["task", "algorithm", "overrides", "options", "metric"]
    assert not methods.duplicated(same).any(), "and its own runs"


def test_cells_say_what_the_settings_say():
    stated = {paper: papers.settings(paper) for paper in papers.papers()}
    clients = {
        **dict.fromkeys(("emnist_cr", "emnist_ae", "emnist_logistic"), ("emnist", "clients")),
        "shakespeare": ("shakespeare", "clients"),
        **dict.fromkeys(("stackoverflow_lr", "stackoverflow_nwp"), ("stackoverflow", "clients")),
    }
    given = CELLS.drop_duplicates("task").set_index("task")["given"]
    for task, (data, key) in clients.items():
        assert given[task]["clients"] == stated["fedopt"]["datasets"][data][key]
    for label in ("Femnist", "Sent140"):
        task = CELLS.loc[CELLS["label"] == label, "task"].iloc[0]
        assert given[task]["clients"] == stated["adafedadam"]["setups"][label]["clients"]
    experiments = stated["adafedadam"]["experiments"]
    own = CELLS[CELLS["paper"] == "adafedadam"]
    assert set(own["seeds"]) == {stated["adafedadam"]["general"]["seeds"]}
    drawn = {cell["local_epochs"] for cell in own["overrides"] if "local_epochs" in cell}
    ends = experiments["resource_heterogeneity"]
    assert drawn == {(ends["local_epochs_min"], ends["local_epochs_max"])}
    levels = own[own["item"] == "Table 6"]["options"].str["beta"].unique().tolist()
    assert levels == experiments["noniid"]["dirichlet_beta"]
    assert own[own["item"] == "Table 5"]["options"].str["beta"].dropna().unique() == [
        stated["adafedadam"]["setups"]["Cifar10"]["dirichlet_beta"]
    ]
    solvers = own[own["item"] == "Table 7"]["column"].unique().tolist()
    assert solvers == experiments["local_solvers"]["solvers"]
    momenta = own["overrides"].str["momentum"].dropna().unique().tolist()
    assert momenta == [experiments["local_solvers"]["momentum"]]
    central = CELLS[CELLS["column"] == "centralized"]
    assert set(central["rounds"]) == {stated["fedopt"]["lr_decay"]["centralized_epochs"]}
    mime, table_2 = CELLS[CELLS["paper"] == "mime"], stated["mime"]["table2"]
    budgets = table_2["total_communication_per_round_model_sizes"]
    for label, own in mime.groupby("label"):
        assert set(own["rounds"]) == {table_2["rounds"]}
        assert set(own["budget"]) == {budgets[label.split()[0]]}
    sizes = stated["delta_sgd"]["table3"]
    uneven = CELLS[(CELLS["paper"] == "delta_sgd") & (CELLS["item"] == "Table 3")]
    ends = (sizes["examples_per_client_min"], sizes["examples_per_client_max"])
    assert set(uneven["given"].str["sizes"]) == {"{}-{}".format(*ends)}
    assert not any("draws" in given for given in uneven["given"])
    assert CELLS["options"].str["sizes_drawn"].dropna().eq(CELLS["item"] == "Table 3").sum() >= 16
