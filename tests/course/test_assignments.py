"""Every session has an assignment in nbgrader's form, and the course's answers pass its checks."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.course import books

# Points of docs/course/README.md: a prediction, an exercise with its derivation, an experiment,
# and what it does not show.
POINTS = {"prediction": 1, "derivation": 1, "experiment_answer": 4, "limits": 2}


@pytest.mark.parametrize("name", books.NAMES)
def test_an_assignment_has_its_parts_and_ten_points(name: str) -> None:
    cells = books.read(name).cells
    about = [cell.metadata.nbgrader for cell in cells]
    assert all(each.schema_version == 3 and each.locked != each.solution for each in about)
    assert len({each.grade_id for each in about}) == len(about)
    by_hand = {
        each.grade_id: each.points
        for cell, each in zip(cells, about, strict=True)
        if books.kind(cell) == "answer"
    }
    assert by_hand == POINTS
    tests = [cell.metadata.nbgrader.points for cell in cells if books.kind(cell) == "test"]
    assert sum(tests) == 2 and sum(by_hand.values()) + sum(tests) == 10


@pytest.mark.parametrize("name", books.NAMES)
def test_cells_hold_what_their_kind_says(name: str) -> None:
    book = books.read(name)
    for source in books.sources(book, "solution").values():
        assert source.count("### BEGIN SOLUTION") == source.count("### END SOLUTION") == 1
    for source in books.sources(book, "test").values():
        assert source.count("### BEGIN HIDDEN TESTS") == 1
        assert source.rstrip().endswith("### END HIDDEN TESTS")
    for source in books.sources(book, "answer").values():
        assert "**Marking.**" in source
    shown = "\n".join(books.sources(book, "text", "code").values())
    assert "BEGIN" not in shown and "Marking" not in shown
    for cell in book.cells:
        if cell.cell_type == "code":
            assert cell.outputs == [] and cell.execution_count is None
            assert max(map(len, cell.source.splitlines())) <= 100


@pytest.mark.parametrize("name", books.NAMES)
def test_a_stub_keeps_signature_and_docstring(name: str) -> None:
    for function, source in books.functions(books.read(name)).items():
        left = ast.parse(books.stub(source)).body[0]
        assert isinstance(left, ast.FunctionDef) and left.name == function
        text = ast.get_docstring(left) or ""
        assert "Args:" in text and [argument.arg for argument in left.args.args]
        assert isinstance(left.body[-1], ast.Raise) and len(left.body) == 2


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """What executing both versions of every notebook gave: the error of each cell that has one."""
    target = tmp_path_factory.mktemp("course") / "reports.json"
    script = Path(__file__).with_name("execute.py")
    line = [sys.executable, str(script), str(target)]
    done = subprocess.run(line, cwd=script.parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, str]] = json.loads(target.read_text(encoding="utf-8"))
    return found


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.parametrize("name", books.NAMES)
def test_the_courses_answers_pass(reports: dict[str, dict[str, str]], name: str) -> None:
    assert reports[f"{name} instructor"] == {}


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.parametrize("name", books.NAMES)
def test_a_students_stubs_fail(reports: dict[str, dict[str, str]], name: str) -> None:
    errors = reports[f"{name} student"]
    tested = books.sources(books.read(name), "test")
    assert {cell: errors.get(cell, "passes") for cell in tested} == dict.fromkeys(
        tested, "NotImplementedError: "
    )
    # The experiment fails as a stub does; what runs the functions fails with them.
    assert set(errors) - set(tested) == {"run", "experiment"}
    assert {errors["run"], errors["experiment"]} == {"NotImplementedError: "}
