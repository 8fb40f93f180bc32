"""Word vectors: every form of file, against a plain reading, and a clear line for each flaw."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from likewise.data.word_vectors import WordVectors, read_word_vectors
from likewise.errors import Cancelled, DataError

WORDS = ["the", "The", "cat", "naïve", "東京", ". . .", "at name@domain.com", "5", "<unk>", "x\u2028y"]


def written(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def lines_of(words: list[str], matrix: np.ndarray, end: str = "\n") -> str:
    rows = (" ".join(f"{value:.6f}" for value in row) for row in matrix)
    return "".join(f"{word} {row}{end}" for word, row in zip(words, rows, strict=True))


def random_matrix(seed: int = 0, dimension: int = 7) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(len(WORDS), dimension)).round(6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["\n", " \n", "\r\n"])
@pytest.mark.parametrize("packed", [True, False])
def test_reads_every_form_of_file(seed: int, header: bool, end: str, packed: bool, tmp_path: Path) -> None:
    matrix = random_matrix(seed)
    content = (f"{len(WORDS)} 7{end}" if header else "") + lines_of(WORDS, matrix, end)
    data = gzip.compress(content.encode()) if packed else content.encode()
    found = read_word_vectors(written(tmp_path / "vectors.vec", data), WORDS)
    assert list(found.words) == WORDS and found.matrix.dtype == np.float32
    np.testing.assert_allclose(found.matrix, matrix, atol=1e-6)


def test_keeps_wanted_words_only(tmp_path: Path) -> None:
    matrix = random_matrix()
    path = written(tmp_path / "v.txt", lines_of(WORDS, matrix))
    found = read_word_vectors(path, {"cat", "THE", "dog"})
    assert found.words == {"the": 0, "cat": 1}
    np.testing.assert_allclose(found.matrix, matrix[[0, 2]], atol=1e-6)
    assert read_word_vectors(path, []).matrix.shape == (0, 7)


def test_exact_case_comes_before_lower_case(tmp_path: Path) -> None:
    path = written(tmp_path / "v.txt", "us 1 0\nUS 0 1\nthe 1 1\n")
    found = read_word_vectors(path, {"US", "us", "The", "Us"})
    assert found.rows_of(["US", "us", "Us", "THE", "none", "The"]) == [1, 0, 0, 2, 2]


def test_first_of_two_equal_words_counts(tmp_path: Path) -> None:
    found = read_word_vectors(written(tmp_path / "v.txt", "cat 1 2\ncat 3 4\n"), ["cat"])
    assert found.matrix.tolist() == [[1, 2]]


def test_blank_lines_and_a_mark_at_the_start(tmp_path: Path) -> None:
    found = read_word_vectors(written(tmp_path / "v.txt", "\ufeffcat 1 2\n\ndog 3 4\n\n"), ["cat", "dog"])
    assert found.matrix.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("content", ["1 1\n5 0.5\n", "cat 1e-3\n", "5 0.5\n"])
def test_one_dimension(content: str, tmp_path: Path) -> None:
    assert read_word_vectors(written(tmp_path / "v.txt", content), ["cat", "5"]).matrix.shape == (1, 1)


def test_joined_keeps_both() -> None:
    left = WordVectors({"a": 0}, np.array([[1, 2]], np.float32))
    right = WordVectors({"b": 0, "a": 1}, np.array([[3, 4], [9, 9]], np.float32))
    both = left.joined(right)
    assert both.matrix[both.rows_of(["a", "b"])].tolist() == [[1, 2], [3, 4]]


FLAWS = {
    "cat 1 2\ndog 1\n": r"v.txt, line 2: 1 number where 2 are due; each line must be a word and its numbers",
    "cat 1 2\ndog 1 2 3\n": r"line 2: 3 numbers where 2 are due",
    "2 3\ncat 1 2 3\ndog 1 2\n": r"line 3: 2 numbers where 3 are due",
    "cat 1 2\ndog 1 two\n": r"line 2: 'two' is not a number; each line must be",
    "cat 1 2\ndog 1  2\n": r"line 2: 3 numbers where 2 are due; each line must be a word and its numbers, with one",
    "cat 1 2\ndog 1 nan\n": r"line 2: a number that is not finite",
    "cat 1 2\ndog 1 1e39\n": r"line 2: a number that is not finite",
    "cat\t1\t2\n": r"line 1: no word with its vector, but 'cat\\t1\\t2'; give the unpacked or gzipped text file",
    "text,label\n": r"line 1: no word with its vector, but 'text,label'",
    "\n \n": r"v.txt: no word with its vector, but ''",
    "0 300\n": r"line 1: no word with its vector, but '0 300'",
    "A cat sat on the mat.\n": r"line 1: 'cat' is not a number",
    "3 2\ncat 1 2\ndog 3 4\n": r"line 1: gives 3 as the number of words, but 2 follow; download the file again",
    "1 2\ncat 1 2\ndog 3 4\n": r"line 1: gives 1 as the number of words, but 2 follow",
    "400000 300\n": r"line 1: gives 400000 as the number of words, but 0 follow",
    "": r"v.txt: is empty; give the unpacked or gzipped text file of word vectors",
}


@pytest.mark.parametrize(("content", "message"), FLAWS.items())
def test_flaws_are_named_with_their_line(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as raised:
        read_word_vectors(written(tmp_path / "v.txt", content), {"dog"})
    assert "\n" not in str(raised.value)


def test_numbers_of_unwanted_words_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "v.txt", "cat 1 2\ndog 1 two\n")
    assert read_word_vectors(path, {"cat"}).words == {"cat": 0}


def binary_word2vec() -> bytes:
    rng = np.random.default_rng(0)
    rows = (f"word{row} ".encode() + rng.normal(size=50).astype(np.float32).tobytes() + b"\n" for row in range(60))
    return b"60 50\n" + b"".join(rows)


def binary_fasttext() -> bytes:
    return struct.pack("<2i", 793712314, 12) + np.random.default_rng(0).bytes(8000)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (binary_word2vec(), r"v.bin is a binary file, not text; give the unpacked or gzipped text file"),
        (binary_fasttext(), r"v.bin is a binary file, not text; give the unpacked"),
        (b"PK\x03\x04 zipped", r"v.bin is a ZIP .* file, not text; give the unpacked"),
        ("naïve 1 2\n".encode("latin-1"), r"v.bin, line 1: byte 0xef is not UTF-8; convert the file to UTF-8, or if"),
        (b"cat 1 2\nna\xefve 1 2\n", r"v.bin, line 2: byte 0xef is not UTF-8"),
        ("cat 1 2\n".encode("utf-16"), r"v.bin: is UTF-16; convert it to UTF-8"),
        (gzip.compress(b"cat 1 2\n" * 9, mtime=0)[:-12], r"v.bin: the gzip data is cut off or damaged"),
    ],
)
def test_files_that_are_no_utf8_text(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        read_word_vectors(written(tmp_path / "v.bin", content), ["cat"])


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file; check the path"):
        read_word_vectors(tmp_path / "v.txt", ["cat"])
    with pytest.raises(DataError, match="is a folder"):
        read_word_vectors(tmp_path, ["cat"])


def test_counts_lines_and_can_be_cancelled(tmp_path: Path) -> None:
    path, seen = written(tmp_path / "v.vec", "2 1\na 1\nb 2\n"), []
    read_word_vectors(path, ["a"], progress=lambda *call: seen.append(call))
    assert seen[-1] == (2, 2, "word vectors")

    def cancel(*call: object) -> None:
        raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        read_word_vectors(path, ["a"], progress=cancel)
