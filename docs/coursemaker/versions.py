"""The assignments as an nbgrader course: sources with the checks beside them, and what is made."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from fedlib.errors import Failure

COURSE = Path(__file__).resolve().parents[1] / "course"
CONFIG = """\
c = get_config()
c.CourseDirectory.course_id = "fedlib"
c.CourseDirectory.solution_directory = "instructor"
c.Execute.timeout = 600  # seconds a cell
"""
ROW = re.compile(r"^\| \[(\d+) ([^\]]+)\][^|]*\|([^|]*)\|", re.MULTILINE)


def sessions() -> dict[int, tuple[str, list[str]]]:
    """Session -> its title and its notebooks, as the table of docs/course/README.md has them."""
    table = (COURSE / "README.md").read_text(encoding="utf-8")
    return {
        int(number): (title, re.findall(r"(\w+)\.ipynb", notebooks))
        for number, title, notebooks in ROW.findall(table)
    }


def gather(folder: Path) -> list[str]:
    """Write an nbgrader course's sources and configuration; what students handed in stays.

    Args:
        folder: of the course.

    Returns:
        the assignments' names.
    """
    source = folder / "source"
    if source.exists():
        shutil.rmtree(source)
    shutil.copytree(COURSE / "assignments", source, ignore=shutil.ignore_patterns(".*"))
    names = sorted(path.name for path in source.iterdir())
    for name in names:
        checks = source / name / "checks"
        checks.mkdir()
        for module in ("__init__", "compare", name):
            shutil.copy(COURSE / "checks" / f"{module}.py", checks)
    (folder / "nbgrader_config.py").write_text(CONFIG, encoding="utf-8")
    return names


def make(folder: Path, names: list[str]) -> Iterator[str]:
    """Have nbgrader write ``release/`` for students and ``instructor/``, executed.

    Args:
        folder: of the course, from :func:`gather`.
        names: of assignments.

    Yields:
        an assignment's name when it is done.

    Raises:
        Failure: nbgrader fails, or an instructor's version does when it is executed.
    """
    for name in names:
        nbgrader(folder, "generate_assignment", name, "--force")
        nbgrader(folder, "generate_solution", name, "--force")
        text = (folder / "instructor" / name / f"{name}.ipynb").read_text(encoding="utf-8")
        if '"output_type": "error"' in text:
            raise Failure(f"{name}: the instructor's version fails; open it in {folder}/instructor")
        yield name


def nbgrader(folder: Path, command: str, *words: str) -> str:
    """Run a command of nbgrader in a course's folder; returns what it logs.

    Raises:
        Failure: it is not installed, or it fails; the message has the last line of its log.
    """
    if find_spec("nbgrader") is None:
        raise Failure("nbgrader is not installed; make course installs it")
    line = [sys.executable, "-m", "nbgrader", command, *words]
    programs = Path(sys.executable).parent  # nbgrader calls alembic by its name
    variables = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failure(f"nbgrader {command} {' '.join(words)}: {last}")
    return done.stderr
