"""Named algorithms: hyperparameters in the papers' words become parts."""

import pytest

import fedlib
from fedlib import algorithms
from tests.refusals import refused

# What the papers print, or their code has, where the comparisons with NumPy do not rest on it.
SERVER_LR = {"fedadagrad": 0.1, "fedadam": 0.01, "fedyogi": 0.01, "lookahead": 0.5}
SERVER_LR |= {"adafedadam": 1e-3, "n_accadam": 1e-3}
OTHERS = {"fedprox": {"mu": 0.01}, "adaalter": {"eps": 1.0, "v0": 1.0}}
OTHERS |= {name: {"base": "sgd", "lean": False} for name in ("mime", "mimelite", "loc_mime")}
OTHERS |= {name: {"momentum": 0.9, "split": False} for name in ("mime_mvr", "mimelite_mvr")}
MEASURING = ("mime", "loc_mime", "mime_mvr", "mimelite_mvr", "qfedavg", "adafedadam")
REMEMBERING = ("scaffold", "moon", "adafedadam")


@pytest.mark.parametrize("name", fedlib.list_algorithms())
def test_defaults_of_a_named_algorithm_are_the_papers(name):
    known, built = algorithms.hyperparameters(name), algorithms.build(name)
    assert algorithms.build(name, **known) == built
    assert (known["client_lr"], known.get("client_schedule", "constant")) == (0.1, "constant")
    assert known.get("client_optimizer", "sgd") == "sgd"
    assert known.get("server_lr", 1.0) == SERVER_LR.get(name, 1.0)
    assert OTHERS.get(name, {}).items() <= known.items()
    # The others' clients neither go through all of their data before a round nor keep anything.
    assert (built.measures, built.remembers) == (name in MEASURING, name in REMEMBERING)


WITHOUT_OPTIMIZER = "fednova n_accadam scaffold adaalter centralized mime mimelite loc_mime".split()
WITHOUT_OPTIMIZER += ["mime_mvr", "mimelite_mvr"]


@pytest.mark.parametrize("name", fedlib.list_algorithms())
def test_methods_that_define_the_clients_steps_take_no_other_optimizer(name):
    if name not in WITHOUT_OPTIMIZER:
        assert algorithms.build(name, client_optimizer="adam").client == fedlib.client.Adam()
        return
    message = f"{name} defines the clients' steps itself"
    refused(message, algorithms.build, name, client_optimizer="adam")


# What a client receives and sends, in models; in halves also what one that only measures does.
SENT = [
    ("fedavg", {}, (1, 1)),
    ("centralized", {}, (0, 0)),
    ("scaffold", {}, (2, 2)),
    ("adaalter", {}, (2, 2)),
    ("lookahead", {}, (1, 1)),
    ("lookahead", {"client_optimizer": "sgdm"}, (2, 2)),
    ("lookahead", {"client_optimizer": "adam"}, (3, 3)),
    ("lookahead", {"client_optimizer": "adam", "reset": True}, (1, 1)),
    ("mimelite", {"base": "sgd", "split": True}, (1, 1)),
    ("mimelite", {"base": "momentum"}, (2, 2)),
    ("mimelite", {"base": "adam"}, (3, 2)),
    ("mime", {"base": "sgd"}, (2, 2)),
    ("mime", {"base": "adam"}, (4, 2)),
    ("mimelite", {"base": "momentum", "split": True}, (2, 1, 2, 1)),
    ("mime", {"base": "adam", "split": True}, (4, 1, 4, 1)),
    ("mime", {"base": "adam", "split": True, "lean": True}, (4, 1, 1, 1)),
    ("mime_mvr", {}, (4, 3)),
    ("mimelite_mvr", {}, (3, 3)),
    ("mime_mvr", {"split": True}, (4, 1, 4, 2)),
    ("mime_mvr", {"split": True, "lean": True}, (3, 1, 2, 2)),
    ("mimelite_mvr", {"split": True, "lean": True}, (2, 1, 2, 2)),
]


@pytest.mark.parametrize(("name", "given", "models"), SENT)
def test_what_is_sent(name, given, models):
    method = algorithms.build(name, **given)
    sent = method.communication(10) + (method.measure_communication(10) if method.halves else ())
    assert sent == tuple(10 * count for count in models)


BUDGETS = [
    ("fedavg", {}, {40: 20, 100: 50, 2: 1, 3.9: 1}),
    ("scaffold", {}, {40: 10}),
    ("mimelite", {"base": "momentum", "split": True, "lean": True}, {40: 16}),
    ("mimelite", {"base": "adam", "split": True, "lean": True}, {40: 13}),
    ("mime", {"base": "adam", "split": True}, {40: 8, 100: 20, 10: 2, 14.9: 2, 15: 3}),
    ("mime", {"base": "adam", "split": True, "lean": True}, {40: 11}),
]


@pytest.mark.parametrize(("name", "given", "clients"), BUDGETS)
def test_clients_that_a_budget_pays_for(name, given, clients):
    method = algorithms.build(name, **given)
    assert {b: fedlib.clients_for_budget(method, b) for b in clients} == clients


MISTAKES = [
    (lambda: algorithms.build("fedavg", tau=0.8), "unknown override for fedavg 'tau'"),
    (lambda: algorithms.build("fedavg", clip=1.0), "is of client_optimizer='clipped_sgd'"),
    (lambda: fedlib.Centralized(client_lr=-0.1), r"lr is -0\.1 .allowed: a finite number >= 0"),
    (lambda: fedlib.AdaFedAdam(client=fedlib.DeltaSGD()), "rate, but DeltaSGD has none"),
    (lambda: fedlib.AdaFedAdam(form="paper"), "unknown form 'paper'"),
    (lambda: fedlib.QFedAvg(client=fedlib.DeltaSGD()), "L is None.*DeltaSGD has none"),
    (lambda: fedlib.QFedAvg(client=fedlib.SGD(lr=0)), "client_lr .of q-FedAvg without L. is 0"),
    (lambda: fedlib.Lookahead(server=fedlib.server.Adam()), "server of Lookahead is 'Adam'"),
    (lambda: fedlib.Lookahead(client=fedlib.SGDM(momentum_state="client")), "Lookahead sends"),
    (lambda: fedlib.SGDM(momentum_state="forever"), "unknown momentum_state 'forever'"),
    (lambda: fedlib.clients_for_budget(fedlib.Mime(split=True), 5.9), "at least 6 .* 2 clients"),
    (lambda: fedlib.clients_for_budget(fedlib.Centralized(), 40), "Centralized sends nothing"),
    (lambda: fedlib.clients_for_budget(fedlib.FedOpt(), -1), "budget is -1"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_parts_that_do_not_fit_are_refused_in_one_line(call, message):
    refused(message, call)


def test_parts_are_taken_in_the_order_of_the_signatures():
    sgd, adam = fedlib.SGD(0.5), fedlib.server.Adam(0.05)
    assert fedlib.FedOpt(sgd, adam) == fedlib.FedOpt(client=sgd, server=adam)
    assert fedlib.Scaffold(0.5, 0.2) == fedlib.Scaffold(client_lr=0.5, server_lr=0.2)
    assert fedlib.AdaFedAdam(0.01).lr == 0.01 and fedlib.QFedAvg(2.0).q == 2.0
    assert fedlib.Moon() == algorithms.build("moon").objective == fedlib.Moon(1.0, 0.5)


def test_a_client_optimizer_of_the_methods_own_kind_keeps_its_numbers():
    method = fedlib.FedOpt(client=fedlib.SGDM(lr=0.3, momentum=0.8))
    same = algorithms.build(method, client_optimizer="sgdm", client_lr=0.2)
    assert same.client == fedlib.SGDM(lr=0.2, momentum=0.8)
    assert algorithms.hyperparameters(method, "sgdm")["momentum"] == 0.8
    assert algorithms.build(method, client_optimizer="sgd").client == fedlib.SGD()
