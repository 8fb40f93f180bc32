"""Takes screenshots of every view of the studio for the documentation.

    python docs/screenshots.py [--grammar en_core_web_sm] [--dark --out folder]

Starts the studio with the bundled model in a temporary folder, uses the built-in sample, and writes
``docs/images/studio-*.png``. The Corpus view needs a spaCy pipeline.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from likewise.sample import SAMPLES

IMAGES = Path(__file__).parent / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
PATIENCE = 600_000.0
SIZE = {"width": 1280, "height": 860}


@contextmanager
def studio(folder: Path, grammar: str | None) -> Iterator[str]:
    """Starts a studio with two files of scored pairs; its address."""
    head, *rows = SAMPLES["sample/pairs"].read_text(encoding="utf-8").splitlines(keepends=True)
    for name, part in (("learn.csv", rows[:40]), ("judge.csv", rows[40:])):
        (folder / name).write_text(head + "".join(part), encoding="utf-8")
    command = [sys.executable, "-m", "likewise", "studio", "--no-browser", "--port", "0", "--folder", "results"]
    command += ["--corpus", "learn.csv", "--corpus", "judge.csv", *(["--grammar", grammar] if grammar else [])]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)
    try:
        said = process.stderr.readline() if process.stderr else ""
        found = re.search(r"http://\S+", said)
        if not found:
            sys.exit(f"the studio does not start: {said.strip()}")
        yield found.group()
    finally:
        process.terminate()
        process.wait(timeout=30)


def pair(page: Any) -> None:
    page.wait_for_selector(".ledger")
    page.locator(".coloured span", has_text="bought").first.hover()


def search(page: Any) -> None:
    page.get_by_role("button", name="Build the index").click()
    page.wait_for_selector("[data-figure=search-hits] li")
    page.wait_for_selector("[data-figure=search-tfidf] li")


def layers(page: Any) -> None:
    page.get_by_role("button", name="banks").click()
    page.wait_for_selector("[data-figure=layers-trajectories] canvas")
    page.get_by_role("button", name="Measure").click()
    page.wait_for_selector("[data-figure=layers-geometry] canvas")


def attention(page: Any) -> None:
    page.get_by_role("button", name="Read the attention maps").click()
    page.wait_for_selector("[data-clustering='no clustering'] canvas")
    for number, algorithm in enumerate(("kmeans", "agglomerative"), start=1):
        page.get_by_label("algorithm").select_option(algorithm)
        page.get_by_role("button", name="Cluster", exact=True).click()
        page.locator(".clustering .strip").nth(number - 1).wait_for()
    page.locator(".clustering .cell-box button").nth(1).click()
    page.wait_for_selector("[data-tested]")


def corpus(page: Any) -> None:
    page.get_by_role("button", name="Analyse").click()
    page.wait_for_selector("[data-figure=corpus-1-classes] .cell")


def training(page: Any) -> None:
    page.get_by_role("button", name="Train", exact=True).click()
    page.wait_for_selector("[data-run=example] canvas.scatter")


VIEWS: dict[str, tuple[dict[str, str], Callable[[Any], None]]] = {
    "pair": ({"left": "He did not buy the house.", "right": "He bought the house."}, pair),
    "search": ({"query": "a loud noise", "k": "5"}, search),
    "layers": ({"contexts": "3", "corrected": "on"}, layers),
    "attention": ({"ranges": "similarity:3.5:5|length:15:18", "most": "4"}, attention),
    "corpus": ({}, corpus),
    "training": ({"name": "example", "train": "learn.csv", "dev": "judge.csv", "epochs": "4"}, training),
}
"""The settings of each view, and the actions in it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grammar", help="a spaCy pipeline; without one the Corpus view is skipped")
    parser.add_argument("--view", choices=VIEWS, help="only this view")
    parser.add_argument("--dark", action="store_true", help="the dark theme")
    parser.add_argument("--out", type=Path, default=IMAGES, help="the folder of the images")
    options = parser.parse_args()
    # The studio starts in another folder, so a path must be absolute; the name of an installed pipeline is not a path.
    grammar = (
        str(Path(options.grammar).resolve()) if options.grammar and Path(options.grammar).is_dir() else options.grammar
    )
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("no Chromium on this machine; install it, for example with: apt-get install chromium")
    options.out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, studio(Path(folder), grammar) as address, sync_playwright() as run:
        browser = run.chromium.launch(executable_path=chromium, args=FLAGS)
        for name, (settings, act) in VIEWS.items():
            if options.view not in (None, name) or (name == "corpus" and not options.grammar):
                continue
            page = browser.new_page(viewport=SIZE, color_scheme="dark" if options.dark else "light")
            page.set_default_timeout(PATIENCE)
            page.goto(f"{address}#/{name}?{urlencode(settings)}")
            act(page)
            page.wait_for_timeout(500)
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=options.out / f"studio-{name}.png")
            page.close()
            print(options.out / f"studio-{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
