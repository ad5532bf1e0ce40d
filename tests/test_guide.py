"""The pages of docs/guide run as they stand, and the methods on them are their papers'."""

import ast
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import fedlib
from tests.algorithms.quadratics import cohort, descend, end, problem

GUIDE = Path(__file__).resolve().parents[1] / "docs" / "guide"
M, D = 6, 4
ROBUST = ("Attacked", "Median", "Trimmed", "Krum")


def ran(page, parts=slice(None), of="", instead=""):
    """The names that a page's Python examples leave, with a part in place of another; each of them
    is short."""
    text = (GUIDE / f"{page}.md").read_text(encoding="utf-8")
    assert of in text
    text = text.replace(of, instead)
    names = {"__name__": "__main__"}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL)[parts]:
        statements = [node for node in ast.walk(ast.parse(example)) if isinstance(node, ast.stmt)]
        imports = [node for node in statements if isinstance(node, (ast.Import, ast.ImportFrom))]
        assert len(statements) - len(imports) <= 30
        exec(compile(example, page, "exec", dont_inherit=True), names)
    return names


def test_digits_in_a_cnn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ran("digits_in_a_cnn")
    for run in names["runs"]:
        assert run.series().iloc[-1] > 0.5 > 0.2 > run.series().iloc[0]
    confusions = names["confusions"]
    accuracy = names["runs"][0].series().iloc[-1]
    assert np.trace(confusions) / 297 == pytest.approx(accuracy)  # the guide's model is the run's


def test_gru_on_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ran("gru_on_text")
    confusions = names["confusions"]  # better than always the most frequent one
    assert np.trace(confusions) > confusions.sum(axis=1).max()


def test_recipes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = ran("recipes")
    for name in ("patients", "of_pets", "segmented"):  # of a table, of a folder, of masks
        losses = fedlib.run(made[name], "fedavg", rounds=8, client_lr=0.1).series("loss")
        assert 0 < losses.iloc[-1] < losses.iloc[0]
    task, run = made["task"], partial(fedlib.run, rounds=8, client_lr=0.3)
    assert len(made["scores"]) == 5 and made["scores"][-1][0] > 0.8
    assert made["second"].series("loss")[0] == made["first"].series("loss").iloc[-1]
    counts = made["some"].series("floats_up", "communication")
    assert set(counts / 12) <= {0, 1, 2, 3, 4} and counts.nunique() > 1
    assert set(made["choice"].series("floats_up", "communication") / 12) == {2}
    last = made["choice"].clients.query("metric == 'loss'").nlargest(2, "value")["client"]
    assert {made["train"].ids[client] for client in made["worst"][5]} == {*last}
    assert made["slow"].series("loss").iloc[-1] < made["slow"].series("loss").iloc[0]
    assert run(replace(task, model=made["Finetuned"]), "fedavg").diverged is None
    assert made["clipped"].query("round == 5 and metric == 'accuracy'")["value"].nunique() == 2
    images = torch.arange(2 * 40 * 3.0).view(2, 40, 1, 1, 3) * 255
    keys = torch.arange(80).view(2, 40)
    turned = (made["flipped"](images, keys) != made["flipped"](images, None))[..., 0].float().mean()
    assert 0.3 < turned < 0.7
    # The attacker holds a part of the examples, which a mean counts.
    robust = {name: run(task, made[name]) for name in ROBUST}
    losses = {name: history.series("loss").iloc[-1] for name, history in robust.items()}
    assert all(losses[name] < losses["Attacked"] for name in ROBUST[1:])
    tuned, personal = made["tuned"], run(task, made["FedPer"]).clients
    assert set(tuned["client"]) == {"zoe", "ann", "bob", "eve"}
    assert {"test", "personal"} == set(personal["split"])


def numpy_feddyn(seed, rounds, size, steps, client_lr, alpha):
    """Algorithm 1 of Acar et al. by gradient steps, with a dictionary of clients' gradients."""
    A, b, _, x = problem(seed)
    g = {k: np.zeros(D) for k in range(M)}
    h = np.zeros(D)
    for t in range(rounds):
        sampled = cohort(seed, t, size)
        ends = {}
        for k in sampled:
            own = A[k] + alpha * np.eye(D), b[k] + g[k] + alpha * x
            ends[k] = descend(*own, x, steps[k], client_lr)
            g[k] = g[k] - alpha * (ends[k] - x)
        h = h - alpha / M * sum(ends[k] - x for k in sampled)
        x = sum(ends.values()) / len(sampled) - h / alpha
    return x


@pytest.mark.parametrize("size", [2, 6])
def test_feddyn_equals_numpy(size, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ran("feddyn") if size == 6 else ran("feddyn", slice(1))
    assert all(run.diverged is None for run in names.get("runs", ()))
    method = names["FedDyn"]
    steps = [1, 2, 3, 4, 2, 2]
    for seed, alpha in ((0, 0.5), (1, 2.0)):
        A, b, weights, x0 = problem(seed)
        task = fedlib.quadratic_task(A, b, weights, x0)
        how = {"seed": seed, "size": size, "local_steps": steps}
        ours = end(task, method(client_lr=0.05, alpha=alpha), 25, **how)
        assert np.abs(ours - numpy_feddyn(seed, 25, size, steps, 0.05, alpha)).max() < 1e-9


def numpy_fedexp(seed, rounds, size, steps, client_lr, eps):
    """Algorithm 1 of Jhunjhunwala et al., without its average of the last two models."""
    A, b, _, x = problem(seed)
    for t in range(rounds):
        sampled = cohort(seed, t, size)
        deltas = [x - descend(A[k], b[k], x, steps[k], client_lr) for k in sampled]
        mean = sum(deltas) / len(deltas)
        rate = sum(d @ d for d in deltas) / (2 * len(deltas) * (mean @ mean + eps))
        x = x - max(1.0, rate) * mean
    return x


@pytest.mark.parametrize("eps", [1e-3, 1e-1])
def test_fedexp_equals_numpy(eps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ran("fedexp")
    assert (tmp_path / "fedexp.png").is_file()
    steps = [1, 2, 3, 4, 2, 2]
    for seed, size in ((0, 3), (1, 6)):
        A, b, weights, x0 = problem(seed)
        task = fedlib.quadratic_task(A, b, weights, x0)
        method = names["FedExP"](client=fedlib.SGD(lr=0.05), eps=eps)
        ours = end(task, method, 15, seed=seed, size=size, local_steps=steps)
        assert np.abs(ours - numpy_fedexp(seed, 15, size, steps, 0.05, eps)).max() < 1e-9


def test_dp_fedavg_clips_as_numpy_and_its_noise_has_its_size():
    names = ran("dp_fedavg")
    method, size, clip = names["DPFedAvg"], 3, 0.02
    A, b, weights, x0 = problem(0)
    task = fedlib.quadratic_task(A, b, weights, x0)
    without = method(client=fedlib.SGD(lr=0.05), clip=clip, noise=0.0)
    ours = end(task, without, 10, seed=0, size=size, local_steps=[2] * M)
    x = x0
    for t in range(10):
        deltas = [descend(A[k], b[k], x, 2, 0.05) - x for k in cohort(0, t, size)]
        x = x + sum(d * min(1, clip / np.linalg.norm(d)) for d in deltas) / size
    assert np.abs(ours - x).max() < 1e-9 and np.linalg.norm(x - x0) > clip
    # Clients that do not move: the model is the sum of the noise of nine rounds.
    still = method(client=fedlib.SGD(lr=0.0), clip=2.0, noise=0.5)
    task = fedlib.load_task("synthetic")
    runs = [fedlib.run(task, still, rounds=n, clients_per_round=50, seed=1) for n in (0, 9)]
    moved = np.concatenate(
        [(runs[1].params[n] - p).numpy().ravel() for n, p in runs[0].params.items()]
    )
    assert moved.std() == pytest.approx(0.5 * 2.0 / 50 * 3, rel=0.1) and len(moved) == 610


def test_diloco_equals_torchs_adamw_and_nesterov():
    names = ran("diloco", slice(1))
    A, b, weights, x0 = problem(0)
    task = fedlib.quadratic_task(A, b, weights, x0)
    inner = names["AdamW"](lr=0.03, weight_decay=0.2)
    method = fedlib.FedOpt(client=inner, server=names["Nesterov"](lr=0.5, momentum=0.8))
    ours = end(task, method, 6, seed=0, size=M, local_steps=[3] * M)
    A, b = torch.tensor(A), torch.tensor(b)
    share = torch.tensor(weights / np.sum(weights))
    x = torch.tensor(x0, requires_grad=True)
    outer = torch.optim.SGD([x], lr=0.5, momentum=0.8, nesterov=True)
    workers = [x.detach().clone().requires_grad_() for _ in range(M)]
    inners = [torch.optim.AdamW([y], lr=0.03, weight_decay=0.2) for y in workers]
    for _ in range(6):
        for k, (y, optimizer) in enumerate(zip(workers, inners, strict=True)):
            y.data.copy_(x.data)
            for _ in range(3):
                y.grad = (A[k] @ y - b[k]).detach()
                optimizer.step()
        x.grad = x.detach() - sum(share[k] * workers[k].detach() for k in range(M))
        outer.step()
    assert np.abs(ours - x.detach().numpy()).max() < 1e-9


def test_dilocos_gpt_learns_in_a_grid():
    names = ran("diloco", of="client_lr=[3e-3, 1e-2]", instead="client_lr=[1e-2]")
    rounds = names["frame"].query("metric == 'accuracy' and split == 'test'").set_index("round")
    assert rounds["value"][5].min() > 2 * rounds["value"][0].max()
    model, x = names["GPT"](90, 20), torch.randint(90, (3, 20))
    later = x.clone()
    later[:, 12:] = 5
    assert torch.equal(model(x)[:, :12], model(later)[:, :12])  # no position sees a later one
