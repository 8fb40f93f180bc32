"""Wait for the jobs of a studio."""

from __future__ import annotations

import time
from typing import Any

from fastapi.testclient import TestClient

PATIENCE = 120.0


def finished(studio: TestClient, answer: Any) -> dict[str, Any]:
    """The result of a job once it is done."""
    assert answer.status_code == 202, answer.text
    name, end = answer.json()["id"], time.monotonic() + PATIENCE
    while time.monotonic() < end:
        job = studio.get(f"/api/jobs/{name}").json()
        if job["state"] not in ("waiting", "running"):
            assert job["state"] == "done", job
            found: dict[str, Any] = studio.get(f"/api/jobs/{name}/result").json()
            return found | {"job": name}
        time.sleep(0.05)
    raise AssertionError("the job does not end")


def failed(studio: TestClient, answer: Any) -> str:
    """The error of a job that fails."""
    name, end = answer.json()["id"], time.monotonic() + PATIENCE
    while (job := studio.get(f"/api/jobs/{name}").json())["state"] in ("waiting", "running"):
        assert time.monotonic() < end
        time.sleep(0.05)
    assert job["state"] == "failed"
    return str(job["error"])
