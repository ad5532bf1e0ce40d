"""Mime's table of rates, and the figures of notebook 04."""

import re

import numpy as np
import pytest

import fedlib
from fedlib import papers
from fedlib.reproduction import draw
from fedlib.reproduction.theory import mimicking
from fedlib.results import Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs", published=[])


def squared_task(name, **options):
    A = np.array([np.diag([1.0, 0.1]), np.diag([0.2, 1.0]), np.diag([0.5, 0.4])])
    b = A @ [1.0, 1.0]  # all clients have the same minimiser: sampling them does not disturb
    task = fedlib.quadratic_task(A, b, name=name, test="gradient")
    task.options = options
    return task


@pytest.mark.parametrize(
    ("latex", "text"),
    [
        (r"\frac{LG^2}{S\epsilon^2} + \frac{L}{\epsilon}", "LG²/(Sε²) + L/ε"),
        (r"\left(\frac{N}{S}\right)^{\frac{2}{3}} \frac{L}{\epsilon}", "(N/S)^(2/3) L/ε"),
        (r"\frac{G^2+\sigma^2}{\epsilon}", "(G² + σ²)/ε"),
        (r"\frac{\delta(G+\sigma)}{\epsilon^{3/2}}", "δ(G + σ)/(ε^1.5)"),
        (r"\frac{L\sqrt{S}}{\epsilon - G^2/S}", "L√S/(ε - G²/S)"),
        (r"\Omega\left(\frac{G^2}{S\epsilon}\right)", "Ω(G²/(Sε))"),
    ],
)
def test_rates_are_readable(latex, text):
    assert mimicking.readable(latex) == text


def value(formula, numbers, spelling):
    """A rate as a number; letters that follow each other are factors."""
    for letter, name in spelling.items():
        formula = formula.replace(letter, name)
    formula = re.sub(r"√(\w)|\\sqrt\{([^{}]*)\}", r"((\1\2)**0.5)", formula)
    while r"\frac" in formula:
        formula = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1)/(\2))", formula)
    text = ""
    for token in re.findall(r"\*\*|\d+(?:\.\d+)?|[A-Za-z]|[()+/-]", formula):
        product = re.search(r"[\w)]$", text) and re.match(r"[\w(]", token)
        text += ("*" if product else "") + token
    return eval(text, {}, numbers)


PLAIN = {"ε": "e", "δ": "d", "σ": "s", "μ": "m", "Ω": "", "²": "**2", "^": "**"}
LATEX = {
    r"\epsilon": " e ",
    r"\delta": " d ",
    r"\sigma": " s ",
    r"\mu": " m ",
    r"\Omega": "",
    r"\left(": "(",
    r"\right)": ")",
    r"^{\frac{2}{3}}": "**(2/3)",
    "^{3/2}": "**1.5",
    "^2": "**2",
}


def test_table_1_means_what_is_transcribed():
    """Both spellings of every rate have the same value at arbitrary numbers."""
    printed, data = papers.table("mime", "table1_rates"), mimicking.mime_table_1()[1]
    assert len(data) == len(printed) == 11
    names = dict(zip("LGSNedsm", (1.3, 0.7, 3.1, 50.0, 0.9, 0.11, 0.4, 0.05), strict=True))
    for column, name in (("nonconvex_rate", "non-convex"), ("pl_rate", "μ-PL")):
        for latex, text in zip(printed[column], data[name], strict=True):
            if latex:
                expected = value(latex, names, LATEX)
                assert value(text, names, PLAIN) == pytest.approx(expected), text
            else:
                assert text == "–"


def test_table_1_is_drawn_without_runs(store, tmp_path):
    (path,) = draw.redraw(["mime/table_1"], store=store)
    text = path.read_text(encoding="utf-8")
    assert path.name == "table_1.html" and "δG/(√S ε^1.5) + G²/(Sε) + δ/ε" in text
    assert "MimeLiteSGD ≡ FedAvgSGD" in text and "\\frac" not in text


def test_mimicking_draws_the_best_run_of_each_method_and_counts_what_is_sent(store):
    task = squared_task("mimicking", dimension=2)
    requests = [
        {"algorithm": name, "overrides": {"client_lr": lr, "local_steps": 3, **more}}
        for lr in (0.2, 1e4)
        for name, more in [
            ("mime", {"base": "momentum"}),
            ("mimelite", {"base": "momentum"}),
            ("fedavgm", {}),
            ("mime", {}),
            ("fedavg", {}),
        ]
    ]
    runs = store.runs(task, requests, rounds=6, dtype="float64")
    drawn = draw.draw("theory/mimicking", runs, store=store)
    data = drawn.data
    assert set(zip(data["base"], data["method"], strict=True)) == {
        *(("Momentum", name) for name in ("mime", "mimelite", "fedavg")),
        *(("SGD", name) for name in ("mime", "fedavg")),
    }
    for (base, method), part in data.groupby(["base", "method"]):
        same = [
            h.series("squared_gradient")
            for h in runs
            if mimicking.base_of(h) == base
            and h.config.algorithm == part["algorithm"].iloc[0]
            and h.diverged is None
        ]
        best = min(same, key=lambda series: series.iloc[-1])
        np.testing.assert_array_equal(part["squared_gradient"], best)
        # FedAvg: x down, x up. Mime: x, c and the momentum down, gradient and x up.
        each = {"fedavg": 2, "mimelite": 4, "mime": 5 if base == "Momentum" else 4}[method]
        np.testing.assert_allclose(part["model_sizes"], each * np.arange(7))
    titles = [ax.get_title() for ax in drawn.figure.axes[:2]]
    assert titles == ["base: SGD", "base: momentum"]
    before = data.to_csv()
    draw.redraw(["theory/mimicking"], store=store)
    assert draw.draw("theory/mimicking", runs, store=store).data.to_csv() == before


def test_similarity_tunes_the_step_size_and_averages_over_seeds(store):
    histories = []
    requests = [
        {
            "algorithm": name,
            "seed": seed,
            "overrides": {"client_lr": lr, "local_steps": steps, "momentum": 0.5},
        }
        for name, steps in (("mime_mvr", 1), ("mime_mvr", 4), ("mimelite_mvr", 4))
        for lr in (1e-6, 0.3, 0.6)
        for seed in (0, 1)
    ]
    for delta in (0.25, 0.5):
        task = squared_task("hessian_similarity", delta=delta)
        histories += store.runs(task, requests, rounds=30, clients_per_round=2, dtype="float64")
    drawn = draw.draw("theory/hessian_similarity", histories, store=store)
    data = drawn.data.set_index(["method", "delta"])
    assert len(data) == 6 and (data["seeds"] == 2).all()
    for (method, delta), row in data.iterrows():
        rounds = {}
        for h in histories:
            steps, name = h.config.local_steps, h.config.algorithm
            line = "server-only MVR" if steps == 1 else name
            if (line, h.config.task["options"]["delta"]) != (method, delta):
                continue
            series = h.series("squared_gradient").to_numpy()
            reached = np.nonzero(series <= 1e-4 * series[0])[0]
            first = reached[0] if len(reached) else np.inf
            rounds.setdefault(h.config.method["client_lr"], []).append(first)
        best = min(np.mean(each) for each in rounds.values())
        if np.isinf(best):
            assert np.isnan(row["rounds"]) and np.isnan(row["client_lr"])
        else:
            assert row["rounds"] == best == np.mean(rounds[row["client_lr"]])
    assert data["rounds"].notna().any() and drawn.figure.axes[0].get_xscale() == "log"
    never = [h for h in histories if h.config.method["client_lr"] == 1e-6]
    assert mimicking.hessian_similarity(never)[1]["rounds"].isna().all()


def test_no_runs_is_an_error():
    for function in (mimicking.tuned, mimicking.similarity_rounds):
        with pytest.raises(fedlib.Error, match="no runs to draw"):
            function([])
