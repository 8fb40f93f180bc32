"""Files: text out of plain and gzipped ones, and a clear word about those that hold no text."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from likewise.data.location import Location
from likewise.errors import DataError

SAMPLE_BYTES = 4096
GZIP_MAGIC = b"\x1f\x8b"
CURE = "give a .csv, .tsv, .jsonl or .txt file"

MAGIC = {
    b"\x89PNG": "a PNG",
    b"\xff\xd8\xff": "a JPEG",
    b"GIF8": "a GIF",
    b"%PDF-": "a PDF",
    b"PK\x03\x04": "a ZIP (or Excel, Word, PyTorch)",
    b"\x7fELF": "an ELF",
    b"SQLite format 3\0": "an SQLite",
    b"PAR1\x15": "a Parquet",
    b"ARROW1\0\0": "an Arrow",
    b"\x89HDF": "an HDF5",
    b"\x93NUMPY": "a NumPy",
    b"\xd0\xcf\x11\xe0": "an old Excel or Word",
    b"{\\rtf": "an RTF",
    b"\xfd7zXZ\0": "an xz",
    b"\x28\xb5\x2f\xfd": "a zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z",
    b"BZh91AY&SY": "a bzip2",
    GZIP_MAGIC: "a twice gzipped",
    **{b"\x80" + bytes([protocol]): "a pickle" for protocol in range(2, 6)},
}


def text_lines(path: Path, file: str, newline: str = "\n") -> Iterator[str]:
    """Yield a file's lines with their ends; bytes that are not UTF-8 come as lone surrogates.

    ``file`` is the name that errors show, ``newline`` is that of ``open``.

    >>> next(text_lines(Path("notes.txt"), "notes.txt"))  # doctest: +SKIP
    'first line'
    """
    with (
        _opened(path, file) as binary,
        io.TextIOWrapper(binary, "utf-8-sig", errors="surrogateescape", newline=newline) as text,
    ):
        yield from text


def check_text(path: Path, file: str) -> None:
    """Raise a DataError when the file cannot be opened or its start is not text.

    >>> check_text(Path("photo.png"), "photo.png")  # doctest: +SKIP
    DataError: photo.png is a PNG file, not text; give a .csv, .tsv, .jsonl or .txt file
    """
    with _opened(path, file):
        pass


@contextmanager
def _opened(path: Path, file: str) -> Iterator[io.BufferedReader[Any]]:
    """The file's bytes, unpacked; every failure to open or to read them becomes a DataError."""
    location = Location(file)
    if path.is_fifo():
        raise location.error("is a pipe, and files are read more than once; write it to a file first")
    try:
        with path.open("rb") as raw:
            zipped = raw.peek(2)[:2] == GZIP_MAGIC
            with io.BufferedReader(gzip.GzipFile(fileobj=raw)) if zipped else raw as binary:
                _check_start(binary.peek(SAMPLE_BYTES)[:SAMPLE_BYTES], location)
                yield binary
    except FileNotFoundError:
        raise location.error("no such file; check the path") from None
    except IsADirectoryError:
        raise location.error("is a folder; give one of the files in it") from None
    except PermissionError:
        raise location.error("no permission to read it; change its mode or its owner") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise location.error("the gzip data is cut off or damaged; download or pack it again") from None
    except OSError as error:
        raise location.error(f"cannot be read ({error.strerror or error}); check the disk and the path") from None


def _check_start(sample: bytes, location: Location) -> None:
    content = sample.removeprefix(codecs.BOM_UTF8)
    if not content:
        raise location.error(f"is empty; {CURE} with at least one row")
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _is_bare_utf16(sample):
        raise location.error("is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    kind = _binary_kind(sample)
    if kind is not None:
        raise DataError(f"{location} is {kind} file, not text; {CURE}")


def _binary_kind(sample: bytes) -> str | None:
    for magic, kind in MAGIC.items():
        if sample.startswith(magic):
            return kind
    if sample[257:262] == b"ustar":
        return "a tar"
    if sample[4:8] == b"\0\0\0\0" and sample[8:10] == b'{"':
        return "a safetensors"
    return "a binary" if _is_binary(sample) else None


def _is_bare_utf16(sample: bytes) -> bool:
    """Latin text in UTF-16 without a mark: nearly every second byte is zero, and only those."""
    odd, even = sample[1::2], sample[::2]
    zeros = sorted((odd.count(0), even.count(0)))
    return len(odd) >= 8 and zeros[0] == 0 and zeros[1] > 0.8 * len(odd)


def _is_binary(sample: bytes) -> bool:
    """Not UTF-8 and full of control bytes; text in another encoding has next to none of these."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
        return controls > max(8, len(sample) // 20)
    return False
