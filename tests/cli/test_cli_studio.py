"""``likewise studio``: what it refuses before it serves; tests/browser visits it."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from answers import refusal

pytest_plugins = ("command_line",)
pytest.importorskip("fastapi")


def test_a_taken_port_is_said_with_its_cure(run: Any, tmp_path: Any) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refusal(run("studio", "--no-browser", "--port", port, "--folder", tmp_path))
    assert f"127.0.0.1:{port}" in said and "--port" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [(("--port", "70000"), "65535"), (("--host", "no such host"), "--host"), (("--corpus", "no/such"), "no/such")],
)
def test_bad_settings_are_said(run: Any, tmp_path: Any, options: tuple[str, ...], said: str) -> None:
    assert said in refusal(run("studio", "--no-browser", "--port", "0", "--folder", tmp_path, *options))
