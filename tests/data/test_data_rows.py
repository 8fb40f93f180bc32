from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from likewise.data.rows import FIELD_CHARACTERS, rows, suffix_of
from likewise.errors import DataError

Read = Callable[[str, bytes | str], list[tuple[int, int, dict[str, object]]]]


@pytest.fixture
def bad() -> list[str]:
    return []


@pytest.fixture
def read(tmp_path: Path, bad: list[str]) -> Read:
    def read_rows(name: str, content: bytes | str) -> list[tuple[int, int, dict[str, object]]]:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        found = rows(path, name, lambda error: bad.append(str(error)))
        return [(row.number, row.line, dict(row.values)) for row in found]

    return read_rows


def test_suffixes() -> None:
    names = ["a.csv", "a.CSV.GZ", "b.c.tsv", "a.gz", "a"]
    assert [suffix_of(Path(name)) for name in names] == [".csv", ".csv", ".tsv", "", ""]


def test_csv(read: Read) -> None:
    content = '\ufeff text ,label\r\n"two\r\nlines",1\r\n\r\n"a ""b"", c",2\r\n'
    assert read("a.csv", content) == [
        (1, 2, {"text": "two\r\nlines", "label": "1"}),
        (2, 5, {"text": 'a "b", c', "label": "2"}),
    ]


def test_csv_gzipped_whatever_the_suffix(read: Read) -> None:
    packed = gzip.compress(b"text\nhello\n")
    assert read("a.csv", packed) == read("a.csv.gz", packed) == [(1, 2, {"text": "hello"})]


def test_csv_with_old_line_ends(read: Read) -> None:
    assert read("a.csv", "text,label\ra,1\rb,2\r")[1] == (2, 3, {"text": "b", "label": "2"})


def test_csv_stray_quotes_inside_a_field_are_kept(read: Read) -> None:
    assert read("a.csv", 'text,label\na "b" c,1\n')[0][2]["text"] == 'a "b" c'


def test_csv_wrong_number_of_fields(read: Read, bad: list[str]) -> None:
    assert read("a.csv", "text,label\na\nb,1\nc,d,1\n") == [(2, 3, {"text": "b", "label": "1"})]
    assert bad == [
        "a.csv, line 2: 1 field where the header has 2; complete it",
        "a.csv, line 4: 3 fields where the header has 2; put quotes around a text that holds the separator",
    ]


def test_csv_quote_left_open_swallows_nothing_silently(read: Read, bad: list[str]) -> None:
    assert [row[0] for row in read("a.csv", 'text,label\na,1\nb,"2\nc,3\nd,4\n')] == [1]
    assert bad == ["a.csv, line 3: a quote opened in this row is never closed (the row reaches to line 5)"]


def test_csv_quote_not_doubled(read: Read, bad: list[str]) -> None:
    assert [row[1] for row in read("a.csv", 'text,label\n"a "b" c",1\nd,2\n')] == [3]
    assert bad == ["a.csv, line 2: a quote inside a quoted field; write it twice"]


def test_csv_endless_field(read: Read, bad: list[str]) -> None:
    content = "text\n" + "x" * (FIELD_CHARACTERS + 1) + "\nb\n"
    assert read("a.csv", content) == [(2, 3, {"text": "b"})]
    assert bad == ["a.csv, line 2: a field of over 16777216 characters; is a quote left open?"]


def test_csv_header_flaws(read: Read) -> None:
    with pytest.raises(DataError, match=r"^a.csv, line 1: column 'text' appears twice in the header; rename"):
        read("a.csv", "text,label, text\na,1,b\n")
    with pytest.raises(DataError, match=r"^a.csv, line 1: byte 0xe9 is not UTF-8; convert"):
        read("a.csv", b"caf\xe9\na\n")
    with pytest.raises(DataError, match=r"^a.csv, line 1: a quote opened in this row is never closed"):
        read("a.csv", '"text\na\n')


def test_csv_columns_without_a_name_may_repeat(read: Read) -> None:
    assert read("a.csv", ",text,\n0,a,\n")[0][2]["text"] == "a"


def test_tsv_quotes_mean_nothing(read: Read) -> None:
    content = 'text\tlabel\r\n"open\t1\r\n\r\nsaid "x"\t\r\n'
    assert read("a.tsv", content) == [
        (1, 2, {"text": '"open', "label": "1"}),
        (2, 4, {"text": 'said "x"', "label": ""}),
    ]


def test_tsv_wrong_number_of_fields(read: Read, bad: list[str]) -> None:
    assert read("a.tsv", "text\tlabel\na\nb\t1\n") == [(2, 3, {"text": "b", "label": "1"})]
    assert bad == ["a.tsv, line 2: 1 field where the header has 2; complete it"]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.JSONL"])
def test_jsonl(read: Read, name: str) -> None:
    content = '{"text": "a\\nb", "n": 1}\r\n\n"bare"\n["l", "r"]\n{"set": ["l", "r"]}'
    assert read(name, content) == [
        (1, 1, {"text": "a\nb", "n": 1}),
        (2, 3, {"text": "bare"}),
        (3, 4, {"sentence1": "l", "sentence2": "r"}),
        (4, 5, {"set": ["l", "r"]}),
    ]


def test_jsonl_bad_lines(read: Read, bad: list[str]) -> None:
    lines = ['{"text": "a"', "5", '["a"]', "[" * 100_000, "9" * 5000, r'"\ud83d"', r'"\ud83d\ude00"', '"x"']
    assert [row[2]["text"] for row in read("a.jsonl", "\n".join(lines))] == ["😀", "x"]
    assert bad == [
        "a.jsonl, line 1: not JSON (Expecting ',' delimiter at character 13); write one object per line",
        "a.jsonl, line 2: expected an object, a string or a list of two strings, got 5",
        "a.jsonl, line 3: expected an object, a string or a list of two strings, got ['a']",
        *[
            f"a.jsonl, line {line}: not usable JSON (a number too long or nesting too deep); write one object per line"
            for line in (4, 5)
        ],
        "a.jsonl, line 6: holds half of a surrogate pair (\\ud800 to \\udfff), which is not text; remove it",
    ]


def test_plain_text(read: Read) -> None:
    assert read("a.txt", "one\r\n\n  \ntwo \n\tthree") == [
        (1, 1, {"text": "one"}),
        (2, 4, {"text": "two "}),
        (3, 5, {"text": "\tthree"}),
    ]


@pytest.mark.parametrize(
    ("name", "content", "place"),
    [
        ("a.csv", b"text,label\nok,1\ncaf\xe9,1\nok,2\n", "a.csv, line 3, column 'text'"),
        ("a.tsv", b"text\tlabel\nok\t1\n1\tcaf\xe9\nok\t2\n", "a.tsv, line 3, column 'label'"),
        ("a.jsonl", b'"ok"\n"caf\xe9"\n"ok"\n', "a.jsonl, line 2"),
        ("a.txt", b"ok\ncaf\xe9\nok\n", "a.txt, line 2"),
    ],
)
def test_foreign_bytes_name_the_line(read: Read, bad: list[str], name: str, content: bytes, place: str) -> None:
    assert [row[0] for row in read(name, content)] == [1, 3]
    assert bad == [f"{place}: byte 0xe9 is not UTF-8; convert the file to UTF-8"]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", "text,label\n"), ("a.tsv", "text\tlabel\n"), ("a.jsonl", "\n\n"), ("a.txt", " \n")],
)
def test_no_rows(read: Read, name: str, content: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name, content)
    assert str(caught.value) == (f"{name}: holds no rows; add at least one (below the header, where there is one)")


@pytest.mark.parametrize(("name", "suffix"), [("a.json", "'.json'"), ("a", "''"), ("a.gz", "''")])
def test_unknown_suffix(read: Read, name: str, suffix: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name, "[]")
    assert str(caught.value) == (
        f"{name}: unknown suffix {suffix}; name it .csv, .tsv, .jsonl, .ndjson, .txt, each also with .gz "
        "(one object per line is .jsonl)"
    )


def test_a_binary_file_with_an_unknown_suffix_is_named(read: Read) -> None:
    with pytest.raises(DataError, match=r"^a.parquet is a Parquet file, not text; give a .csv"):
        read("a.parquet", b"PAR1\x15\x04")
