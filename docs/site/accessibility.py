"""Checks pages of the built site with axe-core in Chromium, light and dark: no serious violation.

python docs/site/accessibility.py build/site
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[2]
AXE = ROOT / "web/node_modules/axe-core/axe.min.js"
PAGES = (
    "index.html",
    "tutorial.html",
    "how-to/search.html",
    "concepts/replay.html",
    "results/explaining-similarity.html",
    "examples/01_first_explanation.html",
    "examples/02_search_with_reasons.html",
    "api/explain.html",
    "commands.html",
)
SERIOUS = ("serious", "critical")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")


def flaws(page: Page, address: str) -> Iterator[str]:
    """One line for each serious violation on a page."""
    page.goto(address)
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    for one in found["violations"]:
        if one["impact"] in SERIOUS:
            where = ", ".join(" ".join(map(str, node["target"])) for node in one["nodes"][:3])
            yield f"{one['id']} ({one['impact']}, {len(one['nodes'])} times): {one['help']}; {where}"


def main(site: Path) -> int:
    if not AXE.exists():
        print("axe-core is missing; run make web-check, which installs it")
        return 1
    lines = []
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)
            for name in PAGES:
                lines += [f"{name}, {scheme}: {flaw}" for flaw in flaws(page, (site / name).resolve().as_uri())]
        browser.close()
    print("\n".join(lines) or f"{len(PAGES)} pages, light and dark: axe finds no serious violation")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
