"""Guards: other hosts, other origins, missing tokens and large bodies never reach a route."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from likewise.server.app import create_app
from likewise.server.guards import COOKIE
from likewise.server.settings import Limits, StudioSettings

HOME = "http://127.0.0.1:8000"


def client(settings: StudioSettings, home: str = HOME) -> Iterator[TestClient]:
    with TestClient(create_app(settings), base_url=home, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[TestClient]:
    yield from client(StudioSettings(folder=tmp_path, limits=Limits(body_bytes=2_000, upload_bytes=4_000)))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost:8001", "", "[::1]:1", "a:b:c"])
def test_other_hosts_are_refused(studio: TestClient, host: str) -> None:
    answer = studio.get("/api/start", headers={"host": host})
    assert answer.status_code == 421 and "error" in answer.json()


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "[::1]:8000", "localhost"])
def test_the_names_of_this_machine_are_good(studio: TestClient, host: str) -> None:
    assert studio.get("/api/start", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"origin": "http://evil.example"}, {"origin": "null"}, {"origin": "http://localhost:8000"},
     {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}],
)  # fmt: skip
def test_other_origins_are_refused(studio: TestClient, headers: dict[str, str]) -> None:
    assert studio.get("/api/start", headers=headers).status_code == 403
    assert studio.post("/api/pair", headers=headers, json={"left": "a", "right": "b"}).status_code == 403


def test_the_page_itself_and_links_to_it_are_good(studio: TestClient) -> None:
    own = {"origin": HOME, "sec-fetch-site": "same-origin"}
    assert studio.get("/api/start", headers=own).status_code == 200
    link = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert studio.get("/api/start", headers=link).status_code == 200


def test_large_bodies_are_refused_by_their_limit(studio: TestClient) -> None:
    answer = studio.post("/api/pair", json={"left": "a" * 3_000, "right": "b"})
    assert answer.status_code == 413 and "2,000 bytes" in answer.json()["error"]
    answer = studio.post("/api/corpora", content=b"a" * 5_000, headers={"x-file-name": "a.txt"})
    assert answer.status_code == 413 and "4,000 bytes" in answer.json()["error"]
    # One that does not say how long it is.
    pieces = (b"a" * 1_000 for _ in range(5))
    answer = studio.post("/api/pair", content=pieces, headers={"content-type": "application/json"})
    assert answer.status_code == 413 and "2,000 bytes" in answer.json()["error"]


def test_answers_carry_the_headers_that_keep_a_page_to_itself(studio: TestClient) -> None:
    for path in ("/api/start", "/nowhere"):
        headers = studio.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_any_other_address_needs_the_token(tmp_path: Path) -> None:
    settings = StudioSettings(host="0.0.0.0", folder=tmp_path)
    assert len(settings.token) > 20 and settings.token in settings.address
    for made in client(settings, "http://lab.example:8000"):
        assert made.get("/api/start").status_code == 401
        assert made.get("/api/start", headers={"authorization": "Bearer wrong"}).status_code == 401
        assert made.get("/api/start", headers={"authorization": f"Bearer {settings.token}"}).status_code == 200
        for headers, status in (({"host": "a:9"}, 421), ({}, 401), ({"origin": "http://["}, 403)):
            refused = made.get("/", headers=headers)
            assert refused.status_code == status
            assert settings.token not in refused.text + str(refused.headers), "no response shows the token"
        opened = made.get("/api/start", params={"token": settings.token})
        assert opened.status_code == 200 and "HttpOnly" in opened.headers["set-cookie"]
        assert made.get("/api/start").status_code == 200  # by the cookie
        for other in ('x={"a": 1}', "p[0]=1", "a b=1", "lone"):  # cookies of other ports on this host come along
            cookie = f"{other}; {COOKIE}_{settings.port}={settings.token}"
            assert made.get("/api/start", headers={"cookie": cookie}).status_code == 200


def test_loopback_needs_none() -> None:
    assert StudioSettings().token == "" and StudioSettings(host="::1").is_loopback
    assert not StudioSettings(host="192.168.0.4").is_loopback
