"""A run that is stopped at any moment and taken up again equals the uninterrupted one."""

import hashlib
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

import fedlib
from fedlib.engine import checkpoint as checkpoint_module
from fedlib.engine import configure, execute
from fedlib.engine.checkpoint import Checkpoint, Deadline, Paused
from fedlib.engine.program import Program
from tests.refusals import refused
from tests.results.test_store import same


class Cut(Exception):
    pass


def cut_after(monkeypatch, rounds):
    """Let every program fail in the middle of the round after ``rounds`` of its own."""
    original = Program._advance
    left = [rounds]

    def advance(self, now, number):
        if not left[0]:
            self.training.round(now.alive, now.server, number)
            raise Cut
        left[0] -= 1
        original(self, now, number)

    monkeypatch.setattr(Program, "_advance", advance)


def interrupted(configured, folder, cuts):
    for rounds in cuts:
        with pytest.MonkeyPatch.context() as patch:
            cut_after(patch, rounds)
            with pytest.raises(Cut):
                execute(configured, checkpoint=folder, checkpoint_every=1)
    return execute(configured, checkpoint=folder, checkpoint_every=1)


class LateMomentum(fedlib.FedOpt):
    """Its state has more after the first round, among it numbers for all configurations."""

    version = "1"

    def server_update(self, server, mean):
        new, u = super().server_update(server, mean), mean["delta"] + 0.5 * server.get("u", 0)
        t = np.float64(server.get("t", 0) + 1)
        return new | {"x": server["x"] + u, "u": u, "t": t, "one": torch.ones(1), "who": "us"}


def test_checkpoints_that_take_long_to_write_take_a_twentieth_of_the_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(checkpoint_module.time, "monotonic", lambda: now[0])
    checkpoint = Checkpoint(tmp_path, [], None)

    def write(content, path, original=torch.save):
        original(content, path)
        now[0] += 10.0

    monkeypatch.setattr(torch, "save", write)
    for pause in (60.0, 200.0):
        now[0] += pause - 1
        assert not checkpoint.due(1)
        now[0] += 1
        assert checkpoint.due(1)
        checkpoint.save({})


@pytest.mark.parametrize("algorithm", ["fedadam", "scaffold", LateMomentum])
def test_a_grid_with_a_diverging_configuration_continues_bit_for_bit(algorithm, tmp_path):
    """And so does what SCAFFOLD's clients remember."""
    task = fedlib.load_task("synthetic", clients=8)
    how = {"rounds": 7, "eval_every": 4, "eval_last": 2, "clients_per_round": 5}
    cells = [{"client_lr": lr, "server_lr": 0.01} for lr in (0.01, 1e38, 0.1)]
    configured = [configure(task, algorithm, overrides=cell, **how) for cell in cells]
    whole = execute(configured)
    assert [history.diverged is None for history in whole] == [True, False, True]
    again = interrupted(configured, tmp_path / "state", (1, 3, 1))
    assert all(same(a, b) for a, b in zip(whole, again, strict=True))
    assert not any((tmp_path / "state").iterdir())


def test_other_configurations_and_damaged_files_are_not_taken_up(tmp_path, quadratic):
    first = configure(quadratic, "fedavg", rounds=6, overrides={"local_steps": 2})
    other = configure(quadratic, "fedavg", rounds=6, overrides={"local_steps": 3})
    with pytest.MonkeyPatch.context() as patch:
        cut_after(patch, 4)
        with pytest.raises(Cut):
            execute([first], checkpoint=tmp_path, checkpoint_every=1)
    (file,) = tmp_path.iterdir()
    assert same(execute([other])[0], execute([other], checkpoint=tmp_path)[0])
    whole = file.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 40).astype(int):  # a flipped bit, wherever it is
        flipped = whole[place] ^ 1
        file.write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
        refused(rf"{file.name} is damaged", execute, [first], checkpoint=tmp_path)
    file.write_bytes(whole[:100])
    refused(r"is damaged .*: delete it to start again", execute, [first], checkpoint=tmp_path)
    torch.save({"format": 1, "digests": []}, file)
    with open(file, "rb+") as sealed:
        sealed.write(hashlib.file_digest(sealed, "sha256").digest())
    refused(r"belongs to another run or version: delete it", execute, [first], checkpoint=tmp_path)
    refused("checkpoint_every is 0", execute, [first], checkpoint=tmp_path, checkpoint_every=0)


def test_no_round_begins_that_would_not_end_in_time(tmp_path, monkeypatch):
    """A round takes a second, one that is evaluated eleven: of a clock that only rounds move on."""
    task, now = fedlib.load_task("synthetic", clients=8), [0.0]
    configured = [configure(task, "scaffold", rounds=7, eval_every=3, clients_per_round=5)]
    whole = execute(configured)
    plain = Program._advance

    def advance(self, progress, number):
        plain(self, progress, number)
        now[0] += 11 if self.config.evaluates(number + 1) else 1
        progress.seconds = progress.done

    monkeypatch.setattr(Program, "_advance", advance)

    def lease(seconds):
        now[0] = 0.0
        deadline = Deadline(seconds, clock=lambda: now[0])
        return execute(configured, checkpoint=tmp_path, deadline=deadline)

    # Round 3 ends after 13 seconds, round 5 after 15; round 6, which is evaluated, takes 11.
    # What a round took before the checkpoint is known, not what its evaluation did.
    for seconds, done, spent in ((25.9, 5, 15), (0.9, 5, 0), (1.1, 6, 11)):
        with pytest.raises(Paused, match=f"{done} of 7 rounds"):
            lease(seconds)
        assert now[0] == spent
    with pytest.raises(Paused, match="no time is left"):
        lease(0)
    again = lease(11)
    assert same(whole[0], again[0]) and not any(tmp_path.iterdir())


SCRIPT = """
import sys, torch, fedlib
torch.set_num_threads(1)
task, said = fedlib.load_task("synthetic", clients=10), []
first = lambda _: None if said else said.append(print("a round is done", flush=True))
fedlib.run(task, "fedadam", callback=first, rounds=10**6, checkpoint=sys.argv[1])
"""


@pytest.mark.slow
def test_a_terminated_process_saves_its_state_and_says_so(tmp_path):
    command, pipe = [sys.executable, "-c", SCRIPT, str(tmp_path / "s")], subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert "stopped after round" in errors and len(list((tmp_path / "s").iterdir())) == 1
