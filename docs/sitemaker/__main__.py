"""``python -m docs.sitemaker`` (``make site``): the site of the documentation, in build/site."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docs.sitemaker import executed, gallery, links, repository, sources
from fedlib.errors import Error
from fedlib.paths import project_root
from fedlib.reproduction import draw, reproduce
from fedlib.results.store import Store


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make site", description=__doc__)
    parser.add_argument(
        "--no-execute", action="store_true", help="show notebooks without a current copy unexecuted"
    )
    parser.add_argument("--jobs", type=int, default=2, help="notebooks at once (default 2)")
    return parser.parse_args(words)


def make(execute: bool, jobs: int) -> tuple[Path, int]:
    """Build the site.

    Args:
        execute: whether notebooks without a current executed copy are executed.
        jobs: how many of them at once.

    Returns:
        the folder of the site and how many links into it were followed.

    Raises:
        Error: a notebook that fails, Sphinx's warnings, or a link that leads nowhere.
    """
    build = project_root() / "build"
    work, site = build / "site-work", build / "site"
    folders = (build / "executed", work / "executed")
    copies = executed.current(folders)
    missing = [path.stem for path in reproduce.notebooks() if path.stem not in copies]
    if missing and execute:
        print(f"Executing {len(missing)} notebooks, {jobs} at once ...", flush=True)
        for done in executed.execute(missing, work, jobs):
            print(f"  {done.name}  {done.seconds:.0f} s  {done.error or 'ok'}", flush=True)
        copies = executed.current(folders)
    print("Drawing the figures from the published runs ...", flush=True)
    _redraw(work / "figures-published")
    sources.gather(work / "source", copies, repository.configured())
    gallery.write(work / "figures-published", work / "source" / "gallery")
    print("Building the pages ...", flush=True)
    _sphinx(work / "source", site, work / "doctrees", execute)
    count, problems = links.check(site)
    if problems:
        raise Error(f"{len(problems)} of {count} links are dead: {'; '.join(problems[:20])}")
    return site, count


def _redraw(figures: Path) -> None:
    """Draw the papers' figures, unless they lie there and neither code nor runs have changed."""
    root = project_root()
    made_from = [*(root / "fedlib").rglob("*.*"), *(root / "data" / "results").rglob("*.*")]
    state = hashlib.sha256()
    for path in sorted(made_from):
        if path.is_file() and path.suffix != ".pyc":
            state.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    stamp = figures / "drawn-from"
    if stamp.is_file() and stamp.read_text() == state.hexdigest():
        return
    published = Store(figures / "none" / "runs", published=[root / "data" / "results"])
    draw.redraw(gallery.ids(), published, figures)
    stamp.write_text(state.hexdigest())


def _sphinx(source: Path, site: Path, doctrees: Path, execute: bool) -> None:
    """Run Sphinx over all sources, quietly; its warnings are errors."""
    # Here, because the processes that execute notebooks import this module, too.
    from sphinx.application import Sphinx
    from sphinx.util.docutils import patch_docutils

    if site.exists():
        shutil.rmtree(site)
    settings: dict[str, Any] = {} if execute else {"nb_execution_mode": "off"}
    with patch_docutils(str(source)):
        app = Sphinx(
            *(source, source, site, doctrees, "html"),
            confoverrides=settings,
            status=None,
            warning=sys.stderr,
            freshenv=True,
        )
        app.build(force_all=True)
    if app._warncount:
        raise Error(f"Sphinx gave {app._warncount} warnings; mend what they name")


def main() -> None:
    """Build, and say what was built."""
    given = arguments()
    os.environ.setdefault("FEDLIB_PROGRESS", "0")
    try:
        site, count = make(not given.no_execute, given.jobs)
    except Error as problem:
        print(f"make site: {problem}", file=sys.stderr)
        sys.exit(1)
    megabytes = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    print(f"{site / 'index.html'}: {len(links.pages(site))} pages, {megabytes:.1f} MB,", end=" ")
    print(f"{count} links within the site, none dead")


if __name__ == "__main__":
    main()
