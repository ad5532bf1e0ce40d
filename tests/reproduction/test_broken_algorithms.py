"""Claims that hold on small problems, and that broken algorithms lose: trains for many minutes."""

import os
from dataclasses import replace

import pytest
import torch

from fedlib.algorithms.adafedadam import AdaFedAdam
from fedlib.algorithms.two_phase import TwoPhase
from fedlib.optimizers import server
from fedlib.optimizers.mime import Momentum
from fedlib.reproduction import claims
from fedlib.reproduction.evidence import HOLDS
from fedlib.results import Store


def uniform(optimizer, v, square):
    """A second moment that is the same for all coordinates: adaptivity taken away."""
    moment = optimizer.beta2 * v + (1 - optimizer.beta2) * square
    return moment.mean(-1, keepdim=True).expand_as(moment)


def ascending(optimizer, x, g, state):
    """A server step in the wrong direction."""
    return x + optimizer.lr * g, state


def uphill(self, x, g, state, step=server.Adaptive.step):
    """The adaptive servers' step in the wrong direction."""
    after, state = step(self, x, g, state)
    return 2 * x - after, state


def momentum(self, x, g, state, step=server.Adaptive.step):
    """The adaptive servers' step without their second moment."""
    state = step(self, x, g, state)[1]
    return x - self.lr * state["m"] / 0.01, state


def backwards(self, server, mean, update=AdaFedAdam.server_update):
    """AdaFedAdam's server, walking uphill."""
    return update(self, server, {**mean, "g": -mean["g"]})


def away(self, server, mean, moved=TwoPhase.moved):
    """Mime's server step in the wrong direction."""
    return 2 * server["x"] - moved(self, server, mean)


def no_momentum(self, s):
    """Mime's local steps without the momentum."""
    return 1.0, 0.0


STEP = (server.Adaptive, "step")
# Claim -> the notebook that is run, what is broken and by what.
BROKEN = {
    "fedopt-sparse-lr": ("16_stackoverflow_lr", server.Adam, "second_moment", uniform),
    "fedopt-sparse-nwp": ("15_stackoverflow_nwp", server.Adam, "second_moment", uniform),
    "fedopt-dense-equal": ("12_emnist_cr", server.SGD, "step", ascending),
    "fedopt-cifar100": ("11_cifar100", *STEP, uphill),
    "fedopt-tau": ("31_tau", *STEP, uphill),
    "fedopt-inverse-rates": ("32_client_server_lr", *STEP, momentum),
    "ada-best": ("21_fair_cifar10", AdaFedAdam, "server_update", backwards),
    "mime-beats": ("38_mime_ablation", TwoPhase, "moved", away),
    "mime-momentum": ("38_mime_ablation", Momentum, "linear", no_momentum),
}


@pytest.mark.skipif(os.environ.get("FEDLIB_CLAIMS") != "all", reason="opt-in: FEDLIB_CLAIMS=all")
@pytest.mark.parametrize("id", BROKEN)
def test_a_broken_algorithm_does_not_show_what_the_paper_claims(id, tmp_path, monkeypatch):
    notebook, owner, name, broken = BROKEN[id]
    evidence = claims.EVIDENCE[id]
    alone = replace(evidence, sources={notebook: evidence.sources[notebook]})
    monkeypatch.setitem(claims.EVIDENCE, id, alone)
    monkeypatch.setattr(owner, name, broken)
    torch.set_num_threads(2)
    store = Store(tmp_path / "runs", published=[])
    (judged,) = claims.judge([id], "quick", store, train=True, progress=False)
    assert judged.verdict != HOLDS, judged.frame().to_string()
