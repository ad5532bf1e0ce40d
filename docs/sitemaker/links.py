"""Every link and picture of the built site leads somewhere; nothing is asked of the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes with addresses that a page loads or leads to.
ADDRESSES = {"a": "href", "img": "src", "script": "src", "link": "href", "source": "src"}
# Of these the browser loads the address, so that a page would need the network.
LOADED = ("img", "script", "link", "source")


@dataclass
class Page:
    """What a page names: its anchors, and (tag, address) of what it loads and leads to."""

    anchors: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.page.anchors |= {values[name] or "" for name in ("id", "name") if name in values}
        address = values.get(ADDRESSES.get(tag, ""))
        if address is not None:
            self.page.links.append((tag, address))


def read(path: Path) -> Page:
    """A page's anchors and links."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def pages(site: Path) -> list[Path]:
    """The site's pages: all HTML but files that are there to be downloaded."""
    return [path for path in sorted(site.rglob("*.html")) if "_downloads" not in path.parts]


def check(site: Path) -> tuple[int, list[str]]:
    """Follow all links within a site, anchors included.

    Args:
        site: the folder of ``index.html``.

    Returns:
        how many links lead into the site, and a line for each that leads nowhere, or that makes a
        page load something from elsewhere.
    """
    site = site.resolve()
    known = {path: read(path) for path in pages(site)}
    count, problems = 0, []
    for path, page in known.items():
        for tag, address in page.links:
            problem = _problem(tag, address, path, known)
            if problem is None:
                continue
            count += 1
            if problem:
                problems.append(f"{path.relative_to(site)}: {problem}")
    return count, list(dict.fromkeys(problems))


def _problem(tag: str, address: str, path: Path, known: dict[Path, Page]) -> str | None:
    """What is wrong with a link, ``""`` for nothing; None of one that leads elsewhere."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return f"loads {address}" if tag in LOADED else None
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    if not target.is_file():
        return f"{address} leads nowhere"
    anchor = unquote(parts.fragment)
    if anchor and target in known and anchor not in known[target].anchors:
        return f"{address}: that page has no {anchor!r}"
    return ""


def outside(site: Path) -> Iterator[str]:
    """The addresses elsewhere that the site leads to, each once."""
    seen: set[str] = set()
    for path in pages(site):
        for tag, address in read(path).links:
            if tag == "a" and urlsplit(address).scheme in ("http", "https"):
                seen.add(address)
    yield from sorted(seen)
