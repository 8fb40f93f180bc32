"""The texts of datasets: texts, and both sides of pairs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from likewise.data import Columns, Dataset, Datasets
from likewise.errors import DataError, UsageError


def written(folder: Path, name: str, content: str) -> str:
    (folder / name).write_text(content, encoding="utf-8")
    return str(folder / name)


class TestSentences:
    def test_texts_of_a_plain_file(self, tmp_path: Path) -> None:
        file = written(tmp_path, "texts.txt", "A cat.\nA dog.\n")
        assert list(Dataset(file).sentences()) == ["A cat.", "A dog."]

    def test_both_sides_of_pairs(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2,title\nA cat.,A dog.,pets\nOne.,Two.,numbers\n")
        assert list(Dataset(file).sentences()) == ["A cat.", "A dog.", "One.", "Two."]

    def test_one_side_where_it_is_named(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2\nA cat.,A dog.\n")
        assert list(Dataset(file, Columns(text="sentence2")).sentences()) == ["A dog."]

    def test_texts_and_pairs_of_json(self, tmp_path: Path) -> None:
        texts = written(tmp_path, "texts.jsonl", json.dumps({"text": "A cat."}) + "\n")
        pairs = written(tmp_path, "pairs.jsonl", json.dumps({"premise": "One.", "hypothesis": "Two."}) + "\n")
        assert list(Datasets((Dataset(texts), Dataset(pairs))).sentences()) == ["A cat.", "One.", "Two."]

    def test_limit_is_of_each_file(self, tmp_path: Path) -> None:
        files = [written(tmp_path, f"{name}.txt", "One.\nTwo.\nThree.\n") for name in "ab"]
        assert list(Datasets([Dataset(file, limit=2) for file in files]).sentences()) == ["One.", "Two."] * 2

    def test_a_bad_row_of_pairs_is_named_as_such(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2\n,A dog.\n")
        with pytest.raises(DataError, match=r"line 2.*sentence1.*the text is empty"):
            list(Dataset(file).sentences())

    def test_a_bad_first_row_of_pairs_can_be_skipped(self, tmp_path: Path) -> None:
        file = written(tmp_path, "pairs.csv", "sentence1,sentence2\n,A dog.\nOne.,Two.\n")
        skipped: list[DataError] = []
        assert list(Dataset(file, skip_bad=True).sentences(skipped.append)) == ["One.", "Two."]
        assert len(skipped) == 1

    def test_a_file_without_texts_says_what_it_has(self, tmp_path: Path) -> None:
        file = written(tmp_path, "numbers.csv", "a,b\n1,2\n")
        with pytest.raises(DataError, match="no column for the text; its columns are"):
            list(Dataset(file).sentences())

    def test_no_file_is_refused(self) -> None:
        with pytest.raises(UsageError, match="give a file"):
            Datasets(())
