"""Pointers: folders that say in which Milvus collection their index is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from likewise.errors import DataError, UsageError
from likewise.search.stores.address import write_pointer
from likewise.search.stores.folder import MANIFEST, POINTER, address_of

SERVER = "milvus://localhost:19530/news"


def test_where_an_index_is(tmp_path: Path) -> None:
    assert address_of(tmp_path) == str(tmp_path) == address_of(str(tmp_path))
    assert address_of(tmp_path / "not there") == str(tmp_path / "not there")
    assert address_of(None, SERVER) == address_of(tmp_path, SERVER) == address_of(SERVER) == SERVER
    assert address_of("milvus:news.db") == "milvus:news.db"


def test_a_pointer_is_followed_and_can_be_turned(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    write_pointer(folder, SERVER)
    assert address_of(folder) == SERVER and [path.name for path in folder.iterdir()] == [POINTER]
    write_pointer(folder, "milvus://elsewhere:1/news")
    assert address_of(str(folder)) == "milvus://elsewhere:1/news"
    assert address_of(folder, "milvus:/x/own.db") == "milvus:/x/own.db", "what is given goes first"


@pytest.mark.parametrize("store", ["news.db", "sqlite:news.db", "", "http://localhost:19530"])
def test_an_unknown_store(store: str) -> None:
    with pytest.raises(
        UsageError, match=r"unknown store .*; give milvus://HOST:PORT/COLLECTION or milvus:FILE\.db or qdrant://"
    ):
        address_of(None, store)


@pytest.mark.parametrize("content", ["", "{", "[]", '"x"', "{}", "null", "1"])
def test_damage_is_told_with_its_cure(tmp_path: Path, content: str) -> None:
    (tmp_path / POINTER).write_text(content)
    with pytest.raises(DataError, match=rf"{POINTER} is damaged; give the store itself, or point to it again"):
        address_of(tmp_path)
    assert address_of(tmp_path, SERVER) == SERVER


def test_damage_in_bytes(tmp_path: Path) -> None:
    (tmp_path / POINTER).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is damaged"):
        address_of(tmp_path)


@pytest.mark.parametrize("content", ['{"store": 5}', '{"store": null}', '{"store": "/etc/passwd"}'])
def test_what_is_no_address(tmp_path: Path, content: str) -> None:
    (tmp_path / POINTER).write_text(content)
    with pytest.raises(DataError, match="is damaged"):
        address_of(tmp_path)


def test_a_folder_with_an_index_of_its_own_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text("{}")
    with pytest.raises(UsageError, match="already holds an index of its own; give another --out"):
        write_pointer(tmp_path, SERVER)
    assert [path.name for path in tmp_path.iterdir()] == [MANIFEST]


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(OSError, match="file"):
        write_pointer(tmp_path / "file", SERVER)
    assert (tmp_path / "file").read_text() == "precious"


def test_a_relative_database_is_found_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_pointer(Path("folder"), "milvus:news.db#today")
    assert address_of(tmp_path / "folder") == f"milvus:{tmp_path / 'news.db'}#today"
    assert json.loads((tmp_path / "folder" / POINTER).read_text())["store"].startswith("milvus:/")
