"""Every page of the built site, opened from its folder in a real browser, wide and narrow.

``make site`` first; skipped where the site is not built, or without chromium and its driver.
"""

from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parents[2] / "build" / "site"
# What is there to be downloaded is no page.
PAGES = [path for path in sorted(SITE.rglob("*.html")) if "_downloads" not in path.parts]
# How wide a page is, its pictures that cannot be seen, and what it loads from elsewhere.
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
    wide, broken, elsewhere = browser.execute_script(FAULTS)
    assert wide <= width, f"{page.name} is {wide} pixels wide in a window of {width}"
    assert broken == elsewhere == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_dark_and_light_differ(browser):
    browser.get((SITE / "index.html").as_uri())
    colours = set()
    for theme in ("light", "dark"):
        browser.execute_script("document.body.dataset.theme = arguments[0]", theme)
        colours.add(
            browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        )
    assert len(colours) == 2


def test_search_finds_a_notebook_without_a_server(browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get((SITE / "search.html").as_uri() + "?q=Pachinko")
    found = WebDriverWait(browser, 30).until(
        lambda _: browser.find_elements(By.CSS_SELECTOR, "#search-results li a")
    )
    assert any("notebooks/" in str(link.get_attribute("href")) for link in found)
