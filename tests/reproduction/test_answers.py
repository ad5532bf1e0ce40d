"""Requests of plans: each task loaded once, each run trained once, nothing trained twice."""

from fedlib.plans import Request, repeated
from fedlib.reproduction import answers
from fedlib.tasks import load_task
from tests.refusals import refused


def test_answers_come_in_order_and_each_task_is_loaded_once(store, trained):
    """Two tasks in turns, two seeds, a grid, and a run that is asked for twice.

    The curves differ in their cohorts, so that they never train together.
    """
    common = dict(options={"clients": 4}, rounds=2)
    curves = [
        Request("synthetic", "fedavg", "curves", clients_per_round=2, **common),
        Request("synthetic", "fedadam", "curves", clients_per_round=3, **common),
    ]
    cells = [
        Request("synthetic", "fedavg", "grid", {"client_lr": rate}, eval_every=0, **common)
        for rate in (0.1, 0.2)
    ]
    quadratic = Request("quadratic", "fedavg", "other", {"local_steps": 1}, rounds=1)
    requests = [cells[0], quadratic, *repeated(curves, 2), cells[1], curves[0]]
    loaded = []

    def load(name, **options):
        loaded.append((name, options["seed"]))
        return load_task(name, **options)

    histories = answers.answer(store, requests, "quick", load)
    assert loaded == [("synthetic", 0), ("synthetic", 1), ("quadratic", 0)]
    for request, history in zip(requests, histories, strict=True):
        config = history.config
        assert (config.task["name"], config.algorithm) == (request.task, request.algorithm)
        assert config.rounds == request.rounds and config.seeds["init"] == request.seed
        assert config.task["seed"] == request.seed
    assert [h.config.method["client"]["lr"] for h in (histories[0], histories[-2])] == [0.1, 0.2]
    assert histories[2].config.digest == histories[-1].config.digest
    digests = [digest for program in trained for digest in program]
    assert len(digests) == len(set(digests)) == 7
    assert len(trained) == 6  # the grid's cells together
    trained.clear()
    again = answers.answer(store, requests, "quick")
    assert [h.config.digest for h in again] == [h.config.digest for h in histories]
    assert not trained


def test_a_refused_request_says_so_before_anything_trains(store, trained):
    bad = [Request("quadratic", "fedavg", "a"), Request("quadratic", "fedavg", "a", {"tau": 1.0})]
    refused("unknown override for fedavg 'tau'", answers.answer, store, bad, "quick")
    refused("unknown override for fedavg 'tau'", answers.survey, bad, "quick")
    assert not trained
