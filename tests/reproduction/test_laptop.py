"""The laptop preset: every task of every plan trains, and only what is too long is cut."""

import pytest

import fedlib
from fedlib import plans, tasks

# As few data as these tasks can have; what a laptop cuts, networks and words, stays.
FEW = {
    **{"clients": 5, "examples": 200, "sizes": 20, "rows": 2, "cap": 10, "validation": 50},
    **{"examples_per_client": 20, "test_clients": 3, "test_examples": 60},
}


TRAINED = set()  # several notebooks have the same tasks


@pytest.mark.parametrize("notebook", plans.planned())
def test_a_laptop_trains_two_rounds_of_every_task_of_a_notebook(notebook, prepared):
    prepared()
    firsts = {}
    for request in plans.requests(notebook, "laptop"):
        firsts.setdefault(request.task, request)
    for name, request in firsts.items():
        known = tasks.defaults(name, tasks.scale(name, "laptop"))
        few = {key: value for key, value in FEW.items() if key in known}
        options = {**request.task_options("laptop"), **few}
        if (name, repr(options)) in TRAINED:
            continue
        TRAINED.add((name, repr(options)))
        task = fedlib.load_task(name, **options)
        assert task.preset == tasks.scale(name, "laptop")
        settings = request.settings(2) | {"rounds": 2, "eval_every": 2, "clients_per_round": 2}
        history = fedlib.run(task, settings.pop("algorithm"), **settings)
        assert len(history.series("loss", "train")) == 2 or history.diverged
