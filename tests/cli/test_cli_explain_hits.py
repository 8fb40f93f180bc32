"""``likewise explain-hits``: files and stdin, JSON, pages, folders, cautions, refusals."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from answers import one_document, refusal
from likewise.encoder import Encoder
from likewise.search import Index, explain_hits

pytest_plugins = ("command_line",)

TEXTS = ["the cat sat on it", "a man is out", "the sea is blue"]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def hits(tiny: Encoder) -> list[dict[str, Any]]:
    """What another system with the same model returned: 1 - cosine."""
    found = Index.from_texts(tiny, TEXTS).search("the cat", 3)
    return [{"id": hit.id, "distance": 1 - hit.score, "entity": {"text": hit.text}} for hit in found]


@pytest.fixture
def file(hits: list[dict[str, Any]], tmp_path: Path) -> Path:
    path = tmp_path / "hits.jsonl"
    path.write_text("".join(json.dumps(hit) + "\n" for hit in hits))
    return path


def test_json_is_the_librarys(run_tiny: Any, tiny: Encoder, hits: Any, file: Path) -> None:
    answer = run_tiny("explain-hits", "the cat", file, "--json")
    wanted = json.loads(json.dumps(explain_hits(tiny, "the cat", hits).to_dict()))
    assert one_document(answer) == wanted
    assert answer.err == "likewise: 3 of 3 returned scores are 1 - cosine; the cosine is explained\n"


def test_stdin(run_tiny: Any, hits: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps([hits]).encode())))
    answer = run_tiny("explain-hits", "the cat", "-", "--granularity", "token", "--pairs-per-hit", 1)
    assert answer.code == 0 and answer.out.count("pairs: ") == 3 and "1 - cosine by this model" in answer.out


def test_page_and_folder(run_tiny: Any, file: Path, tmp_path: Path) -> None:
    page, folder = tmp_path / "why.html", tmp_path / "why"
    assert run_tiny("explain-hits", "the cat", file, "--html", page, "--out", folder).code == 0
    assert "returned scores are 1 - cosine" in page.read_text() and "<mark" in page.read_text()
    assert {"hits.csv", "words.csv", "pairs.csv", "run.json"} <= {path.name for path in folder.iterdir()}


def test_columns_and_prompts(run_tiny: Any, tiny: Encoder, tmp_path: Path) -> None:
    path = tmp_path / "hits.csv"
    path.write_text("name,headline,cos\nx,the cat,0.5\n")
    names = ("--text-column", "headline", "--score-column", "cos", "--id-column", "name")
    given = ("--similarity", "dot", "--query-prompt", "a ", "--document-prompt", "the ")
    found = one_document(run_tiny("explain-hits", "sea", path, *names, *given, "--json"))
    prompts = {"query_prompt": "a ", "document_prompt": "the "}
    twin = explain_hits(tiny, "sea", ["the cat"], similarity="dot", **prompts)
    assert found["hits"][0]["id"] == "x" and found["hits"][0]["score"] == pytest.approx(twin[0].score)
    assert found["hits"][0]["returned"]["score"] == 0.5


def test_no_hits(run_tiny: Any, tmp_path: Path) -> None:
    path = tmp_path / "hits.json"
    path.write_text('{"result": []}')
    assert one_document(run_tiny("explain-hits", "the cat", path, "--json"))["hits"] == []


@pytest.mark.parametrize(
    ("arguments", "flaw"),
    [
        ((" ", "FILE"), "an empty query"),
        (("cat", "none.jsonl"), "check the path"),
        (("cat", "FILE", "--granularity", "letter"), "cannot explain by 'letter'"),
        (("cat", "FILE", "--similarity", "l2"), "unknown similarity 'l2'"),
        (("cat", "FILE", "--text-column", "body"), "hit 1 has no text"),
    ],
)
def test_refusals(run_tiny: Any, file: Path, arguments: tuple[str, ...], flaw: str) -> None:
    given = [str(file) if one == "FILE" else one for one in arguments]
    assert flaw in refusal(run_tiny("explain-hits", *given))
