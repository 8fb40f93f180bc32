"""Storage: files whole or not at all, keys of content, a cache that may fail, one writer at a time."""

from __future__ import annotations

import logging
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from likewise.errors import UsageError
from likewise.storage import (
    DRAFT,
    OLD_DRAFT_SECONDS,
    FileCache,
    atomic_write,
    content_key,
    file_hash,
    only_writer,
    user_cache,
    write_text,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


class Stopped(BaseException):
    """What a kill or Ctrl-C in the middle of a write looks like."""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("error", [OSError("disk full"), Stopped()])
def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, unique: bool, error: BaseException) -> None:
    path = tmp_path / "note.txt"
    path.write_text("old")

    def write(draft: Path) -> None:
        draft.write_text("half")
        raise error

    with pytest.raises(type(error)):
        atomic_write(path, write, unique)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["note.txt"]


def test_a_write_that_fails_leaves_no_file_where_none_was(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        atomic_write(tmp_path / "note.txt", lambda _: 1 / 0)
    assert names(tmp_path) == []


def test_the_draft_is_on_disk_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda _: calls.append("sync"))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("rename"), replace(*paths)))
    write_text(tmp_path / "note.txt", "gr\u00fcn")
    assert calls == ["sync", "rename", "sync"]
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "gr\u00fcn"


def write_often(path: Path, content: str) -> None:
    """A whole file of one letter, several times."""
    cache = FileCache(path.parent, path.suffix)
    for _ in range(20):
        cache.write(path.stem, lambda draft: draft.write_text(content))


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["threads", "processes"])
def test_several_writers_of_one_key(tmp_path: Path, pool: str) -> None:
    path, contents = tmp_path / "key.txt", [letter * 100_000 for letter in "abcd"]
    chosen: Any = (
        ThreadPoolExecutor(4) if pool == "threads" else ProcessPoolExecutor(2, mp_context=get_context("spawn"))
    )
    with chosen as executor:
        jobs = [executor.submit(write_often, path, content) for content in contents]
        while not all(job.done() for job in jobs):
            found = FileCache(tmp_path, ".txt").read("key", Path.read_text)
            assert found is None or found in contents
        for job in jobs:
            job.result()
    assert path.read_text() in contents
    assert names(tmp_path) == ["key.txt"]


@given(st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=5))
def test_key_order_does_not_matter(parts: dict[str, Any]) -> None:
    assert content_key(parts) == content_key(dict(reversed(parts.items())))


@given(JSON, JSON)
def test_other_content_has_another_key(left: Any, right: Any) -> None:
    same = repr(left) == repr(right) or left == right
    assert same or content_key(left) != content_key(right)
    assert content_key(left, right) != content_key([left, right])


def test_a_hash_is_that_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert file_hash(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_a_missing_file_is_none_and_a_damaged_one_too(tmp_path: Path) -> None:
    cache = FileCache(tmp_path / "new", ".json")
    assert cache.read("a", Path.read_text) is None
    cache.write("a", lambda draft: draft.write_bytes(b"\xff{"))

    def damaged(path: Path) -> str:
        return path.read_text(encoding="utf-8")

    assert cache.read("a", damaged) is None
    for error in (KeyError("x"), EOFError(), TypeError()):

        def raising(_: Path, error: Exception = error) -> None:
            raise error

        assert cache.read("a", raising) is None


def test_a_mistake_in_the_reader_is_not_hidden(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, ".txt")
    cache.write("a", lambda draft: draft.write_text("1"))
    with pytest.raises(AttributeError):
        cache.read("a", lambda path: path.no_such_method())  # type: ignore[attr-defined]


def test_a_cache_that_cannot_be_written_is_only_slower(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = FileCache(tmp_path / "file" / "cache", ".txt")
    with caplog.at_level(logging.WARNING):
        cache.write("a", lambda draft: draft.write_text("1"))
    assert "cannot write to the cache" in caplog.text
    assert cache.read("a", Path.read_text) is None


def aged(path: Path, seconds: float) -> Path:
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def test_pruning_removes_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, ".bin", max_bytes=25)
    for age, key in enumerate("abcd", start=1):
        cache.write(key, lambda draft: draft.write_bytes(b"x" * 10))
        aged(cache.path(key), 100 * age)
    assert cache.read("d", Path.read_bytes) == b"x" * 10  # reading is using
    (tmp_path / "other.txt").write_text("not of this cache")
    cache.prune()
    assert names(tmp_path) == ["a.bin", "d.bin", "other.txt"]


def test_pruning_removes_old_drafts_and_leaves_those_of_living_writers(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, ".bin")
    cache.write("a", lambda draft: draft.write_bytes(b"x"))
    aged(cache.path("a"), 10 * OLD_DRAFT_SECONDS)
    (tmp_path / f"new{DRAFT}").write_text("")
    (tmp_path / f"old{DRAFT}").write_text("")
    aged(tmp_path / f"old{DRAFT}", OLD_DRAFT_SECONDS + 60)
    cache.prune()
    assert names(tmp_path) == ["a.bin", f"new{DRAFT}"]


def test_pruning_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    FileCache(tmp_path / "none", ".bin", 1).prune()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    lock, refused = tmp_path / ".lock", []

    def second() -> None:
        try:
            with only_writer(lock, tmp_path, "give another --out"):
                pass
        except UsageError as error:
            refused.append(str(error))

    with only_writer(lock, tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert refused == [f"another process is writing to {tmp_path}; give another --out"]
    second()
    assert len(refused) == 1


def test_the_cache_folder_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", "~/own")
    assert user_cache() == Path.home() / "own"
    monkeypatch.delenv("LIKEWISE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/tmp/xdg")
    assert user_cache() == Path("/tmp/xdg/likewise")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert user_cache() == Path.home() / ".cache" / "likewise"


def test_a_user_without_a_home_learns_how_to_give_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("LIKEWISE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "expanduser", homeless)
    with pytest.raises(UsageError, match="set LIKEWISE_CACHE"):
        user_cache()
