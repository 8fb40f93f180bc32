"""Some rows of a file in a file of the same format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from likewise.data import Columns, Dataset
from likewise.data.writing import copy_rows
from likewise.errors import UsageError

FILES = {
    "a.csv": (
        b'id,text,x\r\n1,"a ""b"",\r\nc",7\r\n\r\n2,plain,8\r\n3,"last",9',
        b'id,text,x\r\n1,"a ""b"",\r\nc",7\r\n\r\n3,"last",9',
    ),
    "a.tsv": (b'text\tid\none "x\t1\ntwo\t2\nthree\t3\n', b'text\tid\none "x\t1\nthree\t3\n'),
    "a.txt": (b"one\n\n  two \nthree\n", b"one\n\nthree\n"),
    "a.jsonl": (b'{"text": "one"}\n{"text":"two"}\n"three"\n', b'{"text": "one"}\n"three"\n'),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_rows_keep_their_bytes(name: str, tmp_path: Path) -> None:
    whole, some = FILES[name]
    (tmp_path / name).write_bytes(whole)
    copy_rows(Dataset(str(tmp_path / name)), [True, False, True], tmp_path / f"new{Path(name).suffix}")
    assert (tmp_path / f"new{Path(name).suffix}").read_bytes() == some


def test_packed_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("ä\nb\n".encode()))
    copy_rows(Dataset(str(tmp_path / "a.txt.gz")), [True, False], tmp_path / "b.txt.gz")
    assert gzip.decompress((tmp_path / "b.txt.gz").read_bytes()).decode() == "ä\n"
    copy_rows(Dataset(str(tmp_path / "a.txt.gz")), [False, True], tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == "b\n"


def test_skipped_and_later_rows_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("text\none\n   \ntwo\nthree\n")
    source = Dataset(str(file), Columns(text="text"), skip_bad=True, limit=2)
    assert [row.text for row in source.texts()] == ["one", "two"]
    copy_rows(source, [False, True], tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == "text\ntwo\n"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    with pytest.raises(UsageError, match="exists and is not overwritten"):
        copy_rows(Dataset(str(file)), [True, False], file)
    assert file.read_text() == "one\ntwo\n"


def test_another_format(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"b.txt is no .csv file, as sample/sentences is; name it b.csv"):
        copy_rows(Dataset("sample/sentences"), [], tmp_path / "b.txt")


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make it first"):
        copy_rows(Dataset("sample/sentences"), [], tmp_path / "none" / "b.csv")


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zip"):
        copy_rows(Dataset("sample/sentences"), [True], tmp_path / "b.csv")
    assert list(tmp_path.iterdir()) == []
