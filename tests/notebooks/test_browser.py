"""In JupyterLab, in a real browser: a notebook runs, and a moved slider moves the picture.

Skipped without chromium and its driver.
"""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.common.exceptions import WebDriverException  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
SLIDER = ".jp-OutputArea-output .noUi-handle"
PICTURES = ".jp-OutputArea-output img.widget-image"
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
CELL = """\
import matplotlib.pyplot as plt
from fedlib import notebook

def line(slope=1.0):
    plt.plot([0, 1], [0, slope])

notebook.start("")
notebook.explore(line, slope=[0.0, 1.0, 2.0])
"""


@pytest.fixture(scope="module")
def lab(browser):
    """A folder, and the address of a JupyterLab that serves it: of its workspaces."""
    folder = FOLDER.parent / "build" / "lab"  # in the checkout, whose published runs 90 reads
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += [f"--ServerApp.port={port}", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.expose_app_in_browser=True", "--IdentityProvider.token="]
    command += ["--ServerApp.password="]
    variables = {"FEDLIB_DATA": str(folder / "data"), "FEDLIB_FIGURES": str(folder / "figures")}
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(command, env={**os.environ, **variables}, stdout=log, stderr=log)
        try:
            yield folder, f"http://127.0.0.1:{port}/lab/workspaces"
        finally:
            server.terminate()
            server.wait(60)


def test_a_picture_follows_its_slider(lab, browser):
    folder, address = lab
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, folder / "slider.ipynb")
    wait = WebDriverWait(browser, 300, ignored_exceptions=(WebDriverException,))
    wait.until(lambda _: browser.get(f"{address}/slider/tree/slider.ipynb") is None)
    wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, ".jp-Notebook-cell"))
    # Before the kernel is there, "run all" opens a dialog that asks for one.
    wait.until(lambda _: browser.execute_script(f"return {KERNEL}.status === 'idle'"))
    browser.execute_script("window.jupyterapp.commands.execute('notebook:run-all-cells');")

    def pictures():
        images = browser.find_elements(By.CSS_SELECTOR, PICTURES)
        return [str(image.get_attribute("src")) for image in images]

    def shown():
        handle = browser.find_element(By.CSS_SELECTOR, SLIDER)
        return pictures() if handle.is_displayed() else []

    before = wait.until(lambda _: shown())
    browser.find_element(By.CSS_SELECTOR, SLIDER).send_keys(Keys.ARROW_RIGHT)
    assert wait.until(lambda _: pictures() not in ([], before))
