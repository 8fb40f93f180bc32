"""The built front end: made of the sources that are here, with the licences of what is in it, and of nobody else's."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import runpy
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from likewise.server.app import STATIC, create_app
from likewise.server.settings import StudioSettings

WEB = Path(__file__).resolve().parents[2] / "web"
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "src")
MOST_BYTES = 250_000


def source_hash() -> str:
    """What web/vite.config.ts writes into the bundle."""
    given = [WEB / name for name in SOURCES]
    files = [file for path in given for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    found = hashlib.sha256()
    for name in sorted(file.relative_to(WEB).as_posix() for file in files):
        found.update(f"{name}\0".encode())
        found.update((WEB / name).read_bytes())
        found.update(b"\0")
    return found.hexdigest()


def test_the_bundle_is_made_of_these_sources() -> None:
    if not WEB.is_dir():
        pytest.skip("the sources of the front end are not here")
    assert (STATIC / "sources.sha256").read_text().strip() == source_hash(), "web/ has changed; run: make web"


def test_the_types_of_the_front_end_are_those_of_the_routes() -> None:
    if not WEB.is_dir():
        pytest.skip("the sources of the front end are not here")
    openapi = runpy.run_path(str(WEB / "openapi.py"))
    assert (WEB / "openapi.json").read_text(encoding="utf-8") == openapi["text"](), "routes have changed; run: make web"


def test_every_route_has_a_response_model() -> None:
    described = json.loads((WEB / "openapi.json").read_text(encoding="utf-8"))
    without = []
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            for status, response in operation["responses"].items():
                schema = response.get("content", {}).get("application/json", {}).get("schema", {})
                named = json.dumps(schema).count("$ref") or schema.get("items") == {"type": "string"}
                if status != "204" and not named and path != "/api/jobs/events":
                    without.append((method, path))
    assert without == []


def test_licences_of_everything_bundled_are_there() -> None:
    summary = (STATIC / "THIRD_PARTY_LICENSES.txt").read_text(encoding="utf-8")
    for name in json.loads((WEB / "package.json").read_text())["dependencies"]:
        assert re.search(rf"^{re.escape(name)} \d", summary, re.MULTILINE), name


def test_the_bundle_is_small_and_asks_nobody_else() -> None:
    files = [path for path in STATIC.rglob("*") if path.suffix in (".js", ".css", ".html")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) < MOST_BYTES
    known = ("http://www.w3.org/", "http://127.0.0.1")
    for path in files:
        found = re.findall(r"https?://[^\s\"'`)<]+", path.read_text(encoding="utf-8"))
        assert [url for url in found if not url.startswith(known)] == [], path.name


def test_the_page_and_its_parts_are_served(tmp_path: Path) -> None:
    with TestClient(create_app(StudioSettings(folder=tmp_path)), base_url="http://127.0.0.1:8000") as studio:
        page = studio.get("/")
        assert page.status_code == 200 and "no-cache" in page.headers["cache-control"]
        parts = re.findall(r'(?:src|href)="\./(assets/[^"]+)"', page.text)
        assert len(parts) == 2
        for part in parts:
            assert studio.get(f"/{part}").status_code == 200
        assert "script-src" not in page.headers["content-security-policy"]
        assert studio.get("/assets/%2e%2e/sources.sha256").status_code == 404, "it lies next to the folder of assets"
        assert (STATIC / "sources.sha256").exists()
