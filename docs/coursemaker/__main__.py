"""``python -m docs.coursemaker`` (``make course``): assignments and slides, in build/course."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from docs.coursemaker import versions
from docs.sitemaker import executed
from fedlib.errors import Error
from fedlib.paths import project_root


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    build = project_root() / "build"
    parser = argparse.ArgumentParser(prog="make course", description=__doc__)
    add = parser.add_argument
    add("--to", type=Path, default=build / "course", help="the course's folder (build/course)")
    add(
        "--executed",
        type=Path,
        default=build / "executed",
        help="executed notebooks, for the slides (build/executed, of make reproduce)",
    )
    add("--only", choices=("assignments", "slides"), help="one of the two")
    add("--session", type=int, action="append", help="one session; may be repeated")
    return parser.parse_args(words)


def main() -> None:
    """Make what is asked for, and say where it lies."""
    given = arguments()
    folder, wanted = given.to.resolve(), given.session or sorted(versions.sessions())
    try:
        if unknown := sorted(set(wanted) - set(versions.sessions())):
            raise Error(f"there is no session {unknown[0]}; known: {sorted(versions.sessions())}")
        folder.mkdir(parents=True, exist_ok=True)
        if given.only != "slides":
            _assignments(folder, wanted)
        if given.only != "assignments":
            _slides(folder / "slides", wanted, given.executed)
    except ModuleNotFoundError as missing:
        sys.exit(f"make course: {missing.name} is not installed; make course installs it")
    except (Error, OSError) as problem:
        sys.exit(f"make course: {problem}")


def _assignments(folder: Path, wanted: Sequence[int]) -> None:
    names = [f"session_{number:02d}" for number in wanted]
    versions.gather(folder)
    for name in versions.make(folder, names):
        print(f"{name}: student's and instructor's version", flush=True)
    print(f"Students: {folder / 'release'}   Instructors: {folder / 'instructor'}")


def _slides(folder: Path, wanted: Sequence[int], copies: Path) -> None:
    from docs.coursemaker import slides  # needs what `make course` installs

    current = executed.current([copies])
    for number in wanted:
        title, notebooks = versions.sessions()[number]
        missing = [name for name in notebooks if name not in current]
        if missing:
            print(f"session {number}: no slides, these must be executed first (make reproduce):")
            print(f"    {' '.join(missing)}", flush=True)
            continue
        target = folder / f"session_{number:02d}.html"
        count = slides.write(
            target, f"Session {number}: {title}", [current[name] for name in notebooks]
        )
        print(f"{target}: {count} slides", flush=True)


if __name__ == "__main__":
    main()
