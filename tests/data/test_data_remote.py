"""Files behind URIs, Parquet files, and readers that begin in the middle of a file."""

from __future__ import annotations

import datetime
import json
from itertools import islice
from pathlib import Path

import pytest

from likewise.data import Dataset, read_scored_pairs, read_texts
from likewise.data.remote import RemotePath, path_of, write_atomically
from likewise.data.rows import Cursor, find_source, is_splittable
from likewise.errors import DataError, MissingExtra

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra: parquet)")
from pyarrow import parquet  # noqa: E402

TEXTS = ["plain", "two\nlines", "café – 東京", 'a "quote"', "", "last, one"] * 7  # an empty text is a bad row


def written(folder: Path, kind: str) -> Path:
    """The same rows in a format, with a mark at the start of text files and other ends of lines."""
    path = folder / f"texts.{kind}"
    rows = [{"id": f"r{number}", "text": text, "year": 2000 + number} for number, text in enumerate(TEXTS)]
    if kind == "parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=5)
    elif kind == "csv":
        quoted = ('"' + row["text"].replace('"', '""') + '"' for row in rows)
        lines = [f"{row['id']},{text},{row['year']}\r\n" for row, text in zip(rows, quoted, strict=True)]
        path.write_bytes(("\ufeffid,text,year\r\n" + "".join(lines)).encode())
    elif kind == "tsv":
        lines = [f"{row['id']}\t{row['text'].replace(chr(10), ' ')}\t{row['year']}\n\n" for row in rows]
        path.write_text("id\ttext\tyear\n" + "".join(lines), encoding="utf-8")
    else:
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("uri", [False, True])
def test_a_reader_can_begin_after_any_row(kind: str, uri: bool, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    source = Dataset(f"file://{path}" if uri else str(path), skip_bad=True)
    rows = list(source.stream(read_texts))
    assert len(rows) == 35 and is_splittable(find_source(source.name))
    cursor = Cursor()
    stream = source.stream(read_texts, cursor=cursor)
    for done in range(1, len(rows)):
        next(stream)
        found = list(islice(source.stream(read_texts, cursor=cursor.copy()), 3))
        assert found == rows[done : done + 3]
        assert [row.meta for row in found] == [row.meta for row in rows[done : done + 3]]


@pytest.mark.parametrize(("kind", "where"), [("csv", "line 7"), ("jsonl", "line 5"), ("parquet", "row 5")])
def test_a_bad_row_has_the_same_name_in_the_middle(kind: str, where: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    cursor, errors = Cursor(), list[str]()
    next(Dataset(str(path)).stream(read_texts, cursor=cursor))
    source = Dataset(str(path), skip_bad=True)
    list(source.stream(read_texts, lambda error: errors.append(str(error)), cursor.copy()))
    whole: list[str] = []
    list(source.stream(read_texts, lambda error: whole.append(str(error))))
    assert errors == whole and where in errors[0] and len(errors) == 7


def test_parquet_has_types_and_pairs(tmp_path: Path) -> None:
    day = datetime.date(2024, 5, 1)
    rows = [{"sentence1": "a", "sentence2": "b", "score": 2.5, "day": day, "on": True, "none": None}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "pairs.parquet")
    [pair] = Dataset(str(tmp_path / "pairs.parquet")).stream(read_scored_pairs)
    assert (pair.left, pair.right, pair.score) == ("a", "b", 2.5)
    assert pair.meta == {"day": "2024-05-01", "on": "true"}


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read as Parquet \(.*\); check the file") as raised:
        Dataset(str(tmp_path / "a.parquet")).texts()
    assert "\n" not in str(raised.value)
    with pytest.raises(DataError, match=r"file:///.*gone.csv: no such file"):
        Dataset(f"file://{tmp_path}/gone.csv").texts()
    with pytest.raises(DataError, match=r"nothing://x/a.csv cannot be reached \(.*\); check the URI"):
        Dataset("nothing://x/a.csv").texts()


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "parquet")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(MissingExtra, match=r'pip install "likewise\[parquet\]"'):
        Dataset(str(path)).texts()


@pytest.mark.parametrize("uri", [False, True])
def test_files_are_written_whole(uri: bool, tmp_path: Path) -> None:
    place = path_of(f"file://{tmp_path}/new" if uri else tmp_path / "new")
    assert isinstance(place, RemotePath) == uri
    place.mkdir(parents=True, exist_ok=True)
    for data in (b"old", b"new"):
        write_atomically(place / "a.bin", data)
    assert [path.name for path in place.iterdir()] == ["a.bin"]
    assert (tmp_path / "new" / "a.bin").read_bytes() == b"new" and (place / "a.bin").exists()


def test_gzipped_files_and_folders_are_not_split(tmp_path: Path) -> None:
    assert not is_splittable(tmp_path / "a.csv.gz") and not is_splittable(tmp_path)
