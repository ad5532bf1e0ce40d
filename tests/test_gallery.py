"""figures/ is what the published runs give: each CSV again; a picture and a sentence for each."""

import json
from io import StringIO

import pandas as pd
import pytest

from docs import gallery
from fedlib import papers, plans
from fedlib.paths import project_root
from fedlib.reproduction import draw
from fedlib.reproduction.matching import Index
from fedlib.results.reading import client_label, option
from fedlib.results.store import Store

pytestmark = pytest.mark.slow
FIGURES = project_root() / "figures"
# What is prepared on a machine decides these.
OF_THE_MACHINE = ("fedopt/table_2", "adafedadam/table_4")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """An empty store: all runs are published ones."""
    return Store(tmp_path_factory.mktemp("gallery") / "runs")


@pytest.fixture(scope="module")
def stored(store):
    return Index(store.stored(published=True))


@pytest.mark.parametrize("id", [id for id in gallery.ids() if id not in OF_THE_MACHINE])
def test_a_committed_figure_is_what_the_published_runs_give(store, stored, id):
    """Else: make figures, look at the picture, and mend its sentence in figures.toml."""
    entry = draw.entry(id)
    runs = draw.drawn_from(entry, stored)[1] if entry.needs_runs else store.root.parent
    _, data = entry.draw(runs)
    known = pd.read_csv(FIGURES / f"{id}.csv", keep_default_na=False, na_values=[""])
    again = data.to_csv(index=False)
    again = pd.read_csv(StringIO(again), keep_default_na=False, na_values=[""])
    pd.testing.assert_frame_equal(again, known, rtol=1e-4, atol=1e-9, check_dtype=False)


def test_notebook_26_says_how_far_behind_the_best_a_method_was_over_the_last_100_rounds(stored):
    runs = stored.plan(plans.requests("26_autotuned_images", "paper"), "paper")
    ends = [
        (run.config.task["name"], option(run, "alpha"), client_label(run), run.final(window=100))
        for run in runs
        if run.meta["plan"]["part"] == "table"
    ]
    ends = pd.DataFrame(ends, columns=["task", "alpha", "method", "end"]).fillna(0.0)
    ends = 100 * ends.pivot_table("end", "method", ["task", "alpha"])
    far = (ends.max() - ends).max(axis=1)
    book = json.loads((project_root() / "notebooks/26_autotuned_images.ipynb").read_text("utf-8"))
    text = " ".join("".join("".join(cell["source"]) for cell in book["cells"]).split())
    ours, decay, sgd, adam = far[["delta_sgd", "sgd_decay", "sgd", "adam"]]
    said = f"more than {ours:.1f} points behind the best, SGD with decay {decay:.1f}, SGD {sgd:.1f}"
    assert f"{said}, Adam {adam:.0f}, the others {int(far.nlargest(4).min())} and more" in text


def test_every_figure_has_a_small_picture_or_a_table_and_a_sentence():
    ids = gallery.ids()
    assert len(ids) >= len(papers.figures()) == 59
    total = 0
    for id in ids:
        path = FIGURES / f"{id}.{'html' if '/table' in id else 'png'}"
        assert path.suffix == ".html" or path.stat().st_size <= 150_000, path
        total += path.stat().st_size + path.with_suffix(".csv").stat().st_size
    assert total < 8_000_000
    said = gallery.sentences()
    assert not set(ids) - set(said), "figures.toml has no sentence on these"
    assert all(text.endswith(".") for text in said.values())
