"""Addresses, pointers and manifests of any bytes: each is read, or refused in one line."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from likewise.errors import DataError, LikewiseError, UsageError
from likewise.search.stores import StoredRows, open_store
from likewise.search.stores.address import Address
from likewise.search.stores.folder import (
    FORMS,
    MANIFEST,
    POINTER,
    FolderStore,
    IndexManifest,
    address_of,
    building,
    has_scheme,
)

PARTS = st.sampled_from([
    "milvus", "qdrant", "postgresql", ":", "/", "//", "://", "host", "127.0.0.1", "[::1]", "[", "]", ",", "@", "#", "?",
    "%", "~", "~nobody9/", ".db", "..", "\0", "\n", " ", "1", "65535", "65536", "٣", "news", "a-b", "ü", "\ud800", "",
    "user:secret@", "x" * 300,
])  # fmt: skip
ADDRESSES = st.one_of(
    st.text(max_size=60),
    st.lists(PARTS, max_size=12).map("".join),
    st.tuples(st.sampled_from(list(FORMS)), st.lists(PARTS, max_size=10).map("".join)).map("://".join),
    st.tuples(st.sampled_from(list(FORMS)), st.text(max_size=20), st.text(max_size=20)).map(
        lambda parts: f"{parts[0]}://{parts[1]}:1/{parts[2]}"
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FUZZED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


def one_line(error: LikewiseError) -> None:
    text = str(error)
    assert text and "\n" not in text and "secret" not in text.partition("'")[0]


@pytest.mark.slow
@settings(max_examples=1000, **FUZZED)
@given(written=ADDRESSES)
@example(written="milvus:~nobody9/x.db")
@example(written="postgresql://h:1/d/t\n")
def test_an_address_is_read_or_refused(written: str) -> None:
    try:
        found = Address.parse(written)
    except UsageError as error:
        one_line(error)
        return
    assert has_scheme(written) and found.collection.isidentifier()
    assert found.file is not None or all(node.isascii() and node.isprintable() for node in found.nodes)
    assert Address.parse(found.absolute).collection == found.collection
    assert "@" not in "".join(found.nodes)


@pytest.mark.slow
@settings(max_examples=300, **FUZZED)
@given(content=st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()) | JSON.map(
    lambda value: json.dumps({"store": value}).encode()
) | ADDRESSES.map(lambda value: json.dumps({"store": value}).encode()))  # fmt: skip
@example(content=b"[" * 100_000)
def test_a_pointer_is_followed_or_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / POINTER).write_bytes(content)
    try:
        assert has_scheme(address_of(tmp_path))
    except DataError as error:
        one_line(error)


@pytest.fixture(scope="module")
def manifest() -> Iterator[tuple[Path, dict[str, Any]]]:
    """A small index, and what its manifest says."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with building(folder, IndexManifest({"model": "tiny", "metadata": True}, 3)) as writer:
            writer.append(StoredRows(["a", "b"], ["x", "y"], np.eye(2, 3, dtype=np.float32)))
            writer.commit()
        yield folder, json.loads((folder / MANIFEST).read_text())


def read(folder: Path) -> None:
    with contextlib.suppress(LikewiseError), open_store(folder) as store:
        store.nearest(np.ones((1, 3), np.float32), 1)
        list(store.windows())


KEYS = st.sampled_from([
    "settings", "dimension", "engine_kind", "bits", "source", "segments", "engine", "attachments", "change", "number",
    "format", "sha256", "more",
])  # fmt: skip


@pytest.mark.slow
@settings(max_examples=400, **FUZZED)
@given(
    changes=st.dictionaries(KEYS, JSON, min_size=1, max_size=3), gone=st.lists(KEYS, max_size=1), signed=st.booleans()
)
def test_a_manifest_is_read_or_refused(
    manifest: tuple[Path, dict[str, Any]], changes: dict[str, Any], gone: list[str], signed: bool
) -> None:
    folder, written = manifest
    changed = {name: value for name, value in (written | changes).items() if name not in gone}
    if signed:  # one that another program made, with a checksum that fits
        with contextlib.suppress(Exception):
            changed["sha256"] = signature(changed)
    (folder / MANIFEST).write_text(json.dumps(changed))
    read(folder)


@pytest.mark.slow
@settings(max_examples=100, **FUZZED)
@given(changes=st.dictionaries(st.sampled_from(["name", "rows", "files", "more"]), JSON, min_size=1))
def test_a_segment_is_read_or_refused(manifest: tuple[Path, dict[str, Any]], changes: dict[str, Any]) -> None:
    folder, written = manifest
    changed = written | {"segments": [written["segments"][0] | changes]}
    with contextlib.suppress(Exception):
        changed["sha256"] = signature(changed)
    (folder / MANIFEST).write_text(json.dumps(changed))
    read(folder)


@settings(max_examples=100, **FUZZED)
@given(content=st.binary(max_size=80) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_as_a_manifest(manifest: tuple[Path, dict[str, Any]], content: bytes) -> None:
    folder, _ = manifest
    (folder / MANIFEST).write_bytes(content)
    with pytest.raises(DataError) as caught:
        FolderStore.open(folder)
    one_line(caught.value)


def signature(stored: dict[str, Any]) -> str:
    from likewise.search.stores.folder import EngineEntry, SegmentEntry

    given = {name: value for name, value in stored.items() if name not in ("sha256", "segments", "engine")}
    segments = tuple(SegmentEntry(**entry) for entry in stored["segments"])
    engine = None if stored["engine"] is None else EngineEntry(**stored["engine"])
    return IndexManifest(**given, segments=segments, engine=engine).checksum
