"""The site's sources in one folder, laid out as the checkout, so that links hold in both places."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import nbformat

from docs.sitemaker import diagram
from docs.sitemaker.repository import Repository
from fedlib.paths import project_root
from fedlib.reproduction import reproduce

# Pages of the checkout that the site shows where they stand; docs/site/ becomes the top.
SHOWN = (
    "docs/*.md",
    "docs/course/*.md",
    "docs/results/*.md",
    "docs/guide/*.md",
    "data/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "README.md",
)
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
COLAB_HINT = "In Colab run `%pip install git+{address}` first."
NOT_EXECUTED = "*This copy of the site was built without executing the notebook.*"


def gather(source: Path, copies: Mapping[str, Path], repository: Repository | None) -> None:
    """Make the folder of sources anew: pages, what they link to, notebooks.

    Args:
        source: the folder; what is in it goes.
        copies: notebook -> its executed copy; the others are shown without outputs.
        repository: for the buttons that open a notebook elsewhere.
    """
    if source.exists():
        shutil.rmtree(source)
    root = project_root()
    shutil.copytree(root / "docs" / "site", source)
    for pattern in SHOWN:
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8").replace("](site/", "](/")
            target = source / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(diagram.drawn(text), encoding="utf-8")
            _take_along(path, text, source)
    for folder in ("notebooks", "downloads"):
        (source / folder).mkdir(exist_ok=True)
    for notebook in reproduce.notebooks():
        shutil.copy(notebook, source / "downloads")
        copy = copies.get(notebook.stem)
        shown = nbformat.read(copy or notebook, as_version=4)
        words = buttons(notebook.stem, repository) + ("" if copy else f"\n\n{NOT_EXECUTED}")
        nbformat.write(with_buttons(shown, words), source / "notebooks" / notebook.name)


def _take_along(page: Path, text: str, source: Path) -> None:
    """Copy the files of the checkout that a page links to and that are no pages themselves."""
    root = project_root()
    for address in LINK.findall(text):
        target = (page.parent / address).resolve()
        if not target.is_file() or not target.is_relative_to(root) or target.suffix == ".md":
            continue
        copied = source / target.relative_to(root)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, copied)


def buttons(name: str, repository: Repository | None) -> str:
    """A line of MyST with which a notebook is downloaded or opened elsewhere."""
    links = [f"{{download}}`Download the notebook </downloads/{name}.ipynb>`"]
    if repository:
        links += [
            f"[Open in Colab]({repository.colab(name)})",
            f"[Open in Binder]({repository.binder(name)})",
        ]
    hint = f"\n\n{COLAB_HINT.format(address=repository.address)}" if repository else ""
    return ":::{container} buttons\n" + "\n".join(links) + f"\n:::{hint}"


def with_buttons(book: nbformat.NotebookNode, words: str) -> nbformat.NotebookNode:
    """A notebook with the buttons below its title, and without what only its kernel needs.

    Widgets are shown as the picture beside them: without a kernel they do nothing. What was printed
    does not tell where on this machine the checkout is.
    """
    here = f"{project_root()}/"
    book.cells[0].source += f"\n\n{words}"
    book.metadata.pop("widgets", None)
    book.metadata.pop("papermill", None)
    for cell in book.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            if "text" in output:
                output.text = output.text.replace(here, "")
    return book
