from __future__ import annotations

from pathlib import Path

import pytest

from likewise.data import locate
from likewise.data.rows import SAMPLES, SUFFIXES
from likewise.errors import DataError
from likewise.storage import user_cache


@pytest.fixture(autouse=True)
def lonely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder and cache, so that nothing of the machine's is found."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LIKEWISE_DATA", raising=False)


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text\nhello\n")
    return path


def test_an_existing_path_comes_first(tmp_path: Path) -> None:
    touch(tmp_path / "data" / "corpus.csv")
    here = touch(Path("corpus.csv"))
    assert locate("corpus.csv", tmp_path / "data") == here
    assert locate(here.resolve()) == here.resolve()


@pytest.mark.parametrize("name", SAMPLES)
def test_built_in_names(name: str) -> None:
    path = locate(name)
    assert path.is_file()
    assert path.parent.name == "sample"


def test_a_folder_does_not_hide_a_built_in_name() -> None:
    Path("sample/pairs").mkdir(parents=True)
    assert locate("sample/pairs").name == "pairs.csv"


@pytest.mark.parametrize("suffix", ["", *SUFFIXES])
def test_known_suffixes_are_tried(tmp_path: Path, suffix: str) -> None:
    path = touch(tmp_path / "data" / f"stsb/test{suffix}")
    assert locate("stsb/test", tmp_path / "data") == path


def test_folders_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = touch(tmp_path / "cache" / "data" / "a.csv")
    assert locate("a") == cached
    shared = touch(tmp_path / "shared" / "a.csv.gz")
    monkeypatch.setenv("LIKEWISE_DATA", str(tmp_path / "shared"))
    assert locate("a") == shared
    given = touch(tmp_path / "given" / "a.txt")
    assert locate("a", tmp_path / "given") == given


def test_an_unknown_name_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_DATA", "/shared")
    with pytest.raises(DataError) as caught:
        locate("stsb/test", Path("/given"))
    assert str(caught.value) == (
        f"no data set 'stsb/test' in the current folder, /given, /shared, {tmp_path}/cache/data; check the "
        "path, or download the data set and pass --data-dir DIR or set LIKEWISE_DATA; "
        "built in: sample/sentences, sample/pairs, sample/words, sample/queries"
    )


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("corpus.csv", "no file 'corpus.csv' in "),
        ("", "no data set '' in "),
        ("a\nb\0", "no data set 'a\\nb\\x00' in "),
        ("word " * 2000, "no data set 'word word word word word word word word '... in "),
    ],
)
def test_names_that_are_no_file(name: str, start: str) -> None:
    with pytest.raises(DataError) as caught:
        locate(name)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)


def test_a_name_cannot_leave_its_folder(tmp_path: Path) -> None:
    touch(tmp_path / "secret.csv")
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError):
        locate("../data/../secret", tmp_path / "data")


def test_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKEWISE_CACHE", "/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert user_cache() == Path("/own")
    monkeypatch.delenv("LIKEWISE_CACHE")
    assert user_cache() == Path("/xdg/likewise")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/ada")
    assert user_cache() == Path("/home/ada/.cache/likewise")
