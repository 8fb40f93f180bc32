"""Tests against real servers: their folder, and the rule that none of them is skipped by ``make stores``."""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def store_folder() -> Iterator[Path]:
    """A folder that the unprivileged user of the servers reaches; pytest's own folders are closed to it."""
    with tempfile.TemporaryDirectory(prefix="likewise-store-") as folder:
        yield Path(folder)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test fails: these tests run only when somebody wants them."""
    report = yield
    if report.skipped and item.get_closest_marker("stores"):
        report.outcome, report.longrepr = "failed", f"make stores skips no test: {report.longrepr}"
    return report
