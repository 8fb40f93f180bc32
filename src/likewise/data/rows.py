"""Rows of CSV, TSV, JSON-lines, Parquet and text files, read one at a time; and errors with their location."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard

from likewise.data.remote import AnyPath, RemotePath, arrow, is_uri
from likewise.errors import DataError, first_line
from likewise.sample import SAMPLES
from likewise.storage import user_cache

SHOWN_CHARACTERS = 40
KEPT_ERRORS = 5
PARQUET = ".parquet"


class BadRow(DataError):
    """A row that cannot be used in a file that otherwise can; ``--skip-bad`` leaves it out."""


def shown(value: object) -> str:
    r"""A value as an error shows it: short, and escaped so that it stays on one line."""
    if isinstance(value, str):
        # Cut before repr: a field can hold a million characters.
        return repr(value[:SHOWN_CHARACTERS]) + ("..." if len(value) > SHOWN_CHARACTERS else "")
    text = repr(value)
    text = text if text.isprintable() else repr(text)
    return text[:SHOWN_CHARACTERS] + ("..." if len(text) > SHOWN_CHARACTERS else "")


@dataclass(frozen=True, slots=True)
class Location:
    """A file, a line in it, or a column of that line."""

    file: str
    line: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        # A file name may hold a line break or bytes that no terminal can print.
        parts = [self.file if self.file.isprintable() else repr(self.file)]
        if self.line is not None:
            parts.append(f"{'row' if self.file.endswith(PARQUET) else 'line'} {self.line}")
        if self.column is not None:
            parts.append(f"column {shown(self.column)}")
        return ", ".join(parts)

    def at(self, column: str) -> Location:
        """The same line at a column."""
        return replace(self, column=column)

    def error(self, message: str) -> DataError:
        """The error to raise or report here: a bad row if there is a line, else an error of the whole file."""
        return (DataError if self.line is None else BadRow)(f"{self}: {message}")


class SkippedRows:
    """Counts bad rows and keeps the first few errors; pass it to a reader as ``on_bad``.

    >>> skipped = SkippedRows()
    >>> skipped(DataError("a.csv, line 2, column 'text': the text is empty"))
    >>> str(skipped)
    "skipped 1 bad row (first: a.csv, line 2, column 'text': the text is empty)"
    """

    def __init__(self) -> None:
        self.count = 0
        self.errors: list[DataError] = []

    def __call__(self, error: DataError) -> None:
        """Count one bad row."""
        self.count += 1
        if len(self.errors) < KEPT_ERRORS:
            self.errors.append(error)

    def __str__(self) -> str:
        if not self.count:
            return "skipped no rows"
        return f"skipped {self.count} bad {'row' if self.count == 1 else 'rows'} (first: {self.errors[0]})"


OnBad = Callable[[DataError], None]  # What to do with a bad row: raise its error, or count it and continue
SAMPLE_BYTES = 4096
GZIP_MAGIC = b"\x1f\x8b"
CURE = "give a .csv, .tsv, .jsonl, .parquet or .txt file"

MAGIC = {
    b"\x89PNG": "a PNG", b"\xff\xd8\xff": "a JPEG", b"GIF8": "a GIF", b"%PDF-": "a PDF", b"{\\rtf": "an RTF",
    b"PK\x03\x04": "a ZIP (or Excel, Word, PyTorch)", b"\xd0\xcf\x11\xe0": "an old Excel or Word",
    b"\x7fELF": "an ELF", b"SQLite format 3\0": "an SQLite", b"PAR1\x15": "a Parquet", b"ARROW1\0\0": "an Arrow",
    b"\x89HDF": "an HDF5", b"\x93NUMPY": "a NumPy", b"\xfd7zXZ\0": "an xz", b"\x28\xb5\x2f\xfd": "a zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z", b"BZh91AY&SY": "a bzip2", GZIP_MAGIC: "a twice gzipped",
    **{b"\x80" + bytes([protocol]): "a pickle" for protocol in range(2, 6)},
}  # fmt: skip


@dataclass
class Cursor:
    """Where a reader is in a file, after so many bytes, lines and rows; another reader can begin there.

    Readers move it. It holds the header, which a reader that begins below it does not see.
    """

    offset: int = 0
    lines: int = 0
    rows: int = 0
    header: list[str] | None = None

    def copy(self) -> Cursor:
        """The place where it is now."""
        return replace(self)


def text_lines(path: AnyPath, file: str, newline: str = "\n", cursor: Cursor | None = None) -> Iterator[str]:
    """Yield a file's lines with their line ends, from a cursor on; bytes that are not UTF-8 become lone surrogates.

    ``file`` is the name that errors show, ``newline`` is that of ``open``.
    """
    at = Cursor() if cursor is None else cursor
    with _opened(path, file) as binary:
        if at.offset:
            binary.seek(at.offset)
        elif binary.peek(3).startswith(codecs.BOM_UTF8):
            at.offset = len(binary.read(3))
        with io.TextIOWrapper(binary, "utf-8", errors="surrogateescape", newline=newline) as text:
            for line in text:
                at.offset += len(line) if line.isascii() else len(line.encode("utf-8", "surrogateescape"))
                at.lines += 1
                yield line


def check_text(path: AnyPath, file: str) -> None:
    """Rejects a file that cannot be opened or does not begin as text."""
    with _opened(path, file):
        pass


@contextmanager
def _opened(path: AnyPath, file: str) -> Iterator[io.BufferedReader[Any]]:
    """The file's bytes, unpacked; every failure to open or read it becomes a DataError."""
    location = Location(file)
    if path.is_fifo():
        raise location.error("is a pipe, and files are read more than once; write it to a file first")
    try:
        with _buffered(path) as raw:
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


def _buffered(path: AnyPath) -> io.BufferedReader[Any]:
    return path.open("rb") if isinstance(path, Path) else io.BufferedReader(path.open())


def _check_start(sample: bytes, location: Location) -> None:
    if not sample.removeprefix(codecs.BOM_UTF8):
        raise location.error(f"is empty; {CURE} with at least one row")
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _is_bare_utf16(sample):
        raise location.error("is UTF-16; convert it to UTF-8, for example with iconv -f UTF-16 -t UTF-8")
    if (kind := _binary_kind(sample)) is not None:
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
    """Latin text in UTF-16 without a byte order mark: nearly every second byte is zero, and no other."""
    odd, even = sample[1::2], sample[::2]
    zeros = sorted((odd.count(0), even.count(0)))
    return len(odd) >= 8 and zeros[0] == 0 and zeros[1] > 0.8 * len(odd)


def _is_binary(sample: bytes) -> bool:
    """Not UTF-8 and full of control bytes; text in another encoding has almost none."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in sample)
        return controls > max(8, len(sample) // 20)
    return False


FIELD_CHARACTERS = 2**24  # more than any text: an open quote must not swallow a large file

CSV_FLAWS = {
    "unexpected end of data": "a quote opened in this row is never closed",
    "',' expected after '\"'": "a quote inside a quoted field; write it twice",
    "field larger than field limit": f"a field of over {FIELD_CHARACTERS} characters; is a quote left open?",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One record: its values by column, the line it starts on, and its number among the data rows."""

    values: Mapping[str, object]
    line: int
    number: int


Fields = tuple[int, list[str] | DataError]  # A line number with the fields that start there, or with the error


def suffix_of(path: AnyPath) -> str:
    """The suffix that names the format, without ``.gz`` and in lower case."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def rows(path: AnyPath, file: str, report: OnBad, cursor: Cursor | None = None) -> Iterator[Row]:
    """Yield a file's rows, from a cursor on; bad ones go to ``report``, and a file without any row is an error.

    ``file`` is the name that errors show.
    """
    at = Cursor() if cursor is None else cursor
    parse = FORMATS.get(suffix_of(path))
    if parse is None:
        check_text(path, file)  # "is a Parquet file" says more than "unknown suffix"
        text = ", ".join(suffix for suffix in FORMATS if suffix != PARQUET)
        flaw = f"unknown suffix {shown(suffix_of(path))}; name it {text}, each also with .gz, or {PARQUET}"
        raise Location(file).error(f"{flaw} (one object per line is .jsonl)")
    for line, values in parse(path, file, at):
        at.rows += 1
        if isinstance(values, DataError):
            report(values)
        else:
            yield Row(values, line, at.rows)
    if at.rows == 0:
        raise Location(file).error("holds no rows; add at least one (below the header, if it has one)")


Values = Mapping[str, object] | DataError  # The values by column, or the error
Parsed = Iterator[tuple[int, Values]]  # The line number and the values of each row


def csv_rows(path: AnyPath, file: str, cursor: Cursor) -> Parsed:
    """Comma-separated values with a header, standard quoting, line breaks inside quotes."""
    # The limit belongs to the whole process, so it is only raised.
    csv.field_size_limit(max(csv.field_size_limit(), FIELD_CHARACTERS))
    return _headed(_csv_records(text_lines(path, file, "", cursor), file, cursor), file, cursor)


def tsv_rows(path: AnyPath, file: str, cursor: Cursor) -> Parsed:
    """Tab-separated values with a header and no quoting: STS files are full of stray quotes."""
    lines = enumerate(text_lines(path, file, cursor=cursor), start=cursor.lines + 1)
    records: Iterator[Fields] = ((line, _content(text).split("\t")) for line, text in lines if _content(text))
    return _headed(records, file, cursor)


def line_rows(path: AnyPath, file: str, cursor: Cursor) -> Parsed:
    """A text per line, or a JSON value: an object, a string (a text), or a list of two strings (a pair)."""
    is_plain = suffix_of(path) == ".txt"
    for line, text in enumerate(text_lines(path, file, cursor=cursor), start=cursor.lines + 1):
        if text.strip():
            location = Location(file, line)
            values = {"text": _content(text)} if is_plain else _json_values(_content(text), location)
            yield line, _foreign_bytes([text], location) or values


def parquet_rows(path: AnyPath, file: str, cursor: Cursor) -> Parsed:
    """The rows of a Parquet file; a value that JSON does not have, such as a date, is a text."""
    with _opened_parquet(path, file) as parquet:
        done, before = 0, cursor.rows
        for group in range(parquet.num_row_groups):
            done += parquet.metadata.row_group(group).num_rows
            if done <= before:
                continue  # the cursor is behind this group
            first = done - parquet.metadata.row_group(group).num_rows
            for batch in parquet.iter_batches(row_groups=[group]):
                skipped = min(max(before - first, 0), len(batch))
                first += len(batch)
                for number, values in enumerate(batch.slice(skipped).to_pylist(), start=first - len(batch) + skipped):
                    yield number + 1, {name: _plain(value) for name, value in values.items()}


@contextmanager
def _opened_parquet(path: AnyPath, file: str) -> Iterator[Any]:
    """The file as pyarrow reads it; every failure to open or read it becomes a DataError."""
    library, location = arrow("pyarrow"), Location(file)
    try:
        with path.open("rb") as stream, arrow("parquet").ParquetFile(stream) as parquet:
            yield parquet
    except (library.ArrowException, OSError) as error:
        raise location.error(f"cannot be read as Parquet ({first_line(error)}); check the file") from None


def _plain(value: object) -> object:
    """A value as JSON has it, or as a text."""
    if isinstance(value, str | int | float | bool | list | dict | None):
        return value
    return str(value)


LINES = dict.fromkeys((".jsonl", ".ndjson", ".txt"), line_rows)
FORMATS: dict[str, Callable[[AnyPath, str, Cursor], Parsed]] = {
    ".csv": csv_rows,
    ".tsv": tsv_rows,
    **LINES,
    PARQUET: parquet_rows,
}


def is_splittable(path: AnyPath) -> bool:
    """Whether a reader can begin in the middle of the file: it is one, and it is not gzipped.

    >>> is_splittable(Path("texts.csv.gz"))
    False
    """
    return suffix_of(path) in FORMATS and not path.name.lower().endswith(".gz") and not path.is_dir()


def is_text_pair(value: object) -> TypeGuard[list[str]]:
    """Whether a JSON value is a list of exactly two strings."""
    return isinstance(value, list) and len(value) == 2 and all(isinstance(item, str) for item in value)


def _content(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")


def _csv_records(lines: Iterable[str], file: str, cursor: Cursor) -> Iterator[Fields]:
    # Strict: otherwise an open quote silently swallows the rest of the file into one text.
    reader = csv.reader(lines, strict=True)
    while True:
        line = cursor.lines + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            message = next((flaw for start, flaw in CSV_FLAWS.items() if str(error).startswith(start)), str(error))
            extent = f" (the row reaches to line {cursor.lines})" if cursor.lines != line else ""
            yield line, Location(file, line).error(message + extent)
            continue
        if fields:
            yield line, fields


def _headed(records: Iterator[Fields], file: str, cursor: Cursor) -> Parsed:
    """Name the fields of each record by the first record of the file."""
    header = cursor.header
    for line, fields in records:
        location = Location(file, line)
        if header is None:
            header = cursor.header = _header(fields, location)
        elif isinstance(fields, DataError):
            yield line, fields
        else:
            yield line, _flaw(fields, header, location) or dict(zip(header, fields, strict=True))


def _header(fields: list[str] | DataError, location: Location) -> list[str]:
    if isinstance(fields, DataError):
        raise fields
    if error := _foreign_bytes(fields, location):
        raise error
    names = [name.strip() for name in fields]
    for name in names:
        # Columns without a name (pandas writes one for its index) are never read, so they may repeat.
        if name and names.count(name) > 1:
            raise location.error(f"column {shown(name)} appears twice in the header; rename one of them")
    return names


def _flaw(fields: list[str], header: list[str], location: Location) -> DataError | None:
    if len(fields) != len(header):
        count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
        cure = "put quotes around a text that holds the separator" if len(fields) > len(header) else "complete it"
        return location.error(f"{count} where the header has {len(header)}; {cure}")
    return _foreign_bytes(fields, location, header)


def _foreign_bytes(fields: list[str], location: Location, header: list[str] | None = None) -> DataError | None:
    """The error for the first byte that is not UTF-8."""
    for index, field in enumerate(fields):
        if (byte := foreign_byte(field)) is not None:
            at = location if header is None else location.at(header[index])
            return at.error(f"byte 0x{byte:02x} is not UTF-8; convert the file to UTF-8")
    return None


def foreign_byte(text: str) -> int | None:
    """The first byte that is not UTF-8, which ``text_lines`` decodes to a lone surrogate; None without any."""
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return ord(text[error.start]) - 0xDC00
    return None


def _json_values(text: str, location: Location) -> Values:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        return location.error(f"not JSON ({error.msg} at character {error.colno}); write one object per line")
    except (ValueError, RecursionError):
        return location.error("not usable JSON (a number too long or nesting too deep); write one object per line")
    # An escape such as \ud83d alone is legal JSON but not text; only lines with such escapes are checked.
    if "\\ud" in text.lower() and foreign_byte(json.dumps(value, ensure_ascii=False)) is not None:
        return location.error("holds half of a surrogate pair (\\ud800 to \\udfff), which is not text; remove it")
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return {"text": value}
    if is_text_pair(value):
        return dict(zip(("sentence1", "sentence2"), value, strict=True))
    return location.error(f"expected an object, a string or a list of two strings, got {shown(value)}")


SUFFIXES = tuple(f"{suffix}{packed}" for suffix in FORMATS for packed in ("", ".gz"))


def locate(name: str | Path, data_dir: Path | None = None) -> Path:
    """The file behind a path, a built-in name, or a name such as ``stsb/test`` in a data folder.

    Data folders are ``data_dir``, ``$LIKEWISE_DATA`` and ``data`` in the user's cache, in this order.

    >>> locate("sample/pairs").name
    'pairs.csv'
    """
    # Not Path.exists: it raises on a name that is too long, such as a text in place of a file.
    if os.path.isfile(name):
        return Path(name)
    if str(name) in SAMPLES:
        return SAMPLES[str(name)]
    given = (data_dir, os.environ.get("LIKEWISE_DATA"), user_cache() / "data")
    folders = [Path(folder).expanduser() for folder in given if folder]
    # A name must not lead out of the data folder.
    if not Path(name).is_absolute() and ".." not in Path(name).parts:
        for candidate in (folder / f"{name}{suffix}" for folder in folders for suffix in ("", *SUFFIXES)):
            if os.path.isfile(candidate):
                return candidate
    if os.path.exists(name):
        return Path(name)  # a folder or a device: its reader raises the right error
    kind = "file" if str(name).lower().endswith(SUFFIXES) else "data set"
    locations = ", ".join(["the current folder", *map(str, folders)])
    raise DataError(
        f"no {kind} {shown(str(name))} in {locations}; check the path, or download the data set and pass "
        f"--data-dir DIR or set LIKEWISE_DATA; built in: {', '.join(SAMPLES)}"
    )


def find_source(name: str | Path, data_dir: Path | None = None) -> AnyPath:
    """What is behind a URI, or what ``locate`` finds."""
    return RemotePath(str(name)) if "://" in str(name) and is_uri(name) else locate(name, data_dir)
