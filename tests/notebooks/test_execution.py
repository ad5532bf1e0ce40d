"""The whole series runs headlessly, from an empty store: with one seed and without searching rates.

What the claims need is trained by ``make reproduce`` and published; see
tests/reproduction/test_claims.py. One folder serves all tests of this module, in order:
papermill runs the notebooks with their exercises solved and fills the store (90 draws all figures
from it and checks them), nbval then finds every run of the unsolved ones in it. What a notebook
must draw is what the catalogue says.
"""

import json
import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from fedlib.reproduction import draw, reproduce

ROOT = Path(__file__).resolve().parents[2]
JOBS = 2
# Of the experiments: of their small numbers the ones that cost most.
GIVEN = {"seeds": 1, "reach": 0}
# For nbval, which cannot inject parameters: notebooks without these, experiments among them.
AS_DECLARED = ["00*", "03*", "06*", "24*", "25*"]

pytestmark = [pytest.mark.notebook, pytest.mark.slow]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A checkout whose notebooks have the solutions in place of the stubs.

    Published runs are this checkout's: some figures show them.
    """
    folder = tmp_path_factory.mktemp("series")
    (folder / "notebooks").mkdir()
    (folder / "pyproject.toml").touch()
    (folder / "fedlib").symlink_to(ROOT / "fedlib")
    (folder / "data").mkdir()
    (folder / "data" / "results").symlink_to(ROOT / "data" / "results")
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        book = nbformat.read(path, as_version=4)
        (text,) = (cell.source for cell in book.cells if "solution" in tags(cell))
        answers = iter(re.findall(r"```python\n(.*?)```", text, flags=re.S))
        for cell in book.cells:
            if "exercise" in tags(cell):
                cell.source = next(answers)
        nbformat.write(book, folder / "notebooks" / path.name)
    return folder


def tags(cell):
    return cell.metadata.get("tags", [])


@pytest.fixture(autouse=True)
def one_store(own_folders, place, monkeypatch):
    """The same folders for all tests of this module, in place of each test's own."""
    monkeypatch.setenv("FEDLIB_DATA", str(place / "data"))
    monkeypatch.setenv("FEDLIB_FIGURES", str(place / "figures"))
    monkeypatch.setenv("FEDLIB_PRESET", "quick")
    monkeypatch.setenv("FEDLIB_PROGRESS", "0")
    monkeypatch.chdir(place)


def stored(place):
    return {path.name for path in (place / "data" / "runs").glob("*/*-*")}


def promised(name):
    """The catalogue's figures that a notebook makes, and those of its own that its card names."""
    entries = [entry for entry in draw.entries() if name in entry.notebooks.values()]
    text = (ROOT / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8")
    (card,) = re.findall(r"\| produces \|.*", text)
    own = re.findall(r"`((?:theory|overview)/\w+)`", card)
    return entries, [f"{id}.png" for id in own]


def made_since(path, started):
    assert path.is_file(), f"{path.name} is not made"
    assert path.stat().st_size > 500 and path.stat().st_mtime >= started
    for suffix in (".csv", ".json"):
        assert path.with_suffix(suffix).stat().st_mtime >= started


def picture(place, entry):
    """A figure's PNG, or a table's HTML."""
    path = place / "figures" / f"{entry.id}.png"
    return path if path.is_file() else path.with_suffix(".html")


def test_papermill_runs_the_series_from_an_empty_store(place):
    assert not stored(place)
    started = time.time()
    seen = []
    for done in reproduce.reproduce((), "quick", GIVEN, place / "executed", jobs=JOBS):
        assert done.error is None, f"{done.name}: {done.error}, see {done.output}"
        cells = nbformat.read(done.output, as_version=4).cells
        printed = "".join(out.get("text", "") for cell in cells for out in cell.get("outputs", []))
        for cell in cells:
            if cell.source.rpartition("\n")[2].startswith("session.figure("):
                shown = set().union(*(out.get("data", {}) for out in cell.outputs))
                assert shown & {"image/png", "text/html"}, f"{done.name}: {cell.source}"
        exercises = sum("exercise" in tags(cell) for cell in cells)
        right = len(re.findall(r"exercise \d: right", printed))
        assert right >= exercises >= 1, f"{done.name}: {right} of {exercises}"
        entries, more = promised(done.name)
        for entry in entries:
            path = picture(place, entry)
            made_since(path, started)
            if entry.needs_runs:
                record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
                its_tasks = {t for t, maker in entry.notebooks.items() if maker == done.name}
                assert its_tasks & set(record["tasks"]), f"{done.name} draws {entry.id} without any"
        for file in more:
            made_since(place / "figures" / file, started)
            if file.startswith("theory/"):  # make figures draws the committed one
                drawn = pd.read_csv((place / "figures" / file).with_suffix(".csv"))
                known = pd.read_csv((ROOT / "figures" / file).with_suffix(".csv"))
                pd.testing.assert_frame_equal(drawn, known, rtol=1e-3, atol=1e-9)
        seen.append(done.name)
    assert sorted(seen) == [path.stem for path in reproduce.notebooks()]
    assert stored(place)


def test_nbval_finds_every_run_in_the_store(place):
    """nbval cannot inject parameters: the experiments' small numbers must come to the same."""
    before = stored(place) or pytest.skip("the series did not run")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    flags = ["--nbval-lax", "--nbval-current-env", "--nbval-cell-timeout=300"]
    flags += ["-n", str(JOBS), "--dist", "loadfile"]
    named = [path for name in AS_DECLARED for path in (ROOT / "notebooks").glob(f"{name}.ipynb")]
    how = {"cwd": ROOT, "env": {**os.environ, "OMP_NUM_THREADS": "1"}, "timeout": 1800}
    how |= {"capture_output": True, "text": True}
    nbval = partial(subprocess.run, [*command, *flags, *named], **how)
    done = nbval()
    if reproduce.NOT_STARTED in done.stdout:  # nbval starts a kernel once: see reproduce
        done = nbval()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert re.search(r"\d+ passed", done.stdout)
    assert stored(place) == before, "nbval trained something that papermill did not"
