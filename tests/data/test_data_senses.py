"""Words in context, and what is said of bad rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from likewise.data import Columns, SenseExample, read_senses
from likewise.errors import DataError

HEADER = "sentence,sense,word,word_index,sense_id"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, *lines: str) -> str:
    Path(name).write_text("\n".join([*lines, ""]), encoding="utf-8")
    return name


def test_rows_are_words_in_texts() -> None:
    file = write("a.csv", HEADER, "we rob a bank .,money,bank,3,0", '"two  banks\tof the river",shore,bank,1,1')
    assert list(read_senses(file)) == [
        SenseExample("we rob a bank .", "bank", 9, 13, "money", "1"),
        SenseExample("two  banks\tof the river", "bank", 5, 10, "shore", "2"),
    ]
    assert [example.written for example in read_senses(file)] == ["bank", "banks"]


def test_blanks_of_any_kind_separate() -> None:
    [example] = read_senses(write("a.csv", HEADER, "\xa0an old\u2009bank,money,bank,2,0"))
    assert example.written == "bank"


def test_json_lines_and_other_names() -> None:
    file = write("a.jsonl", '{"_id": "x7", "text": "a bank", "lemma": "bank", "target_index": 1, "label": 3}')
    assert list(read_senses(file)) == [SenseExample("a bank", "bank", 2, 6, "3", "x7")]


def test_named_columns() -> None:
    file = write("a.csv", "sentence,other,sense,word,word_index,key", "a bank,the bank,money,bank,1,k1")
    [example] = read_senses(file, columns=Columns(text="other", id="key"))
    assert (example.text, example.id) == ("the bank", "k1")
    with pytest.raises(DataError, match=r"a\.csv: no column headline; its columns are 'sentence', 'other'"):
        read_senses(file, columns=Columns(text="headline"))


@pytest.mark.parametrize(
    ("row", "flaw"),
    [
        ("a bank,money,bank,2,0", "column 'word_index': the text has words 0 to 1, not 2.0; count them by its blanks"),
        ("a bank,money,bank,-1,0", "the text has words 0 to 1, not -1.0"),
        ("a bank,money,bank,0.5,0", "the text has words 0 to 1, not 0.5"),
        ("a bank,money,bank,x,0", "column 'word_index': expected a number, got 'x'"),
        ("a bank,money,bank,,0", "column 'word_index': the value is missing"),
        ("a bank,,bank,1,0", "column 'sense': the value is missing"),
        ("a bank,money,,1,0", "column 'word': the text is empty"),
        (",money,bank,1,0", "column 'sentence': the text is empty"),
    ],
)
def test_bad_rows_are_named_with_their_line(row: str, flaw: str) -> None:
    file = write("a.csv", HEADER, "a bank,money,bank,1,0", row, "a bank,shore,bank,1,1")
    with pytest.raises(DataError, match=f"a.csv, line 3.*{flaw}"):
        list(read_senses(file))
    bad: list[DataError] = []
    assert [example.sense for example in read_senses(file, on_bad=bad.append)] == ["money", "shore"]
    assert len(bad) == 1 and "line 3" in str(bad[0])


def test_a_file_without_a_good_row() -> None:
    file = write("a.csv", HEADER, "a bank,money,bank,9,0")
    with pytest.raises(DataError, match=r"a\.csv: no row can be used; skipped 1 bad row \(first: a\.csv, line 2"):
        read_senses(file, on_bad=lambda error: None)


def test_missing_columns_and_plain_text_are_told_at_the_call() -> None:
    with pytest.raises(
        DataError, match=r"a\.csv: no column word_index or token_index or target_index; its columns are"
    ):
        read_senses(write("a.csv", "sentence,sense,word", "a bank,money,bank"))
    with pytest.raises(DataError, match="plain text has no columns for words and senses"):
        read_senses(write("a.txt", "a bank"))


@pytest.mark.parametrize(
    ("written", "word", "is_form"),
    [("Banks", "bank", True), ("APPLE", "apple", True), ("river", "bank", False), ("at", "at", True)],
)
def test_forms_of_a_word(written: str, word: str, is_form: bool) -> None:
    assert SenseExample(written, word, 0, len(written), "x", "1").is_form == is_form


@pytest.mark.data
def test_the_public_file(shared_data: Path) -> None:
    found = list(read_senses("coarsewsd20/test", data_dir=shared_data))
    assert len(found) == 10196 and all(example.written == example.word for example in found)
    assert len({example.word for example in found}) == 20
