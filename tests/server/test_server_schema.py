"""The API's own description: whatever it allows is answered, and never with a failure of the server."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings

from likewise.server.app import create_app
from likewise.server.settings import Limits, StudioSettings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed (extra: dev)")
checks = pytest.importorskip("schemathesis.checks")

HOST = {"Host": "127.0.0.1"}
ENDLESS = ("/api/jobs/events",)
"""It answers as long as somebody listens; tests/server/test_server_routes.py does."""
BOUNDED = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def described(tiny_folder: Path, tmp_path: Path) -> Iterator[Any]:
    # Under the name that requests ask for by default, so that many of them are really worked on.
    model = shutil.copytree(tiny_folder, tmp_path / "minilm")
    limits = Limits(characters=200, rows=50)
    app = create_app(
        StudioSettings(folder=tmp_path, models=(str(model),), runs=tmp_path / "runs", threads=1, limits=limits)
    )
    with TestClient(app, base_url="http://127.0.0.1"):  # it runs what the server does when it starts and ends
        yield schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST)


def test_no_request_makes_the_server_fail(described: Any) -> None:
    asked = []
    for found in described.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue

        @BOUNDED
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            asked.append(case.operation.label)
            case.call_and_validate(headers=HOST, checks=[checks.not_a_server_error])

        ask()
    assert len(set(asked)) >= 25
