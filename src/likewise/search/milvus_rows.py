"""Rows of a Milvus collection: their keys, their fields for passages and metadata, and what fits into them."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from likewise.data.rows import foreign_byte
from likewise.errors import DataError
from likewise.search.documents import Document, Origin
from likewise.search.milvus_address import Row, key_of

TEXT_BYTES = 65_535  # Milvus's greatest VARCHAR
KEY_BYTES = TEXT_BYTES - 20  # Of an id, with room for the number of a passage
MOST_BLANKS = 10_000
PASSAGE, METADATA = "passage", "metadata"  # JSON fields of an index of passages, or of texts with metadata
SEPARATOR = "|"  # Between the key of a document and the number of a passage; no key has one


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
    place = [found[name] for name in ("number", "of", "start", "end")] if "of" in found else None
    details = {"passage": place, "blanks": found["blanks"], "metadata": row[METADATA]}
    return Origin.of(details, int(found["content"], 16))


def fields_of(origin: Origin) -> dict[str, Any]:
    """The fields that hold where a row comes from."""
    place = {} if origin.passage is None else asdict(origin.passage)
    passage = place | {"blanks": list(origin.blanks), "content": f"{origin.content:x}"}
    return {"number": place.get("number", 1), PASSAGE: passage, METADATA: dict(origin.metadata)}


def bytes_of(row: Row) -> int:
    """The size of a row without its vector."""
    details = len(json.dumps([row[PASSAGE], row[METADATA]])) if PASSAGE in row else 0
    return len(row["id"]) + len(row["text"].encode()) + details


def checked_key(name: str, text: str) -> str:
    """The key of a row that fits into Milvus."""
    try:
        key, size = key_of(name), len(text.encode())
    except UnicodeEncodeError as error:
        flaw = "has half of a surrogate pair, which is not a character"
        raise DataError(f"the text of {name!r} {flaw}; correct it") from error
    if len(key) > TEXT_BYTES:
        raise DataError(f"the id {name[:40]!r}... is too long for Milvus: {len(key)} bytes, at most {TEXT_BYTES}")
    if size > TEXT_BYTES:
        raise DataError(f"the text of {name!r} is too long for Milvus: {size} bytes, at most {TEXT_BYTES}; split it")
    return key


def check_document(document: Document, is_cut: bool) -> None:
    """Rejects a document that does not fit into Milvus; ``is_cut`` is for one that is cut into passages."""
    checked_key(document.id, "" if is_cut else document.text)
    metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
    for flaw, is_wrong in {
        "has half of a surrogate pair, which is not a character": foreign_byte(document.text + metadata) is not None,
        f"has {MOST_BLANKS:,} blanks in a row": is_cut and re.search(rf"\s{{{MOST_BLANKS}}}", document.text),
        f"has an id of more than {KEY_BYTES:,} bytes": len(key_of(document.id)) > KEY_BYTES,
        f"has more than {TEXT_BYTES:,} characters of metadata": len(metadata) > TEXT_BYTES,
    }.items():
        if is_wrong:
            raise DataError(f"the document {document.id!r} {flaw}; correct it")
