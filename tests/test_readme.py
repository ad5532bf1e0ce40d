"""README.md says what the code, the notebooks and the published runs say."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_tables_are_those_that_the_code_makes() -> None:
    """``make readme`` writes them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(ROOT / "docs" / "readme.py"))["filled"](readme) == readme
