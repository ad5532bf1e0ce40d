"""Every page of the built site, opened from its folder in a real browser, wide and narrow.

``make site`` first; skipped where the site is not built, or without chromium and its driver.
"""

from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
# What is there to be downloaded is no page.
PAGES = [path for path in sorted(SITE.rglob("*.html")) if "_downloads" not in path.parts]
# How wide a page is, its pictures that cannot be seen, what it loads from elsewhere, controls that
# nothing names, and the letters of the pictures that its sliders move.
FAULTS = """
const broken = [...document.images].filter(image => {
  image.loading = 'eager';
  return !(image.complete && image.naturalWidth);
});
const loaded = performance.getEntriesByType('resource').map(each => each.name);
return [
  document.documentElement.scrollWidth,
  broken.map(image => image.src),
  loaded.filter(address => /^https?:/.test(address)),
  [...document.querySelectorAll("input:not([type=hidden]), select, button")].filter(control =>
    !(control.ariaLabel || control.title || control.labels?.length || control.innerText)
  ).map(control => control.outerHTML),
  [...document.querySelectorAll(".explorer script")].map(each => each.text).join("").length,
];
"""

pytestmark = pytest.mark.skipif(not PAGES, reason="the site is not built: make site")


@pytest.mark.parametrize("width", (1280, 400))
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(SITE).as_posix())
def test_a_page_opens_fits_and_asks_nothing_of_the_network(browser, page, width):
    browser.get_log("browser")  # of the page before
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(page.as_uri())
    assert browser.title
    wide, broken, elsewhere, unnamed, letters = browser.execute_script(FAULTS)
    assert wide <= width, f"{page.name} is {wide} pixels wide in a window of {width}"
    assert broken == elsewhere == unnamed == []
    assert letters <= 1_000_000
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
