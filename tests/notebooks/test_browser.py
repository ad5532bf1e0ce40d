"""In JupyterLab, in a real browser, a moved slider changes the picture.

A notebook made for the test runs always; ``FEDLIB_BROWSER=all`` runs the notebooks with sliders
too (minutes). Skipped without chromium and its driver.
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
WITH_SLIDERS = sorted(
    path.stem
    for path in FOLDER.glob("*.ipynb")
    if "notebook.explore(" in path.read_text(encoding="utf-8")
)
ALL = os.environ.get("FEDLIB_BROWSER") == "all"
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

pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no chromium with chromedriver on this machine"
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A folder, and the address of a JupyterLab that serves it."""
    folder = tmp_path_factory.mktemp("lab")
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
            yield folder, f"http://127.0.0.1:{port}/lab/tree"
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


def moved_picture(browser: webdriver.Chrome, address: str, seconds: int) -> bool:
    """Run all cells of a notebook, move its first slider, and see whether its picture changes."""
    wait = WebDriverWait(browser, seconds, ignored_exceptions=(WebDriverException,))
    wait.until(lambda _: browser.get(address) is None)
    wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, ".jp-Notebook-cell"))
    run_all = "window.jupyterapp.commands.execute('notebook:run-all-cells');"
    # Before the kernel is there, "run all" opens a dialog that asks for one.
    wait.until(lambda _: browser.execute_script(f"return {KERNEL}.status === 'idle'"))
    browser.execute_script(run_all)
    wait.until(lambda _: browser.find_elements(By.CSS_SELECTOR, SLIDER) and pictures(browser))
    before = pictures(browser)
    handle = browser.find_element(By.CSS_SELECTOR, SLIDER)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", handle)
    handle.send_keys(Keys.ARROW_RIGHT)
    return bool(wait.until(lambda _: pictures(browser) not in ([], before)))


def test_a_picture_follows_its_slider(lab: tuple[Path, str], browser: webdriver.Chrome) -> None:
    folder, address = lab
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(book, folder / "slider.ipynb")
    assert moved_picture(browser, f"{address}/slider.ipynb", 300)


@pytest.mark.skipif(not ALL, reason="minutes: FEDLIB_BROWSER=all")
@pytest.mark.parametrize("name", WITH_SLIDERS)
def test_the_notebooks_pictures_follow(
    lab: tuple[Path, str], browser: webdriver.Chrome, name: str
) -> None:
    folder, address = lab
    shutil.copy(FOLDER / f"{name}.ipynb", folder)
    assert moved_picture(browser, f"{address}/{name}.ipynb", 600)
