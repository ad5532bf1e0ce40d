"""The pages of docs/ and figures/ say what the code, the notebooks and published runs say."""

import re
from pathlib import Path

import pytest

from docs import gallery, tables

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", tables.PAGES)
def test_tables_are_those_that_the_code_makes(page):
    """``make docs`` writes them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert tables.filled(page, text) == text


def test_the_index_of_figures_is_the_gallerys():
    figures = ROOT / "figures"
    assert (figures / "README.md").read_text(encoding="utf-8") == gallery.page(figures)


# The pages of the site lead to pages that are made with it, whose links its build checks.
READ_HERE = [page for page in PAGES if ROOT / "docs" / "site" not in page.parents]


@pytest.mark.parametrize("page", READ_HERE, ids=lambda path: path.name)
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)|src=\"([^\"]+)\"", text)
    local = [first or second for first, second in links if not (first or second).startswith("http")]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert not missing, f"{page.name}: {missing}"


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where they save their pictures
    text = (ROOT / page).read_text(encoding="utf-8")
    names = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, page, "exec"), names)
