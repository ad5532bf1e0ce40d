"""The site's own pages: their code runs, and the API names everything that is public."""

import doctest
import inspect
import re
import runpy
from pathlib import Path
from types import ModuleType

import pytest

import fedlib
from fedlib import papers

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"
GUIDES = [SITE / "guides" / f"your_{what}.md" for what in ("data", "model", "algorithm", "plot")]
MOST_LINES = 30
NAMED = re.compile(r"^\.\. auto(?:function|class|exception):: (\S+)", re.MULTILINE)
API = {name for page in (SITE / "api").glob("*.rst") for name in NAMED.findall(page.read_text())}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_a_guide_is_one_short_script_that_runs(guide, tmp_path, monkeypatch):
    """As a reader runs it: a file of its own."""
    text = guide.read_text(encoding="utf-8")
    (code,) = re.findall(r"```\{code-cell\}\n(.*?)```", text, re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip()]
    assert len(lines) < MOST_LINES and max(map(len, lines)) <= 100
    path = tmp_path / "script.py"
    path.write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")


def test_the_front_page_takes_its_end_from_the_readme():
    page, readme = (path.read_text("utf-8") for path in (SITE / "index.md", ROOT / "README.md"))
    ends = re.findall(r':(?:start-after|end-before): "(.*)"', page)
    assert len(ends) == 2 and all(readme.count(end) == 1 for end in ends)


def public():
    """Every public name: those of ``fedlib``, of its documented modules and of the papers' room."""
    listed = {}
    for name in fedlib.__all__:
        value = getattr(fedlib, name)
        if not isinstance(value, ModuleType):
            listed[f"fedlib.{name}"] = value
        elif hasattr(value, "__all__"):
            listed |= {f"fedlib.{name}.{each}": getattr(value, each) for each in value.__all__}
        else:
            kind = inspect.isfunction if hasattr(value, "__path__") else inspect.isclass
            members = inspect.getmembers(value, kind)
            mine = {each: it for each, it in members if it.__module__.startswith(value.__name__)}
            listed |= {f"fedlib.{name}.{each}": it for each, it in mine.items()}
    return listed | {f"fedlib.papers.{name}": getattr(papers, name) for name in papers.__all__}


# Internal to the engine, though their module has no list of its public names.
INTERNAL = {"fedlib.server.Together", "fedlib.base.Adaptive"}
PUBLIC = {name: value for name, value in public().items() if name not in INTERNAL}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_in_the_api_with_an_example(name):
    value = PUBLIC[name]
    same = {listed for listed in API if listed in PUBLIC and PUBLIC[listed] is value}
    assert name in API or same, f"{name} is on no page of docs/site/api"
    assert doctest.DocTestParser().get_examples(value.__doc__ or ""), f"{name} has no example"
