"""The checks of the assignments, by session. They compare answers with fedlib itself.

A student's folder has a copy. An error is one line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

import numpy as np
import pandas as pd
import torch

import fedlib
from fedlib import base, losses, partition, server
from fedlib.engine import fairness, run
from fedlib.reproduction.evidence import FAILS, HOLDS, OPEN, Statement

# A function that a student writes.
Function = Callable[..., Any]


class Wrong(AssertionError):
    """A function is wrong. The message is one line."""


def expect(condition: bool, message: str) -> None:
    """Raise :class:`Wrong` with this message unless the condition holds."""
    if not condition:
        raise Wrong(message)


def same(what: str, given: Any, expected: Any, hint: str = "") -> None:
    """Raise :class:`Wrong` unless two arrays agree in shape and, to eight digits, in values.

    Args:
        what: name of the compared array, for instance ``"x after round 2"``.
        given: the array of the student's function, anything that NumPy takes for numbers.
        expected: the right array.
        hint: added to the message.
    """
    ending = f" ({hint})" if hint else ""
    expect(given is not None, f"{what} is None: return it{ending}")
    try:
        numbers = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        raise Wrong(f"{what} is {type(given).__name__}, not numbers{ending}") from None
    right = np.asarray(expected, dtype=float)
    shapes = numbers.shape == right.shape
    expect(shapes, f"{what} has shape {numbers.shape}, not {right.shape}{ending}")
    agree = np.allclose(numbers, right, rtol=1e-8, atol=1e-10, equal_nan=True)
    expect(agree, f"{what} is {_line(numbers)}, not {_line(right)}{ending}")


def fedlibs_x(task: fedlib.Task, method: Any, rounds: int = 1, **values: Any) -> np.ndarray:
    """fedlib's x of a quadratic task after some rounds of a method with these overrides."""
    history = run(task, method, rounds=rounds, device="cpu", dtype="float64", overrides=values)
    return np.asarray(history.params["x"])


def results(what: str, given: Any, names: str) -> tuple[Any, ...]:
    """A function's results. Raise :class:`Wrong` unless there is one for each of the names."""
    count = len(names.split(","))
    several = isinstance(given, tuple) and len(given) == count
    expect(several, f"{what} must return {count} values: {names}")
    return tuple(given)


def _line(numbers: np.ndarray) -> str:
    text = np.array2string(numbers, precision=6, threshold=8, edgeitems=3)
    return " ".join(text.split())


def said(check: Function) -> Function:
    """The check, which prints a line when a student's function passes it."""

    @wraps(check)
    def checked(*given: Any, **settings: Any) -> None:
        check(*given, **settings)
        name = getattr(given[0], "__name__", check.__name__)
        print(f"{name}: passes this check")

    return checked


# All sessions: predictions, questions, and the verdict of an experiment.


@said
def prediction(given: Any, count: int, low: float, high: float) -> None:
    """Require ``count`` numbers in a range. They need not be right."""
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    expect(listed, f"prediction: give a list of {count} numbers")
    for number in given:
        known = isinstance(number, (int, float)) and not isinstance(number, bool)
        inside = known and low <= number <= high
        expect(inside, f"prediction: {number!r} is not a number from {low:g} to {high:g}")


@said
def orders(given: Any, count: int, letters: str) -> None:
    """Require ``count`` orders of some letters, as texts. They need not be right."""
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    expect(listed, f'prediction: give a list of {count} texts such as "{letters}"')
    for text in given:
        expect(
            sorted(text) == sorted(letters), f"prediction: {text!r} is not an order of {letters}"
        )


@said
def quiz(given: Any, count: int, allowed: str) -> None:
    """Require an answer to each question, right or wrong."""
    listed = isinstance(given, Sequence) and not isinstance(given, str) and len(given) == count
    expect(listed, f'quiz: give a list of {count} letters, such as ["a", "b"]')
    for letter in given:
        known = isinstance(letter, str) and letter in tuple(allowed)
        expect(known, f"quiz: {letter!r} is not one of {', '.join(allowed)}")


@said
def verdict(margins: Any, given: Any) -> None:
    """Require the verdict that notebook 91's rule gives for three or more margins."""
    numbers = np.asarray(margins, dtype=float)
    usable = numbers.ndim == 1 and len(numbers) >= 3 and bool(np.isfinite(numbers).all())
    expect(usable, "margins: give a list of finite numbers, one for each of at least three seeds")
    words = ("holds", "does not hold", "not resolved")
    expect(given in words, f"verdict is {given!r} (allowed: {', '.join(words)})")
    mean, spread = numbers.mean(), numbers.std(ddof=1)
    right = OPEN if spread > abs(mean) else HOLDS if mean >= 0 else FAILS
    expect(given == right, f"mean {mean:.3g} and spread {spread:.3g} do not give {given!r}")


# Session 1: the label skew of a partition, and a Dirichlet partition.


@said
def label_skew(function: Function, seed: int = 0, *, balanced: bool = True) -> None:
    """``label_skew(labels, parts)`` against :func:`fedlib.partition.total_variation`."""
    draw = np.random.default_rng(seed)
    shares = np.full(5, 0.2) if balanced else np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    labels = draw.permutation(np.repeat(np.arange(5), (200 * shares).astype(int)))
    ends = np.sort(draw.choice(np.arange(1, 200), 6, replace=False))
    parts = np.split(draw.permutation(200), ends)
    hint = "half the sum of |share in the client - share in all labels|"
    same("label_skew", function(labels, parts), partition.total_variation(labels, parts), hint)


@said
def dirichlet_partition(
    function: Function, alpha: float, seed: int = 0, *, clients: int = 100, size: int = 50
) -> None:
    """``dirichlet_partition(labels, clients, alpha, size, draw)``: sizes, no example twice, and as
    much skew as :func:`fedlib.partition.dirichlet` gives."""
    labels = np.repeat(np.arange(10), 600)
    parts = function(labels, clients, alpha, size, np.random.default_rng(seed))
    expect(len(parts) == clients, f"{len(parts)} parts for {clients} clients")
    sizes = {len(part) for part in parts}
    expect(sizes == {size}, f"clients have {sorted(sizes)} examples, not {size} each")
    used = np.concatenate(parts)
    twice = len(used) - len(np.unique(used))
    expect(twice == 0, f"{twice} examples are dealt twice: take each out of its label's pile")
    expect(used.min() >= 0 and used.max() < len(labels), "a part has indices, not labels")
    counts = partition.label_counts(labels, parts)
    kinds = len(set(counts.argmax(axis=1)))
    expect(kinds > 4, f"all clients like the same {kinds} labels: draw q anew for each client")
    skew = partition.total_variation(labels, parts).mean()
    right = [partition.dirichlet(labels, clients, alpha, size, each) for each in range(5)]
    expected = np.mean([partition.total_variation(labels, part).mean() for part in right])
    message = f"for alpha = {alpha:g} the mean skew is {skew:.2f}, not about {expected:.2f}"
    expect(abs(skew - expected) < 0.06, f"{message} (q ~ Dirichlet(alpha, ..., alpha))")


# Session 2: a round of FedAvg and one of SCAFFOLD, against fedlib's on random quadratics.


def _quadratics(seed: int, clients: int, dimension: int) -> tuple[np.ndarray, ...]:
    """A, b, weights p, and a start."""
    draw = np.random.default_rng(seed)
    root = draw.standard_normal((clients, dimension, dimension))
    A = root @ root.swapaxes(1, 2) / dimension + 0.3 * np.eye(dimension)
    p = draw.random(clients) + 0.2
    b, start = draw.standard_normal((clients, dimension)), draw.standard_normal(dimension)
    return A, b, p / p.sum(), start


def _gradients(A: np.ndarray, b: np.ndarray) -> list[Callable[[np.ndarray], np.ndarray]]:
    """The clients' gradients, functions of x."""

    def gradient(x: np.ndarray, matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
        return matrix @ x - vector

    return [partial(gradient, matrix=a, vector=each) for a, each in zip(A, b, strict=True)]


def _ends(problem: tuple[np.ndarray, ...], name: str, rounds: int, **values: Any) -> np.ndarray:
    """fedlib's x after some rounds."""
    A, b, p, start = problem
    return fedlibs_x(fedlib.quadratic_task(A, b, p, start), name, rounds, **values)


@said
def fedavg_round(function: Function, seed: int = 0, *, clients: int = 3) -> None:
    """``fedavg_round(x, gradients, p, lr, steps)`` over three rounds."""
    A, b, p, x = problem = _quadratics(seed, clients, 2)
    for t in range(1, 4):
        x = function(x.copy(), _gradients(A, b), p.copy(), 0.1, 4)
        expected = _ends(problem, "fedavg", t, client_lr=0.1, local_steps=4)
        hint = "each client steps from the server's x, and p weighs where they end"
        same(f"x after round {t}", x, expected, hint)


@said
def scaffold_round(function: Function, seed: int = 0, *, clients: int = 3) -> None:
    """``scaffold_round(x, c, controls, gradients, p, lr, steps)`` over four rounds, and a
    fifth one of a single step."""
    A, b, p, x = problem = _quadratics(seed, clients, 2)
    c, controls = np.zeros(2), np.zeros((clients, 2))
    for t in range(1, 5):
        given = function(x.copy(), c.copy(), controls.copy(), _gradients(A, b), p.copy(), 0.1, 4)
        x, c, controls = results("scaffold_round", given, "x, c, controls")
        expected = _ends(problem, "scaffold", t, client_lr=0.1, local_steps=4)
        hint = "the first round is FedAvg's" if t == 1 else "look at the controls, signs and scale"
        same(f"x after round {t}", x, expected, hint)
        same(f"c after round {t}", c, p @ controls, "with all clients c is their controls' mean")
    given = function(x.copy(), c.copy(), controls.copy(), _gradients(A, b), p.copy(), 0.1, 1)
    hint = "after one local step a control is the client's gradient at x, whatever it was before"
    expected = np.array([gradient(x) for gradient in _gradients(A, b)])
    same("the controls", results("scaffold_round", given, "x, c, controls")[2], expected, hint)


# Session 3: the servers of FedAdagrad, FedAdam and FedYogi, against fedlib's.

SERVERS: dict[str, type[server.Adaptive]] = {
    "fedadagrad": server.Adagrad,
    "fedadam": server.Adam,
    "fedyogi": server.Yogi,
}


@said
def server_step(
    function: Function,
    name: str,
    seed: int = 0,
    *,
    rounds: int = 3,
    beta1: float = 0.9,
    beta2: float = 0.99,
    tau: float = 0.01,
) -> None:
    """``function(x, delta, m, v, lr, tau, beta1, beta2)`` against fedlib's server of that name.

    The differences are sometimes zero in a coordinate, and of different sizes.
    """
    draw = np.random.default_rng(seed)
    right = SERVERS[name](lr=0.1, tau=tau, beta1=beta1, v0=tau**2, bias_correction=False)
    if name != "fedadagrad":
        right = replace(right, beta2=beta2)
    x, m, v = draw.standard_normal(6), np.zeros(6), np.full(6, tau**2)
    expected, state = torch.tensor(x), right.init(torch.tensor(x))
    for t in range(1, rounds + 1):
        delta = draw.standard_normal(6) * draw.choice([0.0, 0.03, 1.0], 6)
        given = function(x.copy(), delta.copy(), m.copy(), v.copy(), 0.1, tau, beta1, beta2)
        x, m, v = results(name, given, "x, m, v")
        expected, state = right.step(expected, -torch.tensor(delta), state)
        same(f"{name}: v after round {t}", v, state["v"], "v remembers delta squared")
        same(f"{name}: m after round {t}", m, -state["m"], "m is a moving average of delta")
        hint = "x moves along m, by lr / (sqrt(v) + tau), with the new m and v"
        same(f"{name}: x after round {t}", x, expected, hint)


# Session 4: the papers' rule of selection, on grids whose winner was put there.

CLIENT_LRS, SERVER_LRS = (0.01, 0.03, 0.1, 0.3), (0.1, 0.3, 1.0, 3.0, 10.0)


def grid(
    winner: tuple[float, float], seed: int = 0, *, server_lrs: tuple[float, ...] = SERVER_LRS
) -> pd.DataFrame:
    """Runs of a grid, a row each: ``client_lr, server_lr, seed, train_loss, test_accuracy``.

    Another setting has the best run, another one diverged for one seed and is best for the others,
    and a third has the best test accuracy.
    """
    draw = np.random.default_rng(seed)
    pairs = [(c, s) for c in CLIENT_LRS for s in server_lrs]
    others = [pairs[i] for i in draw.permutation(len(pairs)) if pairs[i] != winner]
    lucky, diverged, tempting = others[:3]
    rows = []
    for pair in pairs:
        losses = 1.0 + 0.1 * draw.random(3)
        if pair == winner:
            losses = 0.7 + 0.02 * draw.random(3)
        elif pair == lucky:
            losses = np.array([0.3, 1.0, 1.1])
        elif pair == diverged:
            losses = np.array([0.2, 0.2, np.nan])
        accuracy = 0.9 if pair == tempting else 0.5 + 0.1 * draw.random()
        rows += [(*pair, number, loss, accuracy) for number, loss in enumerate(losses)]
    columns = ["client_lr", "server_lr", "seed", "train_loss", "test_accuracy"]
    return pd.DataFrame(rows, columns=columns).sample(frac=1, random_state=seed)


@said
def select(function: Function, winner: tuple[float, float], seed: int = 0) -> None:
    """``select(runs)`` gives the pair of rates with the smallest mean training loss."""
    hint = "mean of train_loss over the seeds, without a pair that diverged for one seed"
    same("the selected pair", function(grid(winner, seed)), winner, hint)


@said
def at_edge(function: Function, seed: int = 0) -> None:
    """``at_edge(runs, pair)`` for pairs inside and at every end, and for a grid with one rate."""
    runs = grid((0.03, 1.0), seed)
    for pair in ((0.03, 1.0), (0.1, 0.3), (0.01, 1.0), (0.3, 3.0), (0.1, 0.1), (0.03, 10.0)):
        expected = pair[0] in (0.01, 0.3) or pair[1] in (0.1, 10.0)
        message = f"at_edge is {not expected} for {pair}, an {'end' if expected else 'inner'} pair"
        expect(bool(function(runs, pair)) == expected, message)
    single = grid((0.03, 1.0), seed, server_lrs=(1.0,))
    message = "server_lr had one value only: that axis has no ends"
    expect(not function(single, (0.03, 1.0)), message)


# Session 5: recall at 5, and AdaGrad on the rows of an embedding.


@said
def recall_at_5(function: Function, seed: int = 0, *, posts: int = 40) -> None:
    """``recall_at_5(scores, tags)`` against fedlib's. Posts have many, few or no tags."""
    draw = np.random.default_rng(seed)
    scores = draw.standard_normal((posts, 12))
    tags = draw.random((posts, 12)) < draw.choice([0.0, 0.1, 0.6], (posts, 1))
    found, true = losses.recall_at_5(torch.tensor(scores)[None], torch.tensor(tags)[None])
    hint = "true tags among the five largest scores over true tags, both over all posts"
    same("recall_at_5", function(scores, tags), float(found.sum() / true.sum()), hint)


@said
def sparse_adagrad(function: Function, seed: int = 0, *, repeated: bool = False) -> None:
    """``sparse_adagrad(table, v, rows, g, lr, tau)`` against ``torch.optim.Adagrad`` on an
    embedding, over three steps.

    Args:
        function: the student's function.
        seed: seed of tables and words.
        repeated: whether a word may occur more than once in a step.
    """
    draw = np.random.default_rng(seed)
    table, v = draw.standard_normal((8, 3)), np.zeros((8, 3))
    layer = torch.nn.Embedding.from_pretrained(torch.tensor(table), freeze=False)
    right = torch.optim.Adagrad(layer.parameters(), lr=0.1, eps=0.01)
    for t in range(1, 4):
        rows = draw.integers(0, 4, 6) if repeated else draw.permutation(8)[:4]
        g = draw.standard_normal((len(rows), 3))
        given = function(table.copy(), v.copy(), rows.copy(), g.copy(), 0.1, 0.01)
        table, v = results("sparse_adagrad", given, "table, v")
        right.zero_grad()
        (layer(torch.tensor(rows)) * torch.tensor(g)).sum().backward()
        right.step()
        expected = right.state[layer.weight]["sum"]
        hint = "gradients of one word are added, then squared" if repeated else "v adds g squared"
        same(f"v after step {t}", v, expected, hint)
        same(f"the table after step {t}", table, layer.weight.detach(), "lr g / (sqrt(v) + tau)")


# Session 6: Mime's client step and server state with Adam as base, against fedlib's.


@said
def client_step(
    function: Function, seed: int = 0, *, beta1: float = 0.9, eps: float = 0.01
) -> None:
    """``client_step(y, g_here, g_server, c, m, v, lr, beta1, eps)`` over three local steps."""
    draw = np.random.default_rng(seed)
    y, c, m = draw.standard_normal((3, 4))
    v = draw.random(4)
    state = {"m": torch.tensor(m), "v": torch.tensor(v)}
    for k in range(1, 4):
        g_here, g_server = draw.standard_normal((2, 4))
        copies = m.copy(), v.copy()
        given = function(y.copy(), g_here, g_server, c, copies[0], copies[1], 0.1, beta1, eps)
        frozen = np.array_equal(copies[0], m) and np.array_equal(copies[1], v)
        expect(frozen, "client_step changes the server's state: leave m and v unchanged")
        step = base.Adam(beta1=beta1, eps=eps).step(torch.tensor(g_here - g_server + c), state)
        expected = y - 0.1 * np.asarray(step)
        hint = "the gradient is g_here - g_server + c, the step ((1 - beta1) g + beta1 m) / (...)"
        same(f"y after step {k}", given, expected, hint)
        y = expected


@said
def server_state(function: Function, seed: int = 0, *, beta2: float = 0.99) -> None:
    """``server_state(c, m, v, beta1, beta2)`` over three rounds."""
    draw = np.random.default_rng(seed)
    right, m, v = base.Adam(beta1=0.8, beta2=beta2), np.zeros(4), np.zeros(4)
    state = right.init(torch.zeros(4, dtype=torch.float64))
    for t in range(1, 4):
        c = draw.standard_normal(4)
        m, v = results("server_state", function(c, m.copy(), v.copy(), 0.8, beta2), "m, v")
        state = right.advance(torch.tensor(c), state)
        same(f"m after round {t}", m, state["m"], "beta1 m + (1 - beta1) c")
        same(f"v after round {t}", v, state["v"], "beta2 v + (1 - beta2) c^2")


# Session 7: two means and two measures of spread, against fedlib's.


def _clients(seed: int, clients: int, empty: bool) -> tuple[np.ndarray, np.ndarray]:
    """Clients' accuracies and numbers of examples. Without examples the accuracy is NaN."""
    draw = np.random.default_rng(seed)
    examples = draw.integers(1, 100, clients)
    accuracy = draw.integers(0, examples + 1) / examples
    if empty:
        examples[::5] = 0
        accuracy[::5] = np.nan
    return accuracy, examples


def _fairness(accuracy: np.ndarray, examples: np.ndarray) -> dict[str, float]:
    filled = torch.tensor(np.nan_to_num(accuracy))[None]
    measures = fairness.fairness(filled, torch.tensor(examples))
    return {name: float(value) for name, value in measures.items()}


@said
def means(function: Function, seed: int = 0, *, clients: int = 7, empty: bool = False) -> None:
    """``means(accuracy, examples)``: over examples and over clients."""
    accuracy, examples = _clients(seed, clients, empty)
    given = results("means", function(accuracy.copy(), examples.copy()), "examples, clients")
    right = (np.nan_to_num(accuracy) * examples).sum() / examples.sum()
    same("the mean over examples", given[0], right, "a client counts as often as it has examples")
    expected = _fairness(accuracy, examples)["accuracy_unweighted"]
    same("the mean over clients", given[1], expected, "clients without examples are left out")


@said
def spread(function: Function, seed: int = 0, *, clients: int = 7, empty: bool = False) -> None:
    """``spread(accuracy, examples)``: the worst 30 % and the errors' RSD."""
    accuracy, examples = _clients(seed, clients, empty)
    given = results("spread", function(accuracy.copy(), examples.copy()), "worst, rsd")
    expected = _fairness(accuracy, examples)
    hint = "the mean of the lowest 30 % of the clients, their number rounded up"
    same("the worst 30 %", given[0], expected["accuracy_worst_30"], hint)
    hint = "standard deviation over mean of the errors 1 - accuracy, divisor: the clients"
    same("the RSD", given[1], expected["error_rsd"], hint)


@said
def no_errors(function: Function) -> None:
    """``spread`` is defined if no client makes an error."""
    same("(worst, rsd) of clients without errors", function(np.ones(3), np.full(3, 5)), (1.0, 0.0))


# Session 8: FedNova's normalisation and its round, against fedlib's on quadratics.


def _slope(steps: int, momentum: float) -> float:
    """The number that a client of fedlib accumulates. On a client whose gradient is 1 everywhere,
    SGD with momentum moves by the client rate times this number."""
    slope = fedlib.quadratic_task(np.zeros((1, 1, 1)), [[-1.0]])
    method = fedlib.FedOpt(client=fedlib.client.SGDM(lr=1.0, momentum=momentum))
    return -fedlibs_x(slope, method, local_steps=steps).item()


@said
def accumulated(function: Function, momentum: float, most: int = 6) -> None:
    """``accumulated(steps, momentum)`` against the numbers of fedlib's clients."""
    for steps in range(1, most + 1):
        hint = "momentum sums n <- momentum n + 1 over the steps" if momentum else "plain steps"
        given, expected = function(steps, momentum), _slope(steps, momentum)
        same(f"accumulated({steps}, {momentum:g})", given, expected, hint)
    same(f"accumulated(0, {momentum:g})", function(0, momentum), 0.0, "no step, nothing")


@said
def fednova_round(
    function: Function, seed: int = 0, *, steps: Sequence[int] = (1, 2, 5), momentum: float = 0.0
) -> None:
    """``fednova_round(x, ends, a, p)`` over three rounds, with ``a`` and ends made here."""
    draw, clients = np.random.default_rng(seed), len(steps)
    curvature, centres = draw.uniform(0.5, 2, clients), draw.standard_normal((clients, 2))
    p, x = draw.random(clients) + 0.2, draw.standard_normal(2)
    A, b = curvature[:, None, None] * np.eye(2), curvature[:, None] * centres
    task = fedlib.quadratic_task(A, b, p, x)
    p = p / p.sum()
    values = {"client_lr": 0.1, "momentum": momentum, "local_steps": list(steps)}
    method = fedlib.FedOpt(client=fedlib.client.SGDM(lr=0.1, momentum=momentum))
    a = np.array([_slope(count, momentum) for count in steps])
    for t in range(1, 4):
        alone = [fedlib.quadratic_task(A[[i]], b[[i]], x0=x) for i in range(clients)]
        ends = [fedlibs_x(alone[i], method, local_steps=steps[i]) for i in range(clients)]
        x = np.asarray(function(x.copy(), np.array(ends), a.copy(), p.copy()))
        expected = fedlibs_x(task, "fednova", t, **values)
        hint = "x moves by sum(p a) times the weighted mean of the normalised updates"
        same(f"x after round {t}", x, expected, hint)


@said
def idle_client(function: Function) -> None:
    """A client without steps has a = 0 and an update of zero."""
    ends, p = np.array([[1.0], [0.0]]), np.array([0.5, 0.5])
    given = function(np.array([0.0]), ends, np.array([2.0, 0.0]), p)
    same("x, with a client that took no step,", given, [0.25], "its normalised update is 0")


# Session 9: Delta-SGD's rule and a client's round with it, against fedlib's.


@said
def step_size(function: Function, seed: int = 0, *, gamma: float = 2.0, delta: float = 0.1) -> None:
    """``step_size(x, x_before, g, g_before, eta, theta, gamma, delta)`` against
    :meth:`fedlib.DeltaSGD.advance`, with either condition active, and without a move."""
    draw = np.random.default_rng(seed)
    rule = fedlib.DeltaSGD(gamma=gamma, delta=delta, eps=0.0)
    for case, scale in (("steep", 30.0), ("flat", 0.01), ("first step", 0.0), ("no turn", 1.0)):
        x, g = draw.standard_normal((2, 5))
        moved, turned = draw.standard_normal((2, 5))
        x_before = x if case == "first step" else x - moved
        g_before = g if case in ("first step", "no turn") else g - scale * turned
        eta, theta = draw.uniform(0.1, 0.3), draw.uniform(0.5, 1.5)
        numbers = {"previous": x_before, "eta": [eta], "theta": [theta]}
        state = {key: torch.tensor(np.asarray(value)) for key, value in numbers.items()}
        tensors = [torch.tensor(each) for each in (x, g, g_before)]
        _, after = rule.advance(tensors[0], tensors[1], tensors[2], state)
        given = function(x, x_before, g, g_before, eta, theta, gamma, delta)
        got = results("step_size", given, "eta, theta")
        hint = "the smaller of both conditions, or the second if nothing moved or turned"
        same(f"eta ({case})", got[0], float(after["eta"]), hint)
        same(f"theta ({case})", got[1], float(after["theta"]), "the new step over the old one")


@said
def local_round(function: Function, seed: int = 0, *, steps: int = 6) -> None:
    """``local_round(gradient, x, steps, eta0, gamma, delta)`` against fedlib's round."""
    draw = np.random.default_rng(seed)
    A, b = np.diag([0.05, 1.0, 8.0])[None], draw.standard_normal((1, 3))
    start = draw.standard_normal(3)
    method = fedlib.FedOpt(client=fedlib.DeltaSGD(eps=0.0, eta0=0.15))
    expected = fedlibs_x(fedlib.quadratic_task(A, b, x0=start), method, local_steps=steps)
    given = function(lambda x: A[0] @ x - b[0], start.copy(), steps, 0.15, 2.0, 0.1)
    hint = "theta starts at 1, and the first step already grows"
    same("x after the round", given, expected, hint)


# Session 10: margins, spread and verdict, against those behind ``fedlib claims``.

CASES = ((0.03, 0.02, 0.04), (-0.1, 0.2, 0.05), (-0.05, -0.06, -0.04), (0.01,), (0.0, 0.0, 0.0))
# A run that diverged has no margin.
DIVERGED = ((0.2, float("nan"), 0.3), (float("nan"),))


@said
def statement(function: Function, cases: Sequence[Sequence[float]] = CASES, seed: int = 0) -> None:
    """``statement(margins)`` on these margins and on random ones of two to six seeds."""
    draw = np.random.default_rng(seed)
    random = [draw.normal(0.01, 0.01, draw.integers(2, 7)).tolist() for _ in range(20)]
    for margins in (*cases, *random):
        expected = Statement("", tuple(margins))
        shown = ", ".join(f"{each:.3f}" for each in margins)
        given = results("statement", function(list(margins)), "mean, spread, verdict")
        same(f"the mean of margins {shown}", given[0], expected.mean, "-inf if a run diverged")
        hint = "divisor n - 1, and NaN for one"
        same(f"the spread of margins {shown}", given[1], expected.spread, hint)
        message = f"margins {shown}: the verdict is {given[2]!r}, not {expected.verdict!r}"
        expect(given[2] == expected.verdict, message)


@said
def claim(function: Function) -> None:
    """``claim(verdicts)``: one that does not hold decides, then one that is not resolved."""
    for verdicts, expected in (
        ((HOLDS, HOLDS), HOLDS),
        ((HOLDS, OPEN), OPEN),
        ((OPEN, FAILS, HOLDS), FAILS),
        ((FAILS,), FAILS),
        ((OPEN, OPEN), OPEN),
    ):
        given = function(list(verdicts))
        expect(given == expected, f"claim({list(verdicts)}) is {given!r}, not {expected!r}")


# Session 11: clipping, and a round of DP-FedAvg. fedlib has neither by name, so NumPy is the judge.


def _clipped(delta: np.ndarray, clip: float) -> np.ndarray:
    return np.asarray(delta * min(1.0, clip / max(float(np.linalg.norm(delta)), 1e-300)))


@said
def clipped(function: Function, seed: int = 0, *, clip: float = 1.0) -> None:
    """``clipped(delta, clip)``: no longer than ``clip``, in the same direction."""
    draw = np.random.default_rng(seed)
    for delta in (*draw.standard_normal((4, 6)), 0.01 * clip * draw.random(6), np.zeros(6)):
        hint = "shorten what is longer than clip, and nothing else"
        same("the update", function(delta.copy(), clip), _clipped(delta, clip), hint)


@said
def private_round(
    function: Function, seed: int = 0, *, clients: int = 4, noise: float = 1.0
) -> None:
    """``private_round(x, ends, clip, noise, draw)`` with the same generator."""
    draw, clip = np.random.default_rng(seed), 0.7
    x, ends = draw.standard_normal(5), draw.standard_normal((clients, 5))
    given = function(x.copy(), ends.copy(), clip, noise, np.random.default_rng(seed + 1))
    mean = np.mean([_clipped(end - x, clip) for end in ends], axis=0)
    spread = noise * clip / clients * np.random.default_rng(seed + 1).standard_normal(5)
    hint = "clip each update, not the mean, and add noise of the size z S / m to the mean"
    same("x", given, x + mean + spread, hint)
