"""What the methods' tests share: random quadratics, the engine's cohorts, and runs."""

import numpy as np

import fedlib
from fedlib.randomness import numpy_generator


def problem(seed, clients=6, dimension=4):
    """A, b, weights and x0 of :func:`fedlib.quadratic_task`."""
    draw = np.random.default_rng(seed)
    roots = draw.standard_normal((clients, dimension, dimension))
    A = roots @ roots.transpose(0, 2, 1) / dimension + 0.1 * np.eye(dimension)
    b, weights = draw.standard_normal((clients, dimension)), draw.uniform(0.5, 3, clients)
    return A, b, weights, draw.standard_normal(dimension)


def positive_problem(seed, clients=6, dimension=4):
    """The same as keywords, with offsets that make all losses positive everywhere."""
    A, b, weights, x0 = problem(seed, clients, dimension)
    least = [0.5 * own @ np.linalg.solve(H, own) for H, own in zip(A, b, strict=True)]
    offset = np.array(least) + np.random.default_rng(seed + 1).uniform(0.1, 1, clients)
    return {"A": A, "b": b, "weights": weights, "x0": x0, "offset": offset}


def cohort(seed, round, size, clients=6):
    """The clients that the engine samples."""
    if size == clients:
        return list(range(clients))
    draw = numpy_generator(seed, "cohort", round)
    return sorted(draw.choice(clients, size, replace=False).tolist())


def halves(seed, round, size, split):
    """Those of the sampled clients that send gradients, and those that train."""
    sampled = cohort(seed, round, size)
    if not split:
        return sampled, sampled
    mixed = numpy_generator(seed, "halves", round).permutation(sampled).tolist()
    return mixed[: size // 2], mixed[size // 2 :]


def step_decay(round, rounds):
    """The schedule's factor: a tenth from half of the rounds on, then a hundredth."""
    return 0.1 ** ((round >= rounds / 2) + (round >= 3 * rounds / 4))


def descend(A, b, x, steps, rate, momentum=0.0, nesterov=False):
    """x after steps of SGD from rest on 0.5 x'A x - b'x."""
    u = np.zeros_like(x)
    for _ in range(steps):
        g = A @ x - b
        u = momentum * u + g
        x = x - rate * (g + momentum * u if nesterov else u)
    return x


class NumpyBase:
    """(U, V) of Mime's bases in NumPy; ``n`` counts the Vs."""

    def __init__(self, base, dimension, **h):
        self.base, self.h, self.n = base, h, 0
        self.m, self.v = np.zeros(dimension), np.full(dimension, h.get("v0", 0.0))
        self.b1 = h.get("momentum", 0.9) if base == "momentum" else h.get("beta1", 0.9)
        self.b2, self.eps = h.get("beta2", 0.99), h.get("eps", 1e-3)

    def U(self, g):
        if self.base == "sgd":
            return g
        if self.base == "adagrad":
            return g / (np.sqrt(self.v) + self.eps)
        m = (1 - self.b1) * g + self.b1 * self.m
        if self.base == "momentum":
            return m
        v = self.v
        if self.h.get("bias_correction"):
            m, v = m / (1 - self.b1 ** (self.n + 1)), v / (1 - self.b2**self.n)
        return m / (np.sqrt(v) + self.eps)

    def V(self, g):
        self.m = (1 - self.b1) * g + self.b1 * self.m
        if self.base == "adagrad":
            self.v = self.v + g**2
        elif self.base == "adam":
            self.v = self.b2 * self.v + (1 - self.b2) * g**2
        elif self.base == "yogi":
            self.v = self.v - (1 - self.b2) * g**2 * np.sign(self.v - g**2)
        self.n += 1

    def begin(self, g):
        if self.n == 0 and self.base in ("adam", "adagrad", "yogi") and "v0" not in self.h:
            self.V(g)


def end(task, method, rounds, *, seed=0, size=None, **overrides):
    """x after a run in float64, with ``size`` clients a round."""
    how = {"rounds": rounds, "seed": seed, "dtype": "float64", "eval_every": rounds}
    history = fedlib.run(task, method, clients_per_round=size, overrides=overrides, **how)
    assert history.diverged is None
    return np.asarray(history.params["x"])
