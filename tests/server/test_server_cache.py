"""Caches between requests, uploads, and what results depend on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from likewise.errors import UsageError
from likewise.grammar.grammar import VARIABLE
from likewise.search.index import Index
from likewise.server.app import create_app
from likewise.server.offers import Uploads
from likewise.server.routes import search
from likewise.server.settings import Limits, StudioSettings
from likewise.server.studio import Studio
from studio_jobs import finished


@pytest.fixture
def settings(tiny_folder: Path, tmp_path: Path) -> StudioSettings:
    (tmp_path / "own.txt").write_text("a cat sat\na dog ran\n", encoding="utf-8")
    return StudioSettings(
        folder=tmp_path / "kept", models=(str(tiny_folder),), corpora=(str(tmp_path / "own.txt"),), threads=1
    )


@pytest.fixture
def studio(settings: StudioSettings) -> Iterator[TestClient]:
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as made:
        yield made


def recorded_calls(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[str]:
    """The calls of a function from now on."""
    own, calls = getattr(owner, name), []

    def call(*args: Any, **named: Any) -> Any:
        calls.append(name)
        return own(*args, **named)

    monkeypatch.setattr(owner, name, call)
    return calls


def test_a_classic_ranker_is_made_once_until_its_file_changes(
    studio: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded_calls(monkeypatch, search, "baseline")

    def best(query: str) -> str:
        found = studio.post("/api/search/baseline", json={"corpus": "own.txt", "query": query, "k": 1}).json()
        return str(found["hits"][0]["text"])

    assert (best("cat"), best("dog")) == ("a cat sat", "a dog ran") and len(made) == 1
    (tmp_path / "own.txt").write_text("no more than a cat slept\na horse ran\n", encoding="utf-8")
    assert best("cat") == "no more than a cat slept" and len(made) == 2


def test_an_index_is_opened_once_until_it_is_built_anew(
    studio: TestClient, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = {"corpus": "own.txt", "model": tiny_folder.name}
    opened = recorded_calls(monkeypatch, Index, "open")
    for turn in (1, 2):
        built = finished(studio, studio.post("/api/search/index", json=request))["job"]
        for query in ("a cat", "a dog"):
            assert studio.post("/api/search", json={"index": built, "query": query, "k": 1}).status_code == 200
        assert len(opened) == turn
        assert studio.delete(f"/api/jobs/{built}").status_code == 204


def test_more_uploads_than_may_be_kept_are_refused_and_one_taken_away_makes_space(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, Limits(uploads=2))
    first, _ = (uploads.add("own.txt", f"{word}\na cat\n".encode()) for word in ("one", "two"))
    assert uploads.add("again.txt", b"one\na cat\n") == first, "the same content takes no space"
    with pytest.raises(UsageError, match="take one away"):
        uploads.add("own.txt", b"three\na cat\n")
    uploads.remove(first.id)
    assert uploads.add("own.txt", b"three\na cat\n").rows == 2


def test_the_same_file_brought_by_many_at_once_is_kept_once(tmp_path: Path) -> None:
    uploads = Uploads(tmp_path, Limits(uploads=2))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda place: uploads.add(f"{place}.txt", b"one\na cat\n"), range(8)))
    assert len({one.id for one in found}) == 1 and len(uploads.all()) == 1


def test_another_grammar_makes_another_question(settings: StudioSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    studio = Studio.open(settings)
    try:
        found = []
        for name in ("one", "two"):
            monkeypatch.setenv(VARIABLE, name)
            found.append(studio.dependencies("own.txt", grammar=True))
        assert found[0] != found[1] and studio.dependencies("own.txt") == studio.dependencies("own.txt")
        named = replace(studio, settings=replace(settings, grammar="three"))
        assert named.dependencies("own.txt", grammar=True)[-1] == "three", "what was said at the start comes first"
    finally:
        studio.close()
