"""Sphinx's settings. ``python -m docs.sitemaker`` prepares the sources."""

import json
from typing import Any

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.typing import ExtensionMetadata

from docs.executed import executed
from docs.mathml import mathml
from fedlib import __version__
from fedlib.errors import Error
from fedlib.paths import project_root

project = "fedlib"
author = "The fedlib authors"
version = release = __version__
root_doc = "index"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
# The sources are laid out as the checkout; these of it are pages.
include_patterns = ["*.md", "api/*", "data/*", "docs/**", "gallery/*", "guides/*", "notebooks/*"]
exclude_patterns = ["README.md", "docs/site/**", "docs/course/assignments/**", "figures/**"]

# Pages
html_theme = "furo"
html_title = f"fedlib {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("explore.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "tango"
pygments_dark_style = "github-dark"
html_theme_options = {
    "navigation_with_keys": True,
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#0b5a8f", "color-brand-content": "#0b5a8f"},
    "dark_css_variables": {"color-brand-primary": "#6bb7e8", "color-brand-content": "#6bb7e8"},
}

# Text
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Notebooks arrive executed; of the text pages that run code the outputs are made here.
nb_execution_mode = "force"
nb_execution_excludepatterns = ["notebooks/*"]
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_ipywidgets_js: dict[str, str] = {}
nb_merge_streams = True
nb_output_stderr = "remove"
# A widget is shown as the picture beside it: without a kernel it does nothing.
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]

# API
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(?!fedlib\.).*")]
# Named by docstrings, but no part of the interface.
nitpick_ignore = [
    ("py:func", "fedlib.randomness.dropout"),
    ("py:data", "fedlib.figures.style.LOOKS"),
    ("py:func", "fedlib.figures.style.key"),
    ("py:class", "fedlib.models.Softmax"),
]

log = logging.getLogger(__name__)
ROOT = project_root()
# Where links of the checkout lead on the site.
MOVED = dict.fromkeys(("site/", "docs/site/", "../docs/site/"), "/")
MOVED["../figures/README.md"] = "/gallery/index.md"
LONGEST = 40_000  # letters of a page that the search shows excerpts of
# The pages below docs/notebooks.md: the groups of notebooks, then the course.
TOCTREE = "\n\n```{toctree}\n:hidden:\n:titlesonly:\n:glob:\n\n/gallery/notebooks_*\n"
TOCTREE += "/docs/course/README\n/docs/course/*\n```\n"


def read(app: Sphinx, name: str, source: list[str]) -> None:
    """Show a notebook as it was executed. No output names the checkout's place on this machine.

    docs/site is the top of the site.
    """
    if name == "docs/notebooks":
        source[0] += TOCTREE
    if name.startswith("notebooks/"):
        notebook = ROOT / f"{name}.ipynb"
        copy = executed(notebook)
        book = copy or nbformat.read(notebook, as_version=4)
        link = f"{{download}}`Download the notebook </notebooks/{notebook.name}>`"
        book.cells[0].source += f"\n\n:::{{container}} buttons\n{link}\n:::\n"
        for cell in book.cells:
            if "self-check" in cell.metadata.get("tags", []):
                cell.metadata["tags"].append("hide-input")
        if copy is None:
            book.cells[0].source += "\n\n*This site was made without executing the notebook.*"
        source[0] = nbformat.writes(book).replace(f"{ROOT}/", "")
    for own, there in MOVED.items():
        source[0] = source[0].replace(f"]({own}", f"]({there}")


def formula(block: bool) -> Any:
    """How Sphinx writes a formula."""

    def visit(translator: Any, node: nodes.Element) -> None:
        try:
            markup = mathml(node.astext(), block)
        except Error as problem:
            log.warning("%s", problem, location=node)
            raise nodes.SkipNode from problem
        name, anchors = ("div", node.get("ids", [])) if block else ("span", [])
        translator.body.append(translator.starttag(node, name, "", CLASS="math", ids=anchors))
        translator.body.append(f"{markup}</{name}>")
        raise nodes.SkipNode

    return visit


def on_search(app: Sphinx, page: str, *_: Any) -> None:
    """Have the page of the search take its excerpts from a file: a browser that has opened the
    site from a folder lets it load no other page.
    """
    if page == "search":
        app.add_js_file("excerpts.js", priority=100)


def write_excerpts(app: Sphinx, problem: Exception | None) -> None:
    """Write excerpts.js: the words of all pages, and what hands them to Sphinx's search."""
    if problem is None:
        docs = sorted(app.env.found_docs)
        words = {name: app.env.get_doctree(name).astext()[:LONGEST] for name in docs}
        source = (ROOT / "docs/site/excerpts.js").read_text(encoding="utf-8")
        text = f"const PAGES = {json.dumps(words)};\n{source}"
        (app.outdir / "_static" / "excerpts.js").write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> ExtensionMetadata:
    """What Sphinx calls first."""
    app.connect("html-page-context", on_search)
    app.connect("build-finished", write_excerpts)
    app.connect("source-read", read)
    app.add_html_math_renderer("mathml", (formula(False), None), (formula(True), None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
