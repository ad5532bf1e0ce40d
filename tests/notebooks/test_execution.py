"""The whole series runs headlessly, from an empty store.

One folder serves all tests of this module, in order: papermill fills the store, nbval and the
solved exercises then find every run in it.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from fedlib import reproduce

ROOT = Path(__file__).resolve().parents[2]
PROMISED = {
    "01_client_drift": [
        *("theory/client_drift.png", "theory/drift_size.png", "theory/drift_corrected.png")
    ],
    "02_server_adaptivity": [
        *("theory/server_adaptivity.png", "theory/degree_of_adaptivity.png"),
        "theory/fedopt_rate.png",
    ],
    "03_fairness_and_certainty": [
        *("theory/accumulated_updates.png", "theory/fairness_and_certainty.png")
    ],
    "04_mimicking_centralized": [
        *("mime/table_1.html", "theory/mimicking.png", "theory/hessian_similarity.png")
    ],
    "05_auto_tuned_clients": ["delta_sgd/figure_7.png", "theory/auto_tuned_clients.png"],
    "06_partitions": [
        *("fedopt/table_2.html", "fedopt/figure_14.png", "adafedadam/figure_6.png"),
        *("delta_sgd/figure_8.png", "theory/label_heterogeneity.png"),
    ],
    "07_models": [
        *(f"fedopt/table_{number}.html" for number in (3, 4, 5, 6)),
        *("adafedadam/figure_4.png", "adafedadam/figure_5.png"),
    ],
    "10_cifar10": ["fedopt/figure_1.png", "fedopt/table_1.html"],
    "23_fair_synthetic": ["adafedadam/figure_2.png", "adafedadam/table_5.html"],
    "90_figures": ["fedopt/figure_1.png", "adafedadam/figure_2.png", "adafedadam/table_5.html"],
    "91_paper_against_ours": ["overview/paper_against_ours.png"],
}

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("series")


@pytest.fixture(autouse=True)
def one_store(own_folders, place, monkeypatch):
    """The same folders for all tests of this module, in place of each test's own."""
    monkeypatch.setenv("FEDLIB_DATA", str(place / "data"))
    monkeypatch.setenv("FEDLIB_FIGURES", str(place / "figures"))
    monkeypatch.setenv("FEDLIB_PRESET", "quick")
    monkeypatch.setenv("FEDLIB_PROGRESS", "0")
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def state():
    """Whether the store has been filled."""
    return {}


def stored(place):
    return {path.name for path in (place / "data" / "runs").glob("*/*-*")}


def test_papermill_runs_the_series_from_an_empty_store(place, state):
    assert not stored(place)
    started = time.time()
    seen = []
    for done in reproduce.reproduce(preset="quick", output=place / "executed"):
        assert done.error is None, f"{done.name}: {done.error}, see {done.output}"
        for file in PROMISED.get(done.name, []):
            made = place / "figures" / file
            assert made.is_file(), f"{done.name} promises {file}"
            assert made.stat().st_size > 500 and made.stat().st_mtime >= started
            for suffix in (".csv", ".json"):
                assert made.with_suffix(suffix).stat().st_mtime >= started
        started = time.time()
        seen.append(done.name)
    assert seen == [path.stem for path in reproduce.notebooks()]
    assert stored(place)
    state["runs"] = stored(place)


def test_nbval_finds_every_run_in_the_store(place, state):
    """nbval cannot inject parameters: it must come to the same numbers by quick.yaml alone."""
    if "runs" not in state:
        pytest.skip("the series did not run")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    flags = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=120"]
    done = subprocess.run(
        [*command, *flags, "notebooks"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert re.search(r"\d+ passed", done.stdout)
    assert stored(place) == state["runs"], "nbval trained something that papermill did not"


def solved(path, target):
    """A copy whose exercises hold the solutions of the notebook's last cells."""
    book = nbformat.read(path, as_version=4)
    tags = [set(cell.metadata.get("tags", [])) for cell in book.cells]
    text = next(c.source for c, t in zip(book.cells, tags, strict=True) if "solution" in t)
    answers = iter(re.findall(r"```python\n(.*?)```", text, flags=re.S))
    for cell, own in zip(book.cells, tags, strict=True):
        if "exercise" in own:
            cell.source = next(answers)
    nbformat.write(book, target)


def test_solutions_pass_their_self_checks(place, state, monkeypatch):
    if "runs" not in state:
        pytest.skip("the series did not run")
    checkout = place / "solved"
    (checkout / "fedlib").mkdir(parents=True)
    (checkout / "pyproject.toml").touch()
    (checkout / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "quick.yaml", checkout / "notebooks")
    for path in reproduce.notebooks():
        solved(path, checkout / "notebooks" / path.name)
    monkeypatch.chdir(checkout)
    for done in reproduce.reproduce(preset="quick", output=place / "solutions"):
        assert done.error is None, f"{done.name}: {done.error}, see {done.output}"
        text = done.output.read_text(encoding="utf-8")
        number = len(re.findall(r'"exercise"', text))
        assert len(re.findall(r"exercise \d: right", text)) >= number >= 1
    assert stored(place) == state["runs"]
