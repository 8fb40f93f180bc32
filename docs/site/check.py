"""Checks the built site: every link and anchor leads somewhere, and no page loads anything from another address.

python docs/site/check.py build/site
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
"""Elements that load something; a link element does where its rel says so."""
LOADING_RELS = {"stylesheet", "icon", "preload", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
CSS_URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """The links, the loaded addresses and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors = {""}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADS and LOADS[tag] in given:
            self.loads.append(given[LOADS[tag]])
        if tag == "link" and set(given.get("rel", "").split()) & LOADING_RELS:
            self.loads.append(given.get("href", ""))


@cache
def page_of(path: Path) -> Page:
    return Page(path.read_text(encoding="utf-8"))


def is_elsewhere(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in ("http", "https") or bool(parts.netloc)


def flaws(site: Path) -> Iterator[str]:
    """One line for each dead link, missing anchor and foreign address."""
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        page = page_of(path)
        yield from (f"{name} loads {one}" for one in page.loads if is_elsewhere(one))
        inside = (one for one in (*page.links, *page.loads) if not urlsplit(one).scheme and not urlsplit(one).netloc)
        for link in dict.fromkeys(inside):
            parts = urlsplit(link)
            base = site if parts.path.startswith("/") else path.parent
            target = (base / unquote(parts.path).lstrip("/")) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                # The page of a missing address is served from any folder, so its links start at the root.
                if name.name != "404.html":
                    yield f"{name}: {link} leads nowhere"
            elif target.suffix == ".html" and unquote(parts.fragment) not in page_of(target).anchors:
                yield f"{name}: {link} has no such anchor"
    for path in sorted(site.rglob("*.css")):
        found = (one[0] or one[1] for one in CSS_URL.findall(path.read_text(encoding="utf-8")))
        yield from (f"{path.relative_to(site)} loads {one}" for one in found if is_elsewhere(one))


def main(site: Path) -> int:
    pages = len(list(site.rglob("*.html")))
    found = list(flaws(site))
    print("\n".join(found) or f"{pages} pages: no dead link, nothing is loaded from elsewhere")
    return int(bool(found) or pages == 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
