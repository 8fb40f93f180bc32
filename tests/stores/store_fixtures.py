"""Fixtures of tests against real servers, and the rule that ``make stores`` skips none of them.

A plugin and no conftest.py: other tests import from the one that there is.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conformance import ServerTarget
from running import RunningServer
from servers import SERVERS, PostgresServer

from likewise.errors import LikewiseError
from likewise.search.stores import server_store


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


@pytest.fixture(scope="module", params=["milvus", "postgres", "qdrant"])
def running(request: pytest.FixtureRequest) -> Iterator[RunningServer]:
    """Each server in turn, for all tests of a module."""
    with (
        tempfile.TemporaryDirectory(prefix="likewise-store-") as folder,
        pytest.MonkeyPatch.context() as patch,
        SERVERS[request.param](folder) as server,
    ):
        if isinstance(server, PostgresServer):
            patch.setenv("PGUSER", "postgres")
            patch.setenv("PGPASSWORD", str(urlsplit(server.dsn).password))
        yield RunningServer(request.param, server)


@pytest.fixture
def target(running: RunningServer) -> Iterator[ServerTarget]:
    """A new address on the server; what a test leaves there is removed."""
    chosen = ServerTarget(running.address(f"t{uuid.uuid4().hex[:12]}"))
    yield chosen
    with suppress(LikewiseError):
        server_store(chosen.address).drop(chosen.address)
