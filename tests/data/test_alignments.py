"""Alignments that people made: what a line means, and what is said of a bad one."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise.data import AlignedPair, Dataset, WordLink, read_alignments
from likewise.errors import DataError

LINK = {"left": [0, 1], "right": [1], "type": "SPE1_FACT", "score": 4}
GOOD = {"id": "7", "left": ["Old", "cat", "."], "right": ["A", "cat"], "links": [LINK]}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8")
    return path


def test_a_line(tmp_path: Path) -> None:
    (pair,) = read_alignments(write(tmp_path / "a.jsonl", GOOD))
    assert pair == AlignedPair(("Old", "cat", "."), ("A", "cat"), (WordLink((0, 1), (1,), "SPE1_FACT", 4.0),), "7")
    assert pair.links[0].kind == "SPE1"
    assert pair.texts == ("Old cat .", "A cat")
    for text, spans, words in zip(pair.texts, pair.spans, (pair.left, pair.right), strict=True):
        assert [text[slice(*span)] for span in spans] == list(words)


def test_linked_words_are_all_of_a_group_with_all_of_the_other() -> None:
    links = (WordLink((0, 2), (0, 1), "EQUI"), WordLink((1,), (), "NOALI"), WordLink((1,), (2,), "OPPO"))
    pair = AlignedPair(("a", "b", "c"), ("d", "e", "f"), links, "1")
    np.testing.assert_array_equal(pair.linked(), [[1, 1, 0], [0, 0, 1], [1, 1, 0]])
    np.testing.assert_array_equal(pair.linked("OPPO"), [[0, 0, 0], [0, 0, 1], [0, 0, 0]])


def test_gzip_words_with_blanks_and_rows_without_an_id(tmp_path: Path) -> None:
    row = {"left": ["8 claims:", "é"], "right": ["b"], "links": [{"left": [0], "right": [], "type": "NOALI"}]}
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(row).encode()))
    (pair,) = read_alignments(path)
    assert pair.id == "1" and pair.texts[0][slice(*pair.spans[0][1])] == "é" and pair.links[0].score is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"left": "a cat"}, "column 'left': expected a list of words, got 'a cat'"),
        ({"right": []}, "column 'right': expected a list of words, got []"),
        ({"right": ["a", " "]}, "column 'right': expected a list of words"),
        ({"links": None}, "column 'links': expected a list of links, got None"),
        ({"links": [3]}, "expected a link with left, right and type, got 3"),
        ({"links": [LINK | {"type": None}]}, "expected a link with left, right and type"),
        ({"links": [LINK | {"left": [3]}]}, "no word 3 in the left text, which has words 0 to 2"),
        ({"links": [LINK | {"right": [-1]}]}, "no word -1 in the right text"),
        ({"links": [LINK | {"right": [True]}]}, "expected word indices, got [True]"),
        ({"links": [LINK | {"right": 1}]}, "expected word indices, got 1"),
        ({"links": [LINK | {"score": "5"}]}, "expected a number or null as score, got '5'"),
    ],
)
def test_a_bad_line_says_where_and_why(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = write(tmp_path / "a.jsonl", GOOD, GOOD | change)
    with pytest.raises(DataError) as error:
        list(read_alignments(path))
    assert f"{path}, line 2" in str(error.value) and words in str(error.value) and "\n" not in str(error.value)
    rows = Dataset(str(path), skip_bad=True).rows(read_alignments)
    assert len(rows) == rows.skipped == 1


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="alignments are JSON lines"):
        read_alignments(write(tmp_path / "a.csv", "left,right", "a,b"))
    with pytest.raises(DataError, match="line 1: not JSON"):
        read_alignments(write(tmp_path / "a.jsonl", "{"))


def test_the_public_files(shared_data: Path) -> None:
    sizes = {"headlines_train": 756, "headlines_test": 375, "images_train": 750, "images_test": 375}
    for name, size in sizes.items():
        pairs = list(read_alignments(f"ists/{name}", data_dir=shared_data))
        assert len(pairs) == size
        for pair in pairs:
            covered = [{index for link in pair.links for index in getattr(link, side)} for side in ("left", "right")]
            assert covered == [set(range(len(pair.left))), set(range(len(pair.right)))]
