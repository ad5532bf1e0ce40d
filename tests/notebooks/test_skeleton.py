"""Every notebook has the same parts, is thin, and is stored without outputs.

That exercises have solutions, which are right, is seen where the series runs: test_execution.py.
"""

import ast
import re
from pathlib import Path

import nbformat
import pytest

from fedlib import plans
from fedlib.reproduction import reproduce

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
HEADINGS = ["Card", "Learning goals", "Parameters", "Set-up", "Idea", "Run", "Figures", "Checks"]
HEADINGS += ["Summary", "Exercises", "Next"]
CARD = ("paper", "runtime", "needs", "produces")
SHOWN = {"explore", "code", "figure", "claim", "plan"}
COMMON = {"preset": "", "seed": 0, "device": "auto"}
MACHINE_PATH = re.compile(r"(?<![\w.])/(home|root|tmp|work|Users|mnt|opt|usr|var)/|[A-Z]:\\\\")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def book(path):
    return nbformat.read(path, as_version=4)


def code(book, tag=None):
    return [
        cell
        for cell in book.cells
        if cell.cell_type == "code" and (tag is None or tag in cell.metadata.get("tags", []))
    ]


def markdown(book):
    return [cell.source for cell in book.cells if cell.cell_type == "markdown"]


def tree(book):
    return ast.parse("\n".join(cell.source for cell in code(book)))


def calls(book, name):
    nodes = [node for node in ast.walk(tree(book)) if isinstance(node, ast.Call)]
    return [node for node in nodes if ast.unparse(node.func) == name]


def test_parts_and_links(path, book):
    text = "\n".join(markdown(book))
    assert book.cells[0].source.startswith(f"# {path.stem[:2]} · ")
    assert re.findall(r"^## (.+)$", text, flags=re.M) == HEADINGS
    assert [name for name in CARD if f"| {name} |" not in text] == []
    links = re.findall(r"\]\(([^)]+\.ipynb)\)", text)
    assert [link for link in links if not (FOLDER / link).is_file()] == []


def test_experiments_hold_their_plan_beside_their_parameters(path, book):
    experiment = path.stem[0] in "1234"
    assert (path.stem in plans.planned()) == experiment, "numbers of plans start with 1 to 4"
    if experiment:
        tagged = [cell.metadata.get("tags", []) for cell in book.cells]
        assert tagged.count(["plan"]) == 1
        assert tagged.index(["plan"]) == tagged.index(["parameters"]) + 1


def test_parameters_are_flat_literals_with_a_comment_each(path, book):
    assert len(code(book, "parameters")) == 1
    lines = code(book, "parameters")[0].source.splitlines()
    assert [line for line in lines if not re.fullmatch(r"\w+ = .+  # .+", line)] == []
    values = reproduce.parameters(path)
    assert len(values) == len(lines)
    assert {name: values[name] for name in COMMON} == COMMON
    assert {values[name] for name in values if name not in COMMON} <= {None}
    # The cell with the parameters comes before every other code.
    assert code(book)[0] is code(book, "parameters")[0]


def test_set_up_gives_every_parameter_to_one_call(path, book):
    (start,) = calls(book, "notebook.start")
    assert ast.literal_eval(start.args[0]) == path.stem
    assert [ast.unparse(x) for x in start.args[1:]] == ["plan"] * (path.stem in plans.planned())
    passed = {word.arg: ast.unparse(word.value) for word in start.keywords}
    assert passed == {name: name for name in reproduce.parameters(path)}


def test_nothing_of_a_run_is_stored(path, book):
    for cell in code(book):
        assert cell.outputs == [] and cell.execution_count is None
        assert set(cell.metadata) <= {"tags", "jupyter"}
    assert set(book.metadata) == {"kernelspec", "language_info"}
    assert book.metadata.kernelspec.name == "python3"
    assert not MACHINE_PATH.search(path.read_text(encoding="utf-8"))
    nbformat.validate(book)


def test_thin(path, book):
    """The ideas define the methods once more and draw their own pictures, in the open."""
    most, longest = (340, 20) if "01" <= path.stem[:2] <= "08" else (151, 15)
    cells = [cell for cell in code(book) if cell not in code(book, "plan")]
    lines = [line for cell in cells for line in cell.source.splitlines() if line.strip()]
    assert sum(not line.startswith("# ") for line in lines) <= most
    for node in ast.walk(tree(book)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < longest, f"{node.name} is too long"


def test_what_a_cell_is_to_show_is_its_last_line(book):
    for cell in code(book):
        for statement in ast.parse(cell.source).body[:-1]:
            call = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                assert call.func.attr not in SHOWN, f"{cell.id}: {ast.unparse(call)[:60]} is hidden"


def test_checks_assert(book):
    heads = [cell.source.partition("\n")[0] for cell in book.cells]
    cells = book.cells[heads.index("## Checks") : heads.index("## Summary")]
    checks = ast.parse("\n".join(cell.source for cell in cells if cell.cell_type == "code"))
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(checks)) >= 3


def test_exercises_have_stub_self_check_and_solution(book):
    stubs, checks = code(book, "exercise"), code(book, "self-check")
    assert len(stubs) == len(checks) >= 1
    for number, (stub, check) in enumerate(zip(stubs, checks, strict=True), 1):
        assert stub.source.startswith(f"exercise_{number} = None")
        assert f"exercise_{number}" in check.source
        assert check.metadata["jupyter"] == {"source_hidden": True}  # it is below the question
    solutions = [c.source for c in book.cells if "solution" in c.metadata.get("tags", [])]
    assert len(solutions) == 1 and solutions[0].startswith("<details>")
