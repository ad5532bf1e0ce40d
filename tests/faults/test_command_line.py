"""Whatever stands on the command line: done, or exit status 2 and one line; never a traceback."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedlib import engine
from fedlib.reproduction import reproduce
from tests.faults.campaign import case, examples

# Values that are none, or of another kind than most options'.
BAD = "x -1 0 1.5 nan inf -inf 1e999 true none [1] [[1]] {} None,None a=b é -- %s ../..".split()
BAD += ["", " ", "\t", "\u2028", "\ud800", '{"a": 1}', "/dev/null", "/etc/passwd"]
BAD += ["9" * 30, "-" + "9" * 30, "9" * 5000, "[" * 5000]
PAIRS = ["", "=", "=1", "x", "x=1", *(f"rounds={value}" for value in BAD)]
RUN = ["quadratic", "fedavg", "--rounds=1", "--set", "local_steps=1"]
TRAINING = "--preset --seed --device --backend --dtype --set --option"
PLANS = "--preset --seed -p -p=rounds="
# A right command, and its options with values; "|" is an argument.
COMMANDS = [
    (["list"], "--data-root"),
    (["data", "list", "--verify"], "--data-root"),
    (["data", "prepare", "sent140"], "--from --data-root"),
    (["data", "import", "own", "none.npz"], "--data-root"),
    (["run", *RUN], f"{TRAINING} --rounds --eval-every --clients-per-round --data-root"),
    (["grid", *RUN[:2], "client_lr=1", *RUN[2:]], f"{TRAINING} |"),
    (["sweep", "23", "--dry-run"], f"{PLANS} --part --shard --executor --jobs"),
    (["publish", "23"], f"{PLANS} --part --name"),
    (["reproduce", "23"], "--preset -p -p=rounds= -p=seed= --jobs"),
    (["figures", "fedopt/figure_1"], "--data-root |"),
    (["compare", "fedopt"], "--data-root |"),
    (["claims", "fedopt-cifar10", "--printed"], "--preset --seed --device --data-root |"),
    (["doctor"], "--device --data-root |"),
]


def lines():
    """Every command with every option and every bad value."""
    for words, options in COMMANDS:
        for option in options.split():
            name, _, key = option.partition("=")
            for value in PAIRS if option in ("--set", "--option", "-p") else BAD:
                yield [*words, *([] if name == "|" else [name]), key + value]


@pytest.fixture(autouse=True)
def nothing_long(monkeypatch, tmp_path):
    """Neither training, nor notebooks, nor waiting for a network: only what comes before."""
    monkeypatch.setattr(engine, "execute", _refuse)
    monkeypatch.setattr(reproduce, "_execute", _refuse)
    monkeypatch.setattr("fedlib.engine.program.Program.__init__", _refuse)


class Fine(BaseException):
    """What was asked is right."""


def _refuse(*_, **__):
    raise Fine


LINES = list(lines())


@given(st.sampled_from(LINES))
@examples(every=len(LINES), few=100)
def test_no_value_of_any_option_gives_a_traceback(command, words):
    with case(" ".join(words)[:120]):
        try:
            status, _, err = command(*words)
        except Fine:
            return
        assert status in (0, 1, 2), status
        assert not status or (err.count("\n") == 1 and err.startswith("fedlib: ")), err[:300]
