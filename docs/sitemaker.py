"""``python -m docs.sitemaker`` (``make site``): the site's sources, in build/site-work.

Notebooks without a current copy are executed, the papers' figures drawn from the published runs,
and the gallery's pages written. docs/site/conf.py does the rest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from nbformat import NotebookNode

from docs import gallery
from docs.executed import executed
from fedlib.errors import Error, Failure
from fedlib.paths import project_root
from fedlib.reproduction import draw, reproduce
from fedlib.results.store import Store

ROOT = project_root()
WORK = ROOT / "build" / "site-work"


def execute() -> None:
    """Execute the notebooks that have no current copy, at the quick preset into build/executed.

    Data and figures are in build/site-work, so the user's prepared data are not read. Pictures that
    move in JupyterLab move on the site, too, as all of them are kept.

    Raises:
        Failure: a notebook failed, after all have been tried.
    """
    missing = [path.stem for path in reproduce.notebooks() if not _current(executed(path))]
    if not missing:
        return
    own = {"FEDLIB_DATA": str(WORK / "data"), "FEDLIB_FIGURES": str(WORK / "figures")}
    own["FEDLIB_EXPLORE"] = "all"
    command = [sys.executable, "-m", "fedlib", "reproduce", *missing, "--jobs=2"]
    if subprocess.run(command, env=os.environ | own).returncode:
        raise Failure("notebooks failed, see above")


def _current(copy: NotebookNode | None) -> bool:
    """Whether there is a copy, with all pictures of those that move."""
    return copy is not None and all(
        any("text/html" in output.get("data", {}) for output in cell.outputs)
        for cell in copy.cells
        if cell.cell_type == "code" and "notebook.explore(" in cell.source
    )


def sources(source: Path) -> None:
    """Lay out the site's sources as the checkout is, so that links hold in both places."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs" / "site", source)
    left_out = shutil.ignore_patterns("__pycache__", "site", "*.xz", "*.parquet", "quick")
    for name in ("data/results", "docs", "fedlib", "figures", "notebooks", "tests"):
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    for path in (*ROOT.glob("*.md"), *ROOT.glob("[CL]*"), ROOT / "data" / "README.md"):
        shutil.copy(path, source / path.relative_to(ROOT))


def main() -> None:
    """Prepare the sources."""
    parser = argparse.ArgumentParser(prog="make site", description=__doc__)
    about = "show notebooks without a current copy as is"
    parser.add_argument("--no-execute", action="store_true", help=about)
    given = parser.parse_args()
    os.environ.setdefault("FEDLIB_PROGRESS", "0")
    source, figures = WORK / "source", WORK / "figures-published"
    try:
        if not given.no_execute:
            execute()
        print("Drawing the figures from the published runs ...", flush=True)
        draw.redraw(
            gallery.ids(), Store(WORK / "none", published=[ROOT / "data" / "results"]), figures
        )
        sources(source)
        gallery.site(figures, source / "gallery")
        shutil.copytree(figures, source / "gallery" / "drawn")
    except Error as problem:
        sys.exit(f"make site: {problem}")


if __name__ == "__main__":
    main()
