"""figures/ is what the published runs give: each CSV again; a picture and a sentence for each."""

from io import StringIO

import pandas as pd
import pytest

from docs import sitemaker
from fedlib.paths import project_root
from fedlib.reproduction import draw
from fedlib.reproduction.matching import Index
from fedlib.results.store import Store

pytestmark = pytest.mark.slow
FIGURES = project_root() / "figures"
# What is prepared on a machine decides these.
OF_THE_MACHINE = ("fedopt/table_2", "adafedadam/table_4")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Beside an empty store all runs are published ones."""
    return Index(Store(tmp_path_factory.mktemp("gallery") / "runs").stored(published=True))


@pytest.mark.parametrize("id", [id for id in sitemaker.ids() if id not in OF_THE_MACHINE])
def test_a_committed_figure_is_what_the_published_runs_give(stored, tmp_path, id):
    """Else: make figures, look at the picture, and mend its sentence in docs/learned.toml."""
    entry = draw.entry(id)
    runs = draw.drawn_from(entry, stored)[1] if entry.needs_runs else tmp_path
    _, data = entry.draw(runs)
    known = pd.read_csv(FIGURES / f"{id}.csv", keep_default_na=False, na_values=[""])
    again = data.to_csv(index=False)
    again = pd.read_csv(StringIO(again), keep_default_na=False, na_values=[""])
    pd.testing.assert_frame_equal(again, known, rtol=1e-4, atol=1e-9, check_dtype=False)
