"""What notebook.explore keeps for pages without a kernel, moved in a real browser."""

from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from fedlib import notebook

SCRIPT = Path(__file__).resolve().parents[2] / "docs" / "site" / "_static" / "explore.js"
RED, GREEN, BLUE = [0.0, 0.5, 1.0], [0.2, 0.8], ["none", "all"]
MOVE = """
const [values, done] = arguments;
const controls = [...document.querySelectorAll("select, input")];
controls.forEach((control, i) => {
  if (control.type === "range") control.value = values[i]; else control.selectedIndex = values[i];
  control.dispatchEvent(new Event("input"));
});
const image = document.querySelector("img");
image.decode().then(() => {
  const canvas = document.createElement("canvas").getContext("2d");
  canvas.drawImage(image, 0, 0);
  const shown = [...document.querySelectorAll("output")].map(each => each.value);
  done([[...canvas.getImageData(5, 5, 1, 1).data].slice(0, 3), shown, image.alt]);
});
"""


def draw(red=0.5, green=0.8, blue="none"):
    """A picture that says by its colour for which values it is."""
    ax = plt.figure(figsize=(0.5, 0.5)).add_axes((0, 0, 1, 1))
    ax.imshow([[[red, green, float(blue == "all")]]], aspect="auto")
    ax.set_axis_off()


@pytest.fixture
def page(tmp_path, monkeypatch):
    plt.close("all")
    monkeypatch.setenv("FEDLIB_EXPLORE", "all")
    html = notebook.explore(draw, red=RED, green=GREEN, blue=BLUE)._repr_mimebundle_()["text/html"]
    path = tmp_path / "page.html"
    script = SCRIPT.read_text(encoding="utf-8")
    path.write_text(f"<!doctype html><meta charset='utf-8'>{html}<script>{script}</script>")
    return path


def test_every_setting_of_the_controls_shows_its_own_picture(page, browser):
    browser.get(page.as_uri())
    for places in product(*(range(len(values)) for values in (RED, GREEN, BLUE))):
        color, shown, told = browser.execute_async_script(MOVE, list(places))
        i, j, k = places
        expected = [255 * RED[i], 255 * GREEN[j], 255 * (BLUE[k] == "all")]
        assert max(abs(one - other) for one, other in zip(color, expected, strict=True)) < 4, places
        assert shown == [f"{RED[i]:g}", f"{GREEN[j]:g}"] and BLUE[k] in told
