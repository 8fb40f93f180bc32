"""Hits that any system returned as records: every form, whole answers, files and stdin, and what is refused."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from likewise.data import Columns
from likewise.errors import DataError
from likewise.search import Hit
from likewise.search.hits import Hits
from likewise.search.returned_hits import ReturnedHit, read_hits, returned_hits

CAT = ReturnedHit("7", "A cat sat.", 0.5, {"year": 2020})


@dataclass
class Document:
    page_content: str
    metadata: dict[str, Any]


def node(**values: Any) -> SimpleNamespace:
    return SimpleNamespace(**values)


FORMS = {
    "mapping": {"id": 7, "text": "A cat sat.", "score": 0.5, "metadata": {"year": 2020}},
    "flat row": {"_id": "7", "content": "A cat sat.", "_score": "0.5", "year": 2020},
    "payload": {"id": 7, "score": 0.5, "payload": {"text": "A cat sat.", "year": 2020}},
    "entity": {"id": 7, "distance": np.float32(0.5), "entity": {"text": "A cat sat.", "year": np.int64(2020)}},
    "source": {"_id": "7", "_score": 0.5, "_source": {"body": "A cat sat.", "year": 2020}},
    "vectors are no metadata": {"id": 7, "score": 0.5, "text": "A cat sat.", "year": 2020, "vector": [0.1, 0.2]},
    "object": node(id=7, score=0.5, payload={"text": "A cat sat.", "year": 2020}, vector=[1.0]),
    "node in an object": node(id="7", score=0.5, node=node(text="A cat sat."), metadata={"year": 2020}),
    "scores in an object": node(
        uuid="7", properties={"text": "A cat sat.", "year": 2020}, metadata=node(distance=0.5, score=None)
    ),
    "pair with an object": ({"id": "7", "text": "A cat sat.", "year": 2020}, 0.5),
    "own hit": Hit("7", "A cat sat.", 0.5, metadata={"year": 2020}),
    "record": CAT,
}
ANSWERS = {
    "list": lambda hit: [hit],
    "generator": lambda hit: (one for one in [hit]),
    "result": lambda hit: {"result": [hit], "status": "ok", "time": 0.1},
    "hits in hits": lambda hit: {"took": 3, "hits": {"total": 1, "hits": [hit]}},
    "object": lambda hit: node(points=[hit]),
    "one query of several": lambda hit: [[hit]],
}


class TestForms:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("answer", ANSWERS)
    def test_every_form_in_every_answer(self, form: str, answer: str) -> None:
        assert returned_hits(ANSWERS[answer](FORMS[form])) == [CAT]

    def test_texts_and_pairs_are_numbered(self) -> None:
        hits = returned_hits(["a", ("b", 0.5), ["c", None], (Document("d", {"year": 1}), np.float64(1))])
        assert hits == [
            ReturnedHit("1", "a"),
            ReturnedHit("2", "b", 0.5),
            ReturnedHit("3", "c"),
            ReturnedHit("4", "d", 1.0, {"year": 1}),
        ]

    def test_columns_of_an_answer(self) -> None:
        answer = {"ids": [["7"]], "documents": [["A cat sat."]], "distances": [[0.5]], "metadatas": [[{"year": 2020}]]}
        assert returned_hits(answer) == [CAT]
        assert returned_hits(answer | {"ids": None, "distances": None, "metadatas": None}) == [
            ReturnedHit("1", "A cat sat.")
        ]

    def test_own_results(self) -> None:
        hits = Hits("q", (FORMS["own hit"],), "r")
        assert returned_hits(hits) == [CAT] == returned_hits(json.loads(json.dumps(hits.to_dict())))

    def test_no_hits(self) -> None:
        assert returned_hits([]) == [] == returned_hits({"hits": {"hits": []}}) == returned_hits({"documents": [[]]})

    def test_score_of_metadata_is_not_the_hits(self) -> None:
        (hit,) = returned_hits([{"text": "a", "metadata": {"score": 5}}])
        assert hit.score is None and hit.metadata == {"score": 5}

    def test_named_fields(self) -> None:
        row = {"text": "other", "headline": "a", "cos": 0.2, "score": 9, "key": "k"}
        (hit,) = returned_hits([row], Columns(text="headline", score="cos", id="key"))
        assert hit == ReturnedHit("k", "a", 0.2, {"text": "other"})

    @pytest.mark.parametrize(
        ("answer", "flaw"),
        [
            (["a", {"id": 3}], "hit 2 has no text in {'id': 3}"),
            (["a", 7], "hit 2 has no text in 7"),
            ([None], "hit 1 has no text"),
            (["a", "  "], "hit 2 has an empty text"),
            ([{"text": "a", "score": "high"}], "the score of hit 1 is 'high'; give a finite number"),
            ([("a", float("nan"))], "the score of hit 1 is nan"),
            ([("a", True)], "the score of hit 1 is True"),
            ("a text alone", "the hits are a list"),
            (7, "the hits are a list"),
            ({"rows": []}, "the hits are a list"),
            ([[{"text": "a"}], [{"text": "b"}]], "hits of 2 queries"),
            ({"documents": [["a"], ["b"]]}, "hits of 2 queries"),
            ({"documents": [["a", "b"]], "ids": [["1"]]}, "1 and 2 entries"),
        ],
    )
    def test_malformed(self, answer: Any, flaw: str) -> None:
        with pytest.raises(DataError) as error:
            returned_hits(answer)
        assert flaw in str(error.value) and "\n" not in str(error.value)


FILES = {
    ".jsonl": '{"id": 7, "text": "A cat sat.", "score": 0.5, "year": 2020}\n',
    ".csv": '"id","text","score"\n7,A cat sat.,0.5\n',
    ".tsv": "id\ttext\tscore\n7\tA cat sat.\t0.5\n",
    ".json": '{"result": [\n{"id": 7, "score": 0.5, "payload": {"text": "A cat sat."}}]}',
}


class TestFiles:
    @pytest.mark.parametrize("suffix", FILES)
    def test_file_and_stdin(self, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / f"hits{suffix}"
        path.write_text(FILES[suffix])
        (hit,) = read_hits(str(path))
        assert hit[:3] == CAT[:3]
        if suffix != ".tsv":
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILES[suffix].encode())))
            assert read_hits("-") == [hit]

    @pytest.mark.parametrize(
        ("content", "texts"),
        [
            ('"a b"\n"c"\n', ["a b", "c"]),
            ('["a", ["b", 0.5]]', ["a", "b"]),
            ('{"text": "a"}', ["a"]),
            ('{"text": "a"}\n{"text": "b"}', ["a", "b"]),
            ("text\na\n", ["a"]),
        ],
    )
    def test_forms_of_stdin(self, content: str, texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        assert [hit.text for hit in read_hits("-")] == texts

    @pytest.mark.parametrize(
        ("name", "content", "flaw"),
        [
            ("a.json", "{", "is not JSON"),
            ("a.json", '{"rows": 1}', "the hits are a list"),
            ("a.jsonl", '{"text": "a"}\n{"id": 2}\n', "hit 2 has no text"),
            ("a.jsonl", '{"text": "a"\n', "line 1"),
            ("a.csv", "id,score\n1,0.5\n", "hit 1 has no text"),
            ("a.parquet", "text\n", "cannot be read as Parquet"),
        ],
    )
    def test_errors_name_the_file(self, name: str, content: str, flaw: str, tmp_path: Path) -> None:
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(DataError) as error:
            read_hits(str(path))
        assert str(error.value).startswith(str(path)) and flaw in str(error.value)

    def test_missing_file(self, tmp_path: Path) -> None:
        for name in ("none.json", "none.jsonl"):
            with pytest.raises(DataError, match="check the path"):
                read_hits(str(tmp_path / name))
