"""Vectors as Parquet files: the same rows as vectors.npy, read by other engines; and windows that travel."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from likewise import progress
from likewise.data import Dataset
from likewise.encoder import Encoder, forward
from likewise.encoder.parquet_folder import ParquetFolder
from likewise.encoder.stream import Manifest, encode_file, open_vectors
from likewise.encoder.windows import file_stream
from likewise.encoder.workers import ALONE, Processes
from likewise.errors import Cancelled, DataError, LikewiseError, UsageError
from likewise.sample import sample_sentences
from likewise.storage import file_hash

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra: parquet)")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "WINDOW_TEXTS", 32)


@pytest.fixture
def source(tmp_path: Path) -> Dataset:
    rows = [{"id": f"r{row}", "text": f"{sample_sentences()[row % 300]} – {row}"} for row in range(150)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return Dataset(str(path))


def read(folder: Path) -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed (extra: pandas)").read_parquet(folder)


def stored(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_another_engine_reads_the_folder(tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
    encode_file(tiny, source, tmp_path / "npy")
    done = encode_file(tiny, source, ParquetFolder(tmp_path / "parquet"))
    vectors, ids = open_vectors(tmp_path / "npy")
    table = read(tmp_path / "parquet")
    assert table["id"].tolist() == ids
    assert np.array_equal(np.stack(table["vector"].tolist()), vectors)
    shards = done.manifest.shards
    assert [shard["rows"] for shard in shards] == [32, 32, 32, 32, 22]
    assert all(file_hash(tmp_path / "parquet" / shard["file"]) == shard["sha256"] for shard in shards)


def test_a_cancelled_run_goes_on(
    tiny: Encoder, source: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_CALLS", 0.0)
    folder = ParquetFolder(tmp_path / "stopped")
    folder.seconds_between_commits = 0.0

    def stop(done: int, *_: Any) -> None:
        if done >= 70 and (manifest := Manifest.read(tmp_path / "stopped", "_manifest.json")) and manifest.rows:
            raise Cancelled

    with pytest.raises(Cancelled):
        encode_file(tiny, source, folder, progress=stop)
    manifest = Manifest.read(tmp_path / "stopped", "_manifest.json")
    assert manifest is not None and 0 < manifest.rows < 150 and not manifest.complete
    encode_file(tiny, source, folder)
    encode_file(tiny, source, ParquetFolder(tmp_path / "whole"))
    assert stored(tmp_path / "stopped") == stored(tmp_path / "whole")


@pytest.mark.process
def test_workers_write_the_same_files(tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
    for workers in (1, 2):
        encode_file(tiny, source, ParquetFolder(tmp_path / str(workers)), workers=workers)
    assert stored(tmp_path / "1") == stored(tmp_path / "2")


def test_a_folder_that_workers_do_not_reach_is_written_here(tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
    class Apart(Processes):
        def reaches(self, place: object) -> bool:
            return False

    encode_file(tiny, source, ParquetFolder(tmp_path / "apart"), workers=Apart())
    encode_file(tiny, source, ParquetFolder(tmp_path / "here"))
    assert stored(tmp_path / "apart") == stored(tmp_path / "here")


def test_layouts_do_not_mix(tiny: Encoder, source: Dataset, tmp_path: Path) -> None:
    encode_file(tiny, source, tmp_path / "npy")
    with pytest.raises(UsageError, match=r"already holds .*; give a new or empty folder as --out"):
        encode_file(tiny, source, ParquetFolder(tmp_path / "npy"))


def test_a_folder_that_cannot_be_written_is_one_line(
    tiny: Encoder, source: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("likewise.encoder.parquet_folder.write_atomically", full)
    message = r"part-000000000000.parquet cannot be written \(No space left on device\); run the same command again"
    with pytest.raises(LikewiseError, match=message):
        encode_file(tiny, source, ParquetFolder(tmp_path / "full"))


# How windows travel


def test_a_window_of_a_file_travels_without_its_texts(source: Dataset) -> None:
    items, cut = file_stream(source, ALONE)
    windows = list(cut(items, 0))
    for window in windows:
        sent = pickle.dumps(window)
        assert len(sent) < 2000
        assert list(pickle.loads(sent).items) == list(window.items)
    assert [window.first for window in windows] == [0, 32, 64, 96, 128]


def test_windows_after_a_prefix_are_those_of_the_file(source: Dataset) -> None:
    items, cut = file_stream(source, ALONE)
    taken = [next(items) for _ in range(45)]
    found = [item for window in cut(items, 45) for item in pickle.loads(pickle.dumps(window)).items]
    assert [*taken, *found] == [(row.id, row.text) for row in source.texts()]


def test_a_file_that_a_worker_does_not_have_is_one_line(source: Dataset, tmp_path: Path) -> None:
    items, cut = file_stream(source, ALONE)
    sent = [pickle.dumps(window) for window in cut(items, 0)]
    path = Path(source.name)
    path.write_text(path.read_text(encoding="utf-8").replace("r1", "R1"), encoding="utf-8")
    with pytest.raises(DataError, match="has changed, or is another file for a worker; put it where every worker"):
        pickle.loads(sent[0]).items  # noqa: B018
    path.unlink()
    with pytest.raises(DataError, match=r"a worker cannot read .*texts.jsonl \(.*no data set|no file") as raised:
        pickle.loads(sent[0]).items  # noqa: B018
    assert "\n" not in str(raised.value)
