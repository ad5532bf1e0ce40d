"""In JupyterLab, in a real browser: a notebook runs, and a moved slider moves the picture.

Skipped without chromium and its driver.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.common.exceptions import WebDriverException  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SLIDER = ".jp-OutputArea-output .noUi-handle"
PICTURES = ".jp-OutputArea-output img.widget-image"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
MODEL = "window.jupyterapp.shell.currentWidget.content.model"
# Scrolls to the first cell with a slider.
SHOW = f"""
const cells = {MODEL}.toJSON().cells;
const index = cells.findIndex(cell => cell.source.includes('notebook.explore('));
window.jupyterapp.shell.currentWidget.content.scrollToItem(index, 'center');
document.querySelector('{SLIDER}')?.scrollIntoView({{block: 'center'}});
"""
CELL = """\
import matplotlib.pyplot as plt
from fedlib import notebook

def line(slope=1.0):
    plt.plot([0, 1], [0, slope])

notebook.start("")
notebook.explore(line, slope=[0.0, 1.0, 2.0])
"""

pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no chromium with chromedriver on this machine"
)


@pytest.fixture(scope="module")
def lab() -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a JupyterLab that serves it: of its workspaces."""
    folder = FOLDER.parent / "build" / "lab"  # in the checkout, whose published runs 90 reads
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
    command += [
        "--LabApp.expose_app_in_browser=True",
        "--IdentityProvider.token=",
        "--ServerApp.password=",
    ]
    variables = {"FEDLIB_DATA": str(folder / "data"), "FEDLIB_FIGURES": str(folder / "figures")}
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)
        try:
            yield folder, f"http://127.0.0.1:{port}/lab/workspaces"
        finally:
            server.terminate()
            server.wait(60)


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--window-size=1280,1600"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


def pictures(browser: webdriver.Chrome) -> list[str]:
    """The pictures that belong to controls."""
    images = browser.find_elements(By.CSS_SELECTOR, PICTURES)
    return [str(image.get_attribute("src")) for image in images]


def opened(browser: webdriver.Chrome, address: str, name: str, seconds: int) -> WebDriverWait:
    """Open a notebook, in a workspace without others.

    Returns:
        what waits so many seconds.
    """
    wait = WebDriverWait(browser, seconds, ignored_exceptions=(WebDriverException,))
    wait.until(lambda _: browser.get(f"{address}/{name}/tree/{name}.ipynb") is None)
    wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, ".jp-Notebook-cell"))
    return wait


def run_all(browser: webdriver.Chrome, address: str, name: str, seconds: int) -> WebDriverWait:
    """:func:`opened`, and run all its cells.

    Returns:
        what waits so many seconds.
    """
    wait = opened(browser, address, name, seconds)
    # Before the kernel is there, "run all" opens a dialog that asks for one.
    wait.until(lambda _: browser.execute_script(f"return {KERNEL}.status === 'idle'"))
    browser.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells');")
    return wait


def executed(browser: webdriver.Chrome) -> tuple[list[int | None], list[str]]:
    """The counts of a notebook's code cells, and the errors that its outputs hold."""
    cells = browser.execute_script(f"return {MODEL}.toJSON().cells")
    codes = [cell for cell in cells if cell["cell_type"] == "code" and cell["source"]]
    outputs = [output for cell in codes for output in cell["outputs"]]
    errors = [output["evalue"] for output in outputs if output["output_type"] == "error"]
    return [cell["execution_count"] for cell in codes], errors


def moved_picture(browser: webdriver.Chrome, address: str, name: str, seconds: int) -> bool:
    """Run all cells of a notebook, move its first slider, and see whether its picture changes."""
    wait = run_all(browser, address, name, seconds)
    # While cells run, JupyterLab scrolls to the one that runs and takes the others off the page.
    wait.until(lambda _: None not in executed(browser)[0])

    def shown() -> list[str]:
        browser.execute_script(SHOW)
        handle = browser.find_element(By.CSS_SELECTOR, SLIDER)
        return pictures(browser) if handle.is_displayed() else []

    before = wait.until(lambda _: shown())
    browser.find_element(By.CSS_SELECTOR, SLIDER).send_keys(Keys.ARROW_RIGHT)
    return bool(wait.until(lambda _: pictures(browser) not in ([], before)))


def test_a_picture_follows_its_slider(lab: tuple[Path, str], browser: webdriver.Chrome) -> None:
    folder, address = lab
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, folder / "slider.ipynb")
    assert moved_picture(browser, address, "slider", 300)
