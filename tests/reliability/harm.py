"""Strategies that damage files: bytes cut, repeated and replaced; a value of a JSON document replaced."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
HOSTILE = st.sampled_from([
    b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08", b"PK\x03\x04", b"\n" * 9, b'"', b"'", b",,,,", b"{}",
    b"[]", b"[" * 9_000, b"1e999", b"NaN", b"-0", b"null", b"../../etc/passwd", b"%s%n", b"\xed\xa0\x80", b"\r",
    b"=1+1", "\u202e\u0000\ufeff\U0001f600".encode(), b"a" * 70_000, b"__import__('os')", b"<script>", b"9" * 5_000,
])  # fmt: skip
PIECES = st.one_of(st.binary(max_size=40), HOSTILE, JSON.map(lambda value: json.dumps(value).encode()))


@st.composite
def harmed(draw: st.DrawFn, content: bytes) -> bytes:
    """The content after one to three blows."""
    for _ in range(draw(st.integers(1, 3))):
        start, end = sorted(draw(st.tuples(*[st.integers(0, len(content))] * 2)))
        how = draw(st.sampled_from(["cut", "keep", "insert", "replace", "repeat"]))
        piece = draw(PIECES) if how in ("insert", "replace") else b""
        content = {
            "cut": content[:start] + content[end:],
            "keep": content[start:end],
            "insert": content[:start] + piece + content[start:],
            "replace": content[:start] + piece + content[end:],
            "repeat": content[:end] + content[start:end][:10_000] + content[end:],
        }[how]
    return content


@st.composite
def harmed_json(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three of its values replaced, removed or added to."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        holders = _holders(document)
        if not holders:
            return draw(JSON)
        holder = draw(st.sampled_from(holders))
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key, how = draw(st.sampled_from(keys)), draw(st.sampled_from(["replace", "remove", "other"]))
        if how == "replace":
            holder[key] = draw(JSON)
        elif how == "remove":
            del holder[key]
        elif isinstance(holder, dict):  # another value of the same document
            holder[key] = copy.deepcopy(draw(st.sampled_from(list(holder.values()))))
    return document


def _holders(document: Any) -> list[Any]:
    """All objects and arrays in a document that hold something."""
    found = [document] if isinstance(document, dict | list) and document else []
    inner = document.values() if isinstance(document, dict) else document if isinstance(document, list) else []
    return found + [each for value in inner for each in _holders(value)]
