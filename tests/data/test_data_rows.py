from __future__ import annotations

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from likewise.data.rows import CURE, FIELD_CHARACTERS, MAGIC, check_text, rows, suffix_of, text_lines
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
    ("name", "content"), [("a.csv", "text,label\n"), ("a.tsv", "text\tlabel\n"), ("a.jsonl", "\n\n"), ("a.txt", " \n")]
)
def test_no_rows(read: Read, name: str, content: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name, content)
    assert str(caught.value) == (f"{name}: holds no rows; add at least one (below the header, if it has one)")


@pytest.mark.parametrize(("name", "suffix"), [("a.json", "'.json'"), ("a", "''"), ("a.gz", "''")])
def test_unknown_suffix(read: Read, name: str, suffix: str) -> None:
    with pytest.raises(DataError) as caught:
        read(name, "[]")
    assert str(caught.value) == (
        f"{name}: unknown suffix {suffix}; name it .csv, .tsv, .jsonl, .ndjson, .txt, each also with .gz, or .parquet "
        "(one object per line is .jsonl)"
    )


def test_a_binary_file_with_an_unknown_suffix_is_named(read: Read) -> None:
    with pytest.raises(DataError, match=r"^a.arrow is an Arrow file, not text; give a .csv"):
        read("a.arrow", b"ARROW1\0\0")


def message(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        list(text_lines(path, path.name))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(folder: Path, content: bytes, name: str = "a.csv") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_lines_of_plain_and_gzipped_files(tmp_path: Path) -> None:
    plain = write(tmp_path, b"a\r\nb\n")
    hidden = write(tmp_path, gzip.compress(b"a\r\nb\n"), "b.csv")
    misnamed = write(tmp_path, b"a\r\nb\n", "c.csv.gz")
    assert [list(text_lines(path, "a")) for path in (plain, hidden, misnamed)] == [["a\r\n", "b\n"]] * 3


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert list(text_lines(write(tmp_path, b"\xef\xbb\xbftext\n"), "a")) == ["text\n"]


def test_foreign_bytes_come_as_surrogates(tmp_path: Path) -> None:
    assert list(text_lines(write(tmp_path, b"caf\xe9\nok\n"), "a")) == ["caf\udce9\n", "ok\n"]


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", gzip.compress(b"", mtime=0)])
def test_empty_files(tmp_path: Path, content: bytes) -> None:
    assert message(write(tmp_path, content)) == f"a.csv: is empty; {CURE} with at least one row"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_utf16(tmp_path: Path, encoding: str) -> None:
    summary = message(write(tmp_path, "text\nA plane is taking off.\n".encode(encoding)))
    if encoding != "utf-32":
        assert summary == ("a.csv: is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8")


@pytest.mark.parametrize("magic", MAGIC, ids=MAGIC.values())
def test_known_binary_files(tmp_path: Path, magic: bytes) -> None:
    content = gzip.compress(gzip.compress(b"a")) if MAGIC[magic] == "a twice gzipped" else magic + b"\0" * 9
    assert message(write(tmp_path, content)) == f"a.csv is {MAGIC[magic]} file, not text; {CURE}"


def test_binary_files_inside_gzip(tmp_path: Path) -> None:
    summary = message(write(tmp_path, gzip.compress(b"\x89PNG\r\n\x1a\n")))
    assert summary == f"a.csv is a PNG file, not text; {CURE}"


def test_tar_and_safetensors(tmp_path: Path) -> None:
    tar = b"name".ljust(257, b"\0") + b"ustar\0"
    assert message(write(tmp_path, tar)).startswith("a.csv is a tar file, not text;")
    tensors = (80).to_bytes(8, "little") + b'{"__metadata__":{}}'
    assert message(write(tmp_path, tensors)).startswith("a.csv is a safetensors file, not text;")


def test_random_bytes(tmp_path: Path) -> None:
    noise = b"\xfe" + random.Random(0).randbytes(5000)
    assert message(write(tmp_path, noise)) == f"a.csv is a binary file, not text; {CURE}"


@pytest.mark.parametrize("encoding", ["cp1251", "shift-jis", "gb2312"])
def test_text_in_another_encoding_is_not_called_binary(tmp_path: Path, encoding: str) -> None:
    text = "Привет, мир\n" if encoding == "cp1251" else "中国人民\n"
    assert len(list(text_lines(write(tmp_path, (text * 500).encode(encoding)), "a"))) == 500


def test_text_with_nul_bytes_is_not_called_binary(tmp_path: Path) -> None:
    assert list(text_lines(write(tmp_path, b"a\0b\0c\0\n" * 900), "a"))[899] == "a\0b\0c\0\n"


def test_a_start_that_cuts_a_character_is_text(tmp_path: Path) -> None:
    content = "x" * 4095 + "é" + "\x01" * 10_000
    assert list(text_lines(write(tmp_path, content.encode()), "a")) == [content]


@pytest.mark.parametrize("cut", [slice(0, 400), slice(0, -4), slice(0, 5)])
def test_gzip_cut_off(tmp_path: Path, cut: slice) -> None:
    packed = gzip.compress(random.Random(0).randbytes(3000).hex().encode())
    assert message(write(tmp_path, packed[cut])) == (
        "a.csv: the gzip data is cut off or damaged; download or pack it again"
    )


def test_gzip_damaged(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(random.Random(0).randbytes(30_000).hex().encode()))
    packed[10_000:10_050] = bytes(50)
    assert "the gzip data is cut off or damaged" in message(write(tmp_path, bytes(packed)))


def test_missing_file_and_folder(tmp_path: Path) -> None:
    assert message(tmp_path / "no.csv") == "no.csv: no such file; check the path"
    (tmp_path / "dir.csv").mkdir()
    assert message(tmp_path / "dir.csv") == "dir.csv: is a folder; give one of the files in it"


@pytest.mark.parametrize(
    ("failure", "summary"),
    [
        (PermissionError(13, "Permission denied"), "no permission to read it; change its mode or its owner"),
        (OSError(5, "Input/output error"), "cannot be read (Input/output error); check the disk and the path"),
    ],
)
def test_files_that_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: OSError, summary: str
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise failure

    # The tests may run as root, whom no mode keeps out.
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError) as caught:
        check_text(tmp_path / "a.csv", "a.csv")
    assert str(caught.value) == f"a.csv: {summary}"


def test_a_pipe_is_refused_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="is a pipe"):
        check_text(tmp_path / "pipe.csv", "pipe.csv")
