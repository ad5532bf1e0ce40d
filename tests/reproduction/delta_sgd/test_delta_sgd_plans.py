"""Delta-SGD's plans: the paper's settings for every run, and runs that notebooks share."""

import dataclasses
from collections import Counter

import pytest

from fedlib import algorithms, papers
from fedlib.errors import Error
from fedlib.reproduction import experiments
from fedlib.reproduction.delta_sgd.runs import CLIENTS, IMAGES, RESNETS
from fedlib.tasks import settings

IMAGES_BOOK, TEXT_BOOK = "26_autotuned_images", "27_autotuned_text"
ABLATION = "39_delta_sgd_ablation"


def paper(notebook, **numbers):
    return experiments.plan(notebook, "paper", **numbers)


def key(request):
    """What makes a run, without the part that it is for."""
    own = dataclasses.asdict(request)
    own.pop("part")
    return repr(sorted(own.items()))


def test_table_1_is_every_task_alpha_and_client_optimizer_once():
    requests = experiments.choose(paper(IMAGES_BOOK), "table")
    printed = papers.table("delta_sgd", "table1")
    assert len(requests) == len(printed) == 120
    cells = Counter((r.task, r.options["alpha"]) for r in requests)
    assert set(cells) == {(task, alpha) for task in IMAGES for alpha in printed["alpha"].unique()}
    assert set(cells.values()) == {printed["optimizer"].nunique()}
    for request in requests:
        assert request.options == {"alpha": request.options["alpha"]}, "the paper's own sizes"
        assert (request.rounds, request.clients_per_round) == (None, None)
        assert "client_lr" not in request.overrides, "nothing is tuned again"


def test_the_grids_are_the_printed_ones_on_the_one_tuned_task():
    requests = experiments.choose(paper(IMAGES_BOOK), "tuning")
    rates = {}
    for request in requests:
        assert (request.task, request.options["alpha"]) == ("cifar10_resnet18", 0.1)
        optimizer = request.overrides["client_optimizer"]
        rates.setdefault(optimizer, []).append(request.overrides["client_lr"])
    assert rates == {
        "sgd": [0.01, 0.05, 0.1, 0.5],
        "sgdm": [0.01, 0.05, 0.1, 0.5],
        "adam": [0.001, 0.01, 0.1],
        "adagrad": [0.001, 0.01, 0.1],
    }
    for optimizer, values in settings.delta_sgd_clients().items():
        assert values.get("client_lr") in rates.get(optimizer, [None])


def test_text_has_both_tasks_with_all_clients():
    requests = paper(TEXT_BOOK)
    assert Counter(r.task for r in requests) == {"ag_news": 8, "dbpedia": 8}
    assert all(r.options == {} and r.rounds is None for r in requests)


def test_the_ablations_are_complete():
    requests = paper(ABLATION)
    assert Counter(r.part for r in requests) == {
        **{"delta": 27, "epochs": 9, "seeds": 72, "fedprox": 40, "fedavg": 40},
        **{"sizes": 16, "fedadam": 32, "moon": 8},
    }
    by_part = {r.part: r for r in requests}
    assert by_part["sizes"].options == {"alpha": 0.1, "sizes": "100-500"}
    assert by_part["fedprox"].options["alpha"] == 0.01
    algorithm = {part: by_part[part].algorithm for part in ("fedprox", "fedadam", "moon")}
    assert algorithm == {part: part for part in algorithm}
    seeds = Counter(r.seed for r in requests if r.part == "seeds")
    assert seeds == {0: 24, 1: 24, 2: 24}
    epochs = {r.overrides["local_epochs"] for r in requests if r.part == "epochs"}
    deltas = {r.overrides["delta"] for r in requests if r.part == "delta"}
    assert (epochs, deltas) == ({1, 2, 3}, {0.01, 0.1, 1.0})


@pytest.mark.parametrize("preset", ["paper", "quick"])
def test_the_ablations_share_table_1s_runs(preset):
    if preset == "quick":
        pytest.importorskip("yaml")
    known = {key(r) for r in experiments.plan(IMAGES_BOOK, preset)}
    ablation = experiments.plan(ABLATION, preset)
    first = [r for r in ablation if r.part == "seeds" and r.seed == 0]
    plain = [r for r in ablation if r.part == "fedavg"]
    assert {key(r) for r in [*first, *plain]} <= known


def test_one_epoch_and_delta_one_tenth_are_delta_sgds_own():
    own = settings.delta_sgd_clients()["delta_sgd"]
    plain = algorithms.build("fedavg", client_optimizer="delta_sgd", **own)
    again = algorithms.build("fedavg", client_optimizer="delta_sgd", **{**own, "delta": 0.1})
    other = algorithms.build("fedavg", client_optimizer="delta_sgd", **{**own, "delta": 1.0})
    assert plain == again != other


def test_a_curve_has_about_a_hundred_points():
    every = {r.task: r.eval_every for r in paper(IMAGES_BOOK)}
    assert every == {"mnist": 5, "fashion_mnist": 10, **dict.fromkeys(RESNETS, 20)}
    assert {r.eval_every for r in paper(IMAGES_BOOK, rounds=7, resnet_rounds=50)} == {1}
    assert not any(r.keeps for r in paper(IMAGES_BOOK)), "ResNets' parameters fill disks"


def test_numbers_make_it_small():
    requests = paper(
        IMAGES_BOOK, resnet_alphas=[0.1], resnet_optimizers=["sgd"], resnet_sizes=8, width=0.5
    )
    table = experiments.choose(requests, "table")
    assert Counter(r.task in RESNETS for r in table) == {False: 48, True: 3}
    for request in table:
        small = request.options.get("sizes"), request.options.get("width")
        assert small == ((8, None) if request.task in RESNETS else (None, 0.5))


def test_an_unknown_client_optimizer_is_refused():
    with pytest.raises(Error, match="sgd_decay"):
        paper(ABLATION, optimizers=["adamw"])
    assert "adamw" not in CLIENTS
