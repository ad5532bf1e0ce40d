"""``python -m docs.coursemaker`` (``make course``): assignments and slides, in build/course.

The assignments are an nbgrader course. A deck begins with a session's goals and ends with the
discussion and the assignment. Between them it shows the executed notebooks: the title with its
question, the paragraphs of the idea, the few lines of the library's code that matter, the
prediction to write down, pictures with the paragraph before them, the summary.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from docs.executed import executed
from fedlib import files
from fedlib.errors import Error, Failure
from fedlib.paths import project_root
from fedlib.reproduction import reproduce

COURSE = Path(__file__).parent / "course"
ROW = re.compile(r"^\| \[(\d+) ([^\]]+)\][^|]*\|([^|]*)\|", re.MULTILINE)
TOLD, PICTURES = ("title", "Idea", "Summary"), ("Idea", "Run", "Figures")
HEADING = re.compile(r"^(?=## )", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\.(?:ipynb|md)\)")
# A formula, a table and a text that continues in lower case belong to the block before them.
BETWEEN = re.compile(r"\n\n(?!\$\$|\||[a-z])|\n(?=- )")
# The end of a text that only leads to a cell: a slide without the cell does not say it.
LEADS = re.compile(
    r"(?:^|(?<=[.!?)] )|(?<=\n))[^.!?\n]+(?:\n[^.!?\n]+)*:\s*$|The cell\s+below\b.*", re.DOTALL
)
PART = re.compile(r"\*\*(.+?)\.\*\* (.+?)(?=\n\n\*\*|\Z)", re.DOTALL)  # of a session's plan
PREDICT = "**Predict, then run.**"  # begins a notebook's question to answer before it runs
CODE_LINES = 24  # most lines of code on a slide
LETTERS = 1200  # of a slide. The deck's script shrinks a slide that is still too high


def sessions() -> dict[int, tuple[str, list[str]]]:
    """Session -> its title and its notebooks, as the table of docs/course/README.md has them."""
    table = (COURSE / "README.md").read_text(encoding="utf-8")
    return {
        int(number): (title, re.findall(r"(\w+)\.ipynb", notebooks))
        for number, title, notebooks in ROW.findall(table)
    }


def told(number: int) -> dict[str, str]:
    """The sections of a session's plan in docs/course/README.md, such as Goals, by heading."""
    text = (COURSE / "README.md").read_text(encoding="utf-8")
    plan = text.partition(f"\n## {number} ")[2].partition("\n## ")[0]
    return {heading: LINK.sub(r"\1", said.strip()) for heading, said in PART.findall(plan)}


def assignments(folder: Path, numbers: Iterable[int]) -> None:
    """Have nbgrader write ``release/`` for students and ``instructor/``, executed.

    Submissions and grades stay.

    Args:
        folder: the folder of the nbgrader course.
        numbers: the sessions.

    Raises:
        Failure: nbgrader or an instructor's version fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "source", ignore_errors=True)
    hidden = shutil.ignore_patterns(".*")
    shutil.copytree(COURSE / "assignments", folder / "source", ignore=hidden)
    shutil.copy(COURSE / "nbgrader_config.py", folder)
    for path in (folder / "source").iterdir():
        for name in ("STUDENTS.md", "checks.py"):
            shutil.copy(COURSE / name, path)
    for name in (f"session_{number:02d}" for number in numbers):
        nbgrader(folder, "generate_assignment", name, "--force")
        nbgrader(folder, "generate_solution", name, "--force")
        notebook = folder / "instructor" / name / f"{name}.ipynb"
        if '"output_type": "error"' in notebook.read_text(encoding="utf-8"):
            raise Failure(f"the instructor's version fails: open {notebook}")
        print(f"{name}: student's and instructor's version", flush=True)


def nbgrader(folder: Path, *words: str) -> None:
    """Run a command of nbgrader in a course's folder.

    Raises:
        Failure: the command fails. The message has the last line of its log.
    """
    programs = Path(sys.executable).parent  # nbgrader calls alembic by its name
    variables = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"}
    line = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(line, cwd=folder, env=variables, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Failure(f"nbgrader {' '.join(words)}: {last}")


@dataclass
class Page:
    """A slide: its section, text and pictures."""

    section: str
    text: str
    pictures: list[NotebookNode] = field(default_factory=list)


def pages(book: NotebookNode) -> list[Page]:
    """The slides of an executed notebook."""
    slides: list[Page] = []
    section = "title"
    for cell in book.cells:
        if cell.cell_type == "code":
            pictures = [each for each in cell.outputs if _is_picture(each) or _is_code(each)]
            if pictures and section in PICTURES:
                if section in TOLD or slides[-1].pictures or slides[-1].section != section:
                    slides.append(Page(section, ""))
                slides[-1].pictures = pictures
            elif slides and not slides[-1].pictures:
                slides[-1].text = LEADS.sub("", slides[-1].text).rstrip()
            continue
        for part in HEADING.split(LINK.sub(r"\1", cell.source)):
            if part.startswith("## "):
                section, _, part = part.removeprefix("## ").partition("\n")
            for block in filter(None, BETWEEN.split(part.strip())):
                last = slides[-1] if slides else Page("", "")
                goes_on = section in TOLD and section == last.section and not last.pictures
                if goes_on and len(last.text) + len(block) < LETTERS:
                    last.text += f"\n\n{block}"
                else:
                    slides.append(Page(section, block))
    said = [page.section in TOLD or page.text.startswith(PREDICT) for page in slides]
    return [
        page
        for page, told in zip(slides, said, strict=True)
        if page.pictures or (told and page.text)
    ]


def _is_picture(output: NotebookNode) -> bool:
    """Whether an output is a picture that does not move with a slider."""
    data = output.get("data", {})
    return "image/png" in data and not any("widget-view" in kind for kind in data)


def _is_code(output: NotebookNode) -> bool:
    """Whether an output is a few lines of the library's code, as ``notebook.code`` shows them."""
    text = output.get("data", {}).get("text/markdown", "")
    return text.startswith("```python\n") and text.count("\n") <= CODE_LINES


def deck(title: str, books: Iterable[NotebookNode], plan: dict[str, str] | None = None) -> str:
    """Executed notebooks as slides: HTML that needs nothing besides a browser.

    A section begins a slide, and its further slides lie below it. The page contains reveal.js,
    which comes with the package sphinx-revealjs.

    Args:
        plan: the session's plan, see :func:`told`, for the first and last slides and the notes.

    Raises:
        Error: a formula that cannot be translated.
    """
    from nbconvert.exporters import SlidesExporter
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    from docs.mathml import mathml

    class Renderer(IPythonRenderer):
        """Texts as HTML, formulas as MathML."""

        def block_math(self, body: str) -> str:
            return mathml(body, block=True)

        def inline_math(self, body: str) -> str:
            return mathml(body)

    def slide(text: str, kind: str = "slide") -> NotebookNode:
        return new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}})

    plan = plan or {}
    cells: list[NotebookNode] = []
    if plan:
        cells += [slide(f"# {title}\n\n{plan['Goals']}"), slide(plan["What goes wrong"], "notes")]
    for book in books:
        before = ""
        for page in pages(book):
            begins = page.section != before
            heading = f"## {page.section}\n\n" if begins and page.section != "title" else ""
            cells.append(slide(heading + page.text, "slide" if begins else "subslide"))
            cells.append(new_code_cell(outputs=page.pictures))
            before = page.section
    for part in ("To discuss", "To do", "Assignment"):
        cells += [slide(f"## {part}\n\n{plan[part]}")] if part in plan else []
    for number, cell in enumerate(cells):
        cell.id = f"cell-{number}"
    renderer = Renderer(escape=False, exclude_anchor_links=True)
    exporter = SlidesExporter(
        template_file="deck.html.j2",
        extra_template_paths=[str(COURSE)],
        exclude_input=True,
        exclude_output_prompt=True,
        filters={"markdown2html": MarkdownWithMath(renderer).render},
    )
    reveal = resources.files("sphinx_revealjs") / "_static" / "revealjs" / "dist"
    given = {f"reveal_{kind}": (reveal / f"reveal.{kind}").read_text() for kind in ("js", "css")}
    book = new_notebook(cells=cells, metadata={"title": title})
    return str(exporter.from_notebook_node(book, resources=given)[0])


def decks(folder: Path, numbers: Iterable[int]) -> None:
    """Write the sessions' decks.

    Raises:
        Failure: notebooks of some sessions are not executed. The other decks are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    without, needed = [], []
    for number in numbers:
        title, names = sessions()[number]
        books = {path.stem: executed(path) for path in reproduce.notebooks(names)}
        if missing := [name for name, book in books.items() if book is None]:
            without.append(str(number))
            needed += missing
            continue
        target = folder / f"session_{number:02d}.html"
        shown = [book for book in books.values() if book is not None]
        text = deck(f"Session {number}: {title}", shown, told(number))
        files.write(target, text.encode())
        print(target, flush=True)
    if needed:
        raise Failure(
            f"no slides yet of session {', '.join(without)}: they show executed notebooks. First\n"
            f'  make reproduce ARGS="{" ".join(needed)}"\nthen\n  make course ARGS="--only slides"'
        )


def main() -> None:
    """Make the assignments, the slides, or both."""
    parser = argparse.ArgumentParser(prog="make course", description=__doc__)
    add = parser.add_argument
    default = project_root() / "build" / "course"
    add("--to", type=Path, default=default, help="the course's folder (build/course)")
    add("--only", choices=("assignments", "slides"), help="one of the two")
    known = list(sessions())
    add("--session", type=int, action="append", choices=known, help="one session (may be repeated)")
    given = parser.parse_args()
    folder, numbers = given.to.resolve(), given.session or known
    try:
        if given.only != "slides":
            assignments(folder, numbers)
        if given.only != "assignments":
            decks(folder / "slides", numbers)
    except ModuleNotFoundError as missing:
        sys.exit(f"make course: {missing.name} is not installed; make course installs it")
    except (Error, OSError) as problem:
        sys.exit(f"make course: {problem}")


if __name__ == "__main__":
    main()
