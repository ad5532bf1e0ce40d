"""The pages of docs/ and figures/ say what the code, the notebooks and published runs say."""

import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest

from docs import gallery, tables
from fedlib.reproduction.fedopt.figures import MEAN_IMAGE

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.slow
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("page", tables.PAGES)
def test_tables_are_those_that_the_code_makes(page):
    """``make docs`` writes them."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert tables.filled(page, text) == text
    # Also where a line ends inside a comment.
    meant = re.findall(rf"<!--\s(?:{'|'.join(tables.FACTS)})\b", text)
    assert len(tables.NUMBER.findall(text)) == len(meant)


SAID = {p: (ROOT / "docs" / p).read_text("utf-8") for p in tables.PAGES if p.startswith("results")}


def text_of(notebook):
    """A notebook's prose, each cell in one line."""
    (path,) = (ROOT / "notebooks").glob(f"{notebook}_*.ipynb")
    cells = nbformat.read(path, as_version=4).cells
    return [" ".join(cell.source.split()) for cell in cells if cell.cell_type == "markdown"]


DECISIVE = re.compile(
    r"(\d+) of the (\d+) decisive numbers of (Tables? [\w ]+?) on (Synthetic|(?:Fashion-)?MNIST)"
)


@pytest.mark.parametrize(("notebook", "times"), [("23", 2), ("26", 2), ("39", 2)])
def test_notebooks_count_the_decisive_numbers_that_agree_as_the_pages_do(notebook, times):
    said = DECISIVE.findall(" ".join(text_of(notebook)))
    for agree, decisive, item, data in said:
        task = data.lower().replace("-", "_")
        paper = "adafedadam" if task == "synthetic" else "delta_sgd"
        items = item.replace("Tables", "Table").replace(" and ", " + Table ")
        assert tables.agreeing(paper, items, task) == f"{agree} of {decisive}", (item, data)
    assert len(said) == times


def numbers_of(id, choose="", *columns, digits=(1,)):
    """The numbers in some columns of a committed table's or figure's rows, as they are written."""
    frame = pd.read_csv(ROOT / "figures" / f"{id}.csv")
    values = (frame.query(choose) if choose else frame)[[*columns]].to_numpy().ravel()
    return {f"{value:.{n}f}" for value in values for n in digits}


def numbers_in(page, table):
    """The numbers in a table of a page of results, which the code writes."""
    (shown,) = [found[0] for found in tables.MARKS.finditer(SAID[page]) if found[2] == table]
    return set(re.findall(r"\d+\.\d", shown))


def ends_of(task):
    """The last means of FedOpt's runs of a task, and Table 1's."""
    last = pd.read_csv(ROOT / "figures" / "fedopt" / "figure_1.csv").query("task == @task")
    printed = numbers_of("fedopt/table_1", f"task == '{task}'", "ours", "printed")
    return printed | {f"{value:.1f}" for value in last.groupby("algorithm")["line"].last()}


def accuracies_of(file, evaluations):
    """The mean test accuracies of published runs over their last evaluations, in percent."""
    runs = pd.read_parquet(ROOT / "data" / "results" / f"{file}.parquet")
    tested = runs.query("split == 'test' and metric == 'accuracy' and client.isna()")
    last = tested.sort_values("round").groupby("run")["value"]
    return {f"{100 * values.tail(evaluations).mean():.1f}" for _, values in last}


def decays():
    """By how much a falling client rate changes Table 11's numbers."""
    table = pd.read_csv(ROOT / "figures" / "fedopt" / "table_11.csv")
    table = table.pivot(index="method", columns="column", values=["ours", "printed"])
    changes = [table[of]["ExpDecay"] - table[of]["constant"] for of in ("ours", "printed")]
    return {f"{abs(change):.1f}" for change in pd.concat(changes)}


BOTH = ("ours", "printed")
# A notebook, how the sentences of its summary begin, and where their numbers stand.
SUMMED_UP = [
    ("10", "On the real images", ends_of("cifar10")),
    ("11", "On the real images", ends_of("cifar100")),
    ("12", "On the real images", numbers_of("fedopt/table_1", "task == 'emnist_cr'", *BOTH)),
    ("13", "How long the plateau", ends_of("emnist_ae") | {str(*MEAN_IMAGE.values())}),
    ("14", "The table has", ends_of("shakespeare") | accuracies_of("14_shakespeare_laptop", 4)),
    ("15", "With few rounds", ends_of("stackoverflow_nwp")),
    ("16", "On real posts", ends_of("stackoverflow_lr")),
    ("20", "On real FEMNIST", numbers_of("adafedadam/table_5", "task == 'fair_femnist'", *BOTH)),
    ("25", "On the plays", numbers_of("mime/table_2", "task == 'shakespeare'", *BOTH)),
    ("25", "On Stack Exchange", numbers_of("mime/table_2", "task == 'stackoverflow_nwp'", "ours")),
    ("31", "On letters", numbers_of("fedopt/figure_13", "task == 'emnist_cr'", "performance")),
    ("31", "On real tags", numbers_of("fedopt/figure_13", "task != 'emnist_cr'", "performance")),
    ("33", "Decay is a trade", decays()),
    (
        "34",
        "From α = 1",
        numbers_of("adafedadam/figure_3", "panel == 'front'", "error", digits=(2,))
        | numbers_of("adafedadam/figure_3", "panel == 'front'", "rsd", digits=(3,)),
    ),
    (
        "34",
        "All other",
        numbers_of("adafedadam/figure_3", "algorithm == 'qfedavg'", "error")
        | numbers_of("adafedadam/figure_3", "algorithm == 'qfedavg'", "rsd", digits=(2,)),
    ),
    ("35", "On CIFAR-10's silos", numbers_in("results/adafedadam.md", "work")),
    ("37", "So Table 3's claim", numbers_of("adafedadam/table_7", "", "ours")),
    ("38", "On 105 writers", numbers_in("results/mime.md", "ablation")),
    ("39", "Figure 6 and Table 7", numbers_of("delta_sgd/table_7", "", "mean", "std")),
]


@pytest.mark.parametrize(("notebook", "begins", "known"), SUMMED_UP)
def test_numbers_in_summaries_are_those_of_the_tables_and_figures(notebook, begins, known):
    summary = next(text for text in text_of(notebook) if text.startswith("## Summary"))
    (said,) = [text for text in summary.split(" - ") if text.startswith((begins, f"- {begins}"))]
    said = re.sub(r"\$[^$]*\$", "", said)
    numbers = set(re.findall(r"\d+\.\d+", said))
    assert numbers and numbers <= known, numbers - known


HOURS = re.compile(r"^\| `(\w+)` \|.*\| ([\d.]+) \| [^|]* \|$", re.M)


def test_cards_of_notebooks_have_the_core_hours_of_the_pages():
    pages = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "results").glob("*.md"))
    hours, said = dict(HOURS.findall(pages)), {}
    for name in hours:
        card = (ROOT / "notebooks" / f"{name}.ipynb").read_text("utf-8")
        hours_said = re.search(r"laptop[^;:]*: ([\d.]+) core-hours", card)
        said[name] = hours_said and hours_said[1]
    assert said == hours and len(hours) > 20


def test_the_index_of_figures_is_the_gallerys():
    figures = ROOT / "figures"
    assert (figures / "README.md").read_text(encoding="utf-8") == gallery.page(figures)


# The pages of the site lead to pages that are made with it, whose links its build checks.
READ_HERE = [page for page in PAGES if ROOT / "docs" / "site" not in page.parents]


@pytest.mark.parametrize("page", READ_HERE, ids=lambda path: path.name)
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)[^)]*\)|src=\"([^\"]+)\"", text)
    local = [first or second for first, second in links if not (first or second).startswith("http")]
    missing = [link for link in local if not (page.parent / link).exists()]
    assert not missing, f"{page.name}: {missing}"


@pytest.mark.parametrize("page", ["README.md", "docs/library.md"])
def test_python_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where they save their pictures
    text = (ROOT / page).read_text(encoding="utf-8")
    names = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(example, page, "exec"), names)
    for name, percent in re.findall(r"(Fed\w+)(?: ends)? at (\d+) %", text):
        assert f"{100 * names[name.lower()].final(window=1):.0f}" == percent
