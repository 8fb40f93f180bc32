"""Rows of a server's collection: their keys, their fields for passages and metadata, and what fits into them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from likewise.data.rows import foreign_byte
from likewise.errors import DataError
from likewise.search.documents import Document, Origin

BATCH_ROWS = 1024  # of the longest texts in Milvus these are 67 MB; a server sends at most 100 MB at once
BATCH_BYTES = 8_000_000
KEY_BYTES = 65_535 - 20  # Of an id, with space for the number of a passage
METADATA_CHARACTERS = 65_535
MOST_BLANKS = 10_000
PASSAGE, METADATA = "passage", "metadata"  # JSON fields of an index of passages, or of texts with metadata
SEPARATOR = "|"  # Between the key of a document and the number of a passage; no key has one
_EMPTY_ID = "%"  # no quoted id is a lone percent sign
_READABLE = " /:@#+=,"
Row = dict[str, Any]
"""The fields id, place, text and vector; with origins also number, passage and metadata."""


@dataclass(frozen=True)
class Limits:
    """What a text of a server may be."""

    server: str
    text_bytes: int = BATCH_BYTES
    zero: bool = True  # whether it may contain the character U+0000


def key_of(name: str) -> str:
    """An id as servers store it: in ASCII, without quotes and backslashes.

    pymilvus puts primary keys between quotes without escaping them, and Milvus Lite has no parameters for filters,
    so a key must not be able to end its own quotes.
    """
    return quote(name, safe=_READABLE, errors="surrogatepass") or _EMPTY_ID


def id_of(key: str) -> str:
    """The id that a key was made of."""
    return "" if key == _EMPTY_ID else unquote(key, errors="surrogatepass")


def uuid_of(key: str) -> UUID:
    """A key as a number of 128 bits, for servers whose own keys are short."""
    return UUID(bytes=hashlib.blake2b(key.encode(), digest_size=16).digest())


def passage_key(name: str, number: int = 1) -> str:
    """The key of a passage of a document.

    >>> passage_key("a|b", 3)
    'a%7Cb|3'
    """
    return f"{key_of(name)}{SEPARATOR}{number}"


def origin_of(row: Row) -> Origin:
    """Where a row comes from."""
    if PASSAGE not in row:
        return Origin(0)
    found = row[PASSAGE]
    passage = [found[name] for name in ("number", "of", "start", "end")] if "of" in found else None
    details = {"passage": passage, "blanks": found["blanks"], "metadata": row[METADATA]}
    return Origin.of(details, int(found["content"], 16))


def fields_of(origin: Origin) -> dict[str, Any]:
    """The fields that hold where a row comes from."""
    found = {} if origin.passage is None else asdict(origin.passage)
    passage = found | {"blanks": list(origin.blanks), "content": f"{origin.content:x}"}
    return {"number": found.get("number", 1), PASSAGE: passage, METADATA: dict(origin.metadata)}


def bytes_of(row: Row) -> int:
    """The size of a row without its vector."""
    details = len(json.dumps([row[PASSAGE], row[METADATA]])) if PASSAGE in row else 0
    return len(row["id"]) + len(row["text"].encode()) + details


def checked_key(name: str, text: str, limits: Limits) -> str:
    """The key of a row that fits."""
    try:
        key, size = key_of(name), len(text.encode())
    except UnicodeEncodeError as error:
        flaw = "has half of a surrogate pair, which is not a character"
        raise DataError(f"the text of {name!r} {flaw}; correct it") from error
    flaw, most = f"is too long for {limits.server}", KEY_BYTES + 20
    if len(key) > most:
        raise DataError(f"the id {name[:40]!r}... {flaw}: {len(key)} bytes, at most {most}; shorten it")
    if size > limits.text_bytes:
        raise DataError(f"the text of {name!r} {flaw}: {size} bytes, at most {limits.text_bytes}; split it")
    if "\0" in text and not limits.zero:
        raise DataError(f"the text of {name!r} has the character U+0000, which {limits.server} cannot hold; correct it")
    return key


def check_document(document: Document, is_cut: bool, limits: Limits) -> None:
    """Rejects a document that does not fit; ``is_cut`` is for one that is cut into passages."""
    checked_key(document.id, "" if is_cut else document.text, limits)
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
    has_zero = "\0" in document.text + "".join(map(str, [*document.metadata, *document.metadata.values()]))
    for flaw, is_wrong in {
        "has half of a surrogate pair, which is not a character": foreign_byte(document.text + metadata) is not None,
        f"has {MOST_BLANKS:,} blanks in a row": is_cut and re.search(rf"\s{{{MOST_BLANKS}}}", document.text),
        f"has an id of more than {KEY_BYTES:,} bytes": len(key_of(document.id)) > KEY_BYTES,
        f"has more than {METADATA_CHARACTERS:,} characters of metadata": len(metadata) > METADATA_CHARACTERS,
        f"has the character U+0000, which {limits.server} cannot hold": has_zero and not limits.zero,
    }.items():
        if is_wrong:
            raise DataError(f"the document {document.id!r} {flaw}; correct it")


def batches(sizes: Sequence[int]) -> Iterator[slice]:
    """Cut rows of these sizes in bytes into batches that a server accepts.

    >>> list(batches([5_000_000, 5_000_000, 1]))
    [slice(0, 1, None), slice(1, 3, None)]
    """
    start = total = 0
    for index, size in enumerate(sizes):
        if index > start and (index - start == BATCH_ROWS or total + size > BATCH_BYTES):
            yield slice(start, index)
            start, total = index, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))
