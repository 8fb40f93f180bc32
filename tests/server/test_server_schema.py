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
from studio_jobs import finished

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed (extra: dev)")
checks = pytest.importorskip("schemathesis.checks")

HOST = {"Host": "127.0.0.1"}
ENDLESS = ("/api/jobs/events",)
"""It answers as long as somebody listens; tests/server/test_server_routes.py does."""
PAIRS = 12
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
    with TestClient(app, base_url="http://127.0.0.1") as studio:  # it runs what the server does when it starts and ends
        yield schemathesis.openapi.from_asgi("/openapi.json", app, headers=HOST), made(studio)


def made(studio: TestClient) -> dict[str, str]:
    """Jobs that are done, by the beginning of the addresses that ask for one."""
    study = finished(studio, studio.post("/api/attention", json={"corpus": "sample/pairs", "limit": PAIRS}))["job"]
    clusters = finished(studio, studio.post(f"/api/attention/{study}/clusters", json={"most": 3}))["job"]
    index = finished(studio, studio.post("/api/search/index", json={"corpus": "sample/pairs"}))["job"]
    return {
        "/api/attention/clusters/": clusters, "/api/attention/{job}/": study, "/api/jobs/{job}/": study,
        "/api/search": index,
    }  # fmt: skip


def with_known(case: Any, known: dict[str, str]) -> Any:
    """A request about a job, a pair and a layer that are there; what is made up hardly ever is."""
    job = next((job for begin, job in known.items() if case.operation.path.startswith(begin)), None)
    there = {"job": job, "index": job, "row": 1, "layer": 1}
    for part in (case.path_parameters, case.query, case.body):
        if job is not None and isinstance(part, dict):
            part.update({name: value for name, value in there.items() if name in part})
            if isinstance(part.get("rows"), list):
                part["rows"] = [row % PAIRS for row in part["rows"]]
    return case


@pytest.mark.slow
def test_no_request_makes_the_server_fail(described: Any) -> None:
    description, known = described
    request, answered = [], set()
    for found in description.get_all_operations():
        operation = found.ok()
        if operation.path in ENDLESS:
            continue

        @BOUNDED
        @given(case=operation.as_strategy())
        def ask(case: Any) -> None:
            request.append(case.operation.label)
            answer = with_known(case, known).call_and_validate(headers=HOST, checks=[checks.not_a_server_error])
            if answer.status_code < 300:
                answered.add(case.operation.path)

        ask()
    assert len(set(request)) >= 25
    about_jobs = ("/api/attention/clusters/{job}/brush", "/api/attention/{job}/pairs/{row}", "/api/search")
    assert answered >= {*about_jobs, "/api/pair", "/api/layers"}
