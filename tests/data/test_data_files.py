from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import pytest

from likewise.data.rows import CURE, MAGIC, check_text, text_lines
from likewise.errors import DataError


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
        (
            OSError(5, "Input/output error"),
            "cannot be read (Input/output error); check the disk and the path",
        ),
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
