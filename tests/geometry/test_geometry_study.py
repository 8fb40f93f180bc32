"""Corpora of texts and pairs, and several models on one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from likewise.data import Columns
from likewise.data.corpora import CorpusSource
from likewise.encoder import Encoder
from likewise.errors import DataError, UsageError
from likewise.geometry import GeometrySettings
from likewise.geometry.comparison import compare_geometry


def written(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


class TestCorpusSource:
    def test_texts_of_a_plain_file(self, tmp_path: Path) -> None:
        file = written(tmp_path, "texts.txt", "A cat.\nA dog.\n")
        assert list(CorpusSource((file,)).read()) == ["A cat.", "A dog."]

    def test_both_sides_of_pairs(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2,title\nA cat.,A dog.,pets\nOne.,Two.,numbers\n")
        assert list(CorpusSource((file,)).read()) == ["A cat.", "A dog.", "One.", "Two."]

    def test_one_side_where_it_is_named(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2\nA cat.,A dog.\n")
        assert list(CorpusSource((file,), Columns(text="sentence2")).read()) == ["A dog."]

    def test_texts_and_pairs_of_json(self, tmp_path: Path) -> None:
        texts = written(tmp_path, "texts.jsonl", json.dumps({"text": "A cat."}) + "\n")
        pairs = written(tmp_path, "pairs.jsonl", json.dumps({"premise": "One.", "hypothesis": "Two."}) + "\n")
        assert list(CorpusSource((texts, pairs)).read()) == ["A cat.", "One.", "Two."]

    def test_limit_is_of_each_file(self, tmp_path: Path) -> None:
        files = tuple(written(tmp_path, f"{name}.txt", "One.\nTwo.\nThree.\n") for name in "ab")
        assert list(CorpusSource(files, limit=2).read()) == ["One.", "Two."] * 2

    def test_a_bad_row_of_pairs_is_named_as_such(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2\n,A dog.\n")
        with pytest.raises(DataError, match=r"line 2.*sentence1.*the text is empty"):
            list(CorpusSource((file,)).read())

    def test_a_bad_first_row_of_pairs_can_be_skipped(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2\n,A dog.\nOne.,Two.\n")
        skipped: list[DataError] = []
        assert list(CorpusSource((file,), skip_bad=True).read(skipped.append)) == ["One.", "Two."]
        assert len(skipped) == 1

    def test_a_file_without_texts_says_what_it_has(self, tmp_path: Path) -> None:
        file = written(tmp_path, "numbers.csv", "a,b\n1,2\n")
        with pytest.raises(DataError, match="no column for the text; its columns are"):
            list(CorpusSource((file,)).read())

    def test_no_file_is_refused(self) -> None:
        with pytest.raises(UsageError, match="give a file"):
            CorpusSource(())


class TestCompareGeometry:
    SETTINGS = GeometrySettings(min_contexts=3, draws=10, corrections=False)

    def test_each_model_on_the_same_words(self, tiny_folder: Path, tmp_path: Path) -> None:
        from conftest import save_tiny

        other = save_tiny(tmp_path / "other", seed=5, num_hidden_layers=3)
        table = compare_geometry(CorpusSource(("sample/pairs",)), [str(tiny_folder), str(other)], self.SETTINGS)
        first, second = table.to_dict()["results"]
        assert [len(first["layers"]), len(second["layers"])] == [3, 4]
        assert first["texts"] == second["texts"] == 120
        assert table.results[0].words.words == table.results[1].words.words
        assert first["layers"][1]["baseline"] != second["layers"][1]["baseline"]
        axes = table.plot()
        assert len(axes.lines) == 2 and len(axes.figure.axes) == 15

    def test_skipped_rows_are_counted_once(self, tiny: Encoder, tmp_path: Path) -> None:
        rows = ["the old town", "the old bank", "", "the old river"]
        file = written(tmp_path, "texts.jsonl", "".join(json.dumps({"text": row}) + "\n" for row in rows))
        source = CorpusSource((file,), skip_bad=True)
        table = compare_geometry(source, ["a", "a"], self.SETTINGS, lambda name: tiny)
        assert table.skipped == 1 and len(table.results) == 1
        assert table.to_dict()["texts"] == 3
