"""A plugin: the studio as a user starts it, and its pages in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

# No sandbox, since tests may run as root; the other flags keep the browser off the network.
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 90_000.0


@dataclass(frozen=True)
class LiveStudio:
    """A running studio, the name of its model, and its folder of runs."""

    address: str
    model: str
    runs: Path


# By module and not by session: Playwright's event loop must not run during other tests, which may have their own.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: dev)")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium on this machine; install it, for example with: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def start_studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., LiveStudio]]:
    """Starts studios by the command, each with a folder of its own."""
    running: list[tuple[subprocess.Popen[str], Path]] = []

    def start(model: Path | str, *options: str) -> LiveStudio:
        folder = tmp_path_factory.mktemp("studio")
        command = [
            sys.executable, "-m", "likewise", "studio", "--no-browser", "--port", "0", "--threads", "1", "--model",
            str(model), "--folder", str(folder / "kept"), "--runs", str(folder / "runs"), *options,
        ]  # fmt: skip
        log = folder / "log.txt"
        with log.open("w") as file:
            process = subprocess.Popen(command, stderr=file, text=True, cwd=folder)
        running.append((process, log))
        end = time.monotonic() + PATIENCE / 1000
        while not (found := re.search(r"http://\S+(?=.*\n)", log.read_text())):
            assert process.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        return LiveStudio(found.group(), Path(model).name, folder / "runs")

    yield start
    for process, log in running:
        process.terminate()
        process.wait(timeout=20)
        print(log.read_text())  # shown where a test fails


@pytest.fixture(scope="module")
def studio(start_studio: Callable[..., LiveStudio], tiny_folder: Path) -> LiveStudio:
    """One studio for all tests of a module."""
    return start_studio(tiny_folder)


class Visit:
    """A page of the studio that records its requests and errors."""

    def __init__(self, page: Any, studio: LiveStudio) -> None:
        self.page, self.studio = page, studio
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def open(self, view: str = "pair", **settings: str) -> Any:
        """Go to a view with some settings."""
        from urllib.parse import urlencode

        self.page.goto(f"{self.studio.address}#/{view}" + (f"?{urlencode(settings)}" if settings else ""))
        self.page.wait_for_selector(f"main[data-view={view}] .form, main[data-view={view}] details")
        for fold in self.page.locator("details.folded:not([open]) > summary").all()[::-1]:
            fold.click()
        return self.page

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait for a condition; the page's policy keeps Playwright from waiting inside the page."""
        end = time.monotonic() + PATIENCE / 1000
        while not holds():
            assert time.monotonic() < end, "the condition does not come true"
            self.page.wait_for_timeout(50)

    def is_wide_enough(self, width: int = 1024) -> bool:
        """Whether a window as narrow as this shows everything without a scroll to the side."""
        self.page.set_viewport_size({"width": width, "height": 800})
        return bool(self.page.evaluate("document.documentElement.scrollWidth <= innerWidth"))

    def saved(self, button: Any) -> tuple[str, bytes]:
        """The name and the content of what a button saves."""
        with self.page.expect_download() as waited:
            button.click()
        return waited.value.suggested_filename, Path(waited.value.path()).read_bytes()


@pytest.fixture
def visit(chromium: Any, studio: LiveStudio) -> Iterator[Visit]:
    """A fresh page; it must not fail, and must send requests to the studio only."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    made = Visit(context.new_page(), studio)
    yield made
    context.close()
    assert made.errors == []
    assert made.requests, "the page has sent no request"
    outside = [url for url in made.requests if not url.startswith((studio.address, "data:", "blob:"))]
    assert outside == []
