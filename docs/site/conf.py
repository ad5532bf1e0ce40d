"""Sphinx's settings; ``python -m docs.sitemaker`` gathers the sources and runs it."""

from docs.sitemaker.repository import configured
from fedlib import __version__

project = "fedlib"
author = "The fedlib authors"
version = release = __version__
root_doc = "index"
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "docs.sitemaker.mathml",
]
exclude_patterns = ["README.md", "downloads"]

# Pages
html_theme = "furo"
html_title = f"fedlib {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style = "tango"
pygments_dark_style = "github-dark"
repository = configured()
html_theme_options = {
    "navigation_with_keys": True,
    "footer_icons": [],
    "light_css_variables": {"color-brand-primary": "#0b5a8f", "color-brand-content": "#0b5a8f"},
    "dark_css_variables": {"color-brand-primary": "#6bb7e8", "color-brand-content": "#6bb7e8"},
}

# Text
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# Notebooks arrive executed; of the text pages that run code the outputs are made here.
nb_execution_mode = "force"
nb_execution_excludepatterns = ["notebooks/*"]
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_ipywidgets_js = {}
nb_merge_streams = True
nb_output_stderr = "remove"

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
]
